"""What goes into the first layers of encoder and decoder, as BART has it."""

import pytest
import torch

from seq2seq_suite.options.backbone import Backbone


@pytest.mark.parametrize("scaled", [False, True])
def test_it_is_the_norm_of_the_sum_of_embeddings_and_positions(make_model, scaled):
    model = make_model(positions="learned", embedding_norm=True, scale_embeddings=scaled, norm_placement="post")
    symbols, mask = torch.tensor([[4, 5, 6]]), torch.ones(1, 3, dtype=torch.bool)
    read = model.frontend(symbols, mask).values
    written = model.embed(symbols, None, offset=2)
    for part, found, offset in ((model.frontend, read, 0), (model, written, 2)):
        x = part.embedding.weight[symbols] * (part.embedding.embedding_dim**0.5 if scaled else 1.0)
        x = x + part.positions.positions.table[offset : offset + 3]
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        torch.testing.assert_close(found, x * part.positions.norm.gain + part.positions.norm.bias)


def test_each_side_learns_a_norm_of_its_own(make_model, make_batch):
    model, batch = make_model(embedding_norm=True), make_batch([5, 4], [3, 4])
    model(batch.source, batch.source_mask, batch.target).square().sum().backward()
    norms = [model.frontend.positions.norm, model.positions.norm]
    assert norms[0] is not norms[1] and all(one.gain.grad.abs().sum() > 0 for one in norms)


def test_what_it_does_not_go_with_is_refused():
    with pytest.raises(ValueError, match=r"embedding_norm does not go with backbone\.norm power"):
        Backbone.model_validate({"embedding_norm": True, "norm": "power"})
