"""T5's buckets of distances, by the numbers that their definition gives."""

import pytest
import torch

from seq2seq_suite.config.schema import Config
from seq2seq_suite.model.variants.bucket_positions import BUCKETS, BucketPositions
from seq2seq_suite.options.backbone import Backbone


def buckets(positions, distances):
    return positions._buckets(torch.tensor(distances)).tolist()


def test_near_distances_have_a_bucket_each_and_far_ones_share():
    encoder, decoder = BucketPositions(num_heads=2), BucketPositions(num_heads=2, causal=True)
    assert buckets(encoder, [0, -1, -7, 1, 7]) == [0, 1, 7, 17, 23]
    assert buckets(decoder, [0, -1, -15, 1, 7]) == [0, 1, 15, 0, 0]
    # 16 + floor(16 log(d / 16) / log 8) and 8 + floor(8 log(d / 8) / log 16)
    assert buckets(decoder, [-16, -18, -19, -32, -127, -128, -5000]) == [16, 16, 17, 21, 31, 31, 31]
    assert buckets(encoder, [-8, -11, -12, -90, -91, -128, 8, 5000]) == [8, 8, 9, 14, 15, 15, 24, 31]


def test_every_bucket_is_used():
    ahead = list(range(-300, 301))
    assert set(buckets(BucketPositions(num_heads=1, causal=True), ahead)) == set(range(BUCKETS))
    assert set(buckets(BucketPositions(num_heads=1), ahead)) == set(range(BUCKETS)) - {16}  # of no distance behind


@pytest.mark.parametrize("causal", [False, True])
def test_the_bias_of_later_queries_is_that_of_all(causal):
    positions, query = BucketPositions(num_heads=3, causal=causal), torch.zeros(1, 3, 40, 4)
    whole = positions.bias(query)
    torch.testing.assert_close(positions.bias(query[:, :, :5], 35), whole[:, 35:])
    assert whole.shape == (3, 40, 40) and torch.equal(whole[1, 3, 1], positions.table[2, 1])


def test_a_stack_has_one_table_for_all_its_layers_and_learns_it(make_model, make_batch):
    model, batch = make_model(positions="t5"), make_batch([5, 4], [3, 4])
    model.train()
    model(batch.source, batch.source_mask, batch.target).sum().backward()
    tables = {
        stack: {id(one.attention.positions.table) for one in getattr(model, stack).layers}
        for stack in ("encoder", "decoder")
    }
    assert [len(found) for found in tables.values()] == [1, 1] and tables["encoder"] != tables["decoder"]
    assert all(
        model.get_parameter(f"{stack}.layers.0.attention.positions.table").grad.abs().sum() > 0 for stack in tables
    )


def test_what_it_does_not_go_with_is_refused():
    with pytest.raises(ValueError, match=r"t5 does not go with backbone\.encoder none"):
        Backbone.model_validate({"positions": "t5", "encoder": "none"})
    with pytest.raises(ValueError, match="two copies of the target"):
        Config.model_validate({"task": "translation", "strategy": {"kind": "blocks"}, "backbone": {"positions": "t5"}})
