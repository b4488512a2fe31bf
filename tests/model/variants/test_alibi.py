"""ALiBi: its slopes, its scores in loops, and no last position."""

import math
from dataclasses import replace

import pytest
import torch

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.model.attention import MultiHeadAttention
from seq2seq_suite.model.layers import causal
from seq2seq_suite.model.variants.alibi import AlibiPositions
from seq2seq_suite.options.backbone import Backbone

WIDTH, HEADS, LENGTH = 8, 2, 5


def test_eight_heads_have_the_slopes_of_the_paper():
    assert AlibiPositions(num_heads=8).slopes.tolist() == [2.0**-power for power in range(1, 9)]
    assert AlibiPositions(num_heads=16).slopes[:2].tolist() == pytest.approx([2**-0.5, 2**-1])


@pytest.mark.parametrize("is_causal", [True, False])
def test_self_attention_is_its_equation_score_by_score(is_causal):
    torch.manual_seed(1)
    layer = MultiHeadAttention(WIDTH, HEADS, positions=AlibiPositions(num_heads=HEADS))
    x = torch.randn(1, LENGTH, WIDTH)
    got, _ = layer(x, causal(LENGTH) if is_causal else None)
    query, key, value = (linear(x[0]) for linear in (layer.query, layer.key, layer.value))
    rows, head_width = [], WIDTH // HEADS
    for i in range(LENGTH):
        heads = []
        for head in range(HEADS):
            own = slice(head * head_width, (head + 1) * head_width)
            seen = range(i + 1) if is_causal else range(LENGTH)
            scores = [
                query[i, own] @ key[j, own] / math.sqrt(head_width) - 2 ** (-8 * (head + 1) / HEADS) * abs(i - j)
                for j in seen
            ]
            weights = torch.stack(scores).softmax(0)
            heads.append(sum(weight * value[j, own] for weight, j in zip(weights, seen, strict=True)))
        rows.append(layer.output(torch.cat(heads)))
    torch.testing.assert_close(got[0], torch.stack(rows))


def test_later_queries_are_penalised_as_in_the_whole():
    positions, query = AlibiPositions(num_heads=HEADS), torch.zeros(3, HEADS, LENGTH, 4)
    assert torch.equal(positions.bias(query[:, :, 2:], 2), positions.bias(query)[:, 2:])
    assert positions.bias(query.bfloat16()).dtype == torch.bfloat16


def test_there_is_no_last_position(make_model, make_batch):
    model = make_model(positions="alibi", max_positions=4)
    assert model.encode(make_batch([30], [2])).values.isfinite().all()


def test_order_matters(make_model, make_batch):
    model, batch = make_model(positions="alibi"), make_batch([6], [2])
    turned = replace(batch, source=batch.source.roll(2, 1))
    ahead, back = (model.encode(one).values for one in (batch, turned))
    assert not torch.allclose(ahead, back.roll(-2, 1), atol=1e-3)
    bag = make_model(positions="none")
    torch.testing.assert_close(bag.encode(batch).values, bag.encode(turned).values.roll(-2, 1), rtol=1e-4, atol=1e-5)


def test_a_decoder_alone_with_distances_over_padding_is_refused():
    with pytest.raises((ConfigError, ValueError), match=r"alibi does not go with backbone\.encoder none"):
        Backbone.model_validate({"positions": "alibi", "encoder": "none"})
