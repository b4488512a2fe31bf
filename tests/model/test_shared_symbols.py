"""One embedding for source, target and output, where they have one vocabulary."""

import pytest
import torch
from making import num_parameters, strategy_of

from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.strategies.autoregressive import Autoregressive

V, WIDTH = 11, 16
SHARED, SEPARATE = (Shape(TokenShape(V, shared=shared), TargetShape(V)) for shared in (True, False))


@pytest.mark.parametrize("tied, matrices", [(True, 1), (False, 2)])
def test_shared_symbols_are_embedded_once(make_model, tied, matrices):
    shared = make_model(SHARED, tie_embeddings=tied)
    separate = make_model(SEPARATE, tie_embeddings=tied)
    assert shared.frontend.embedding is shared.embedding
    assert (shared.output.weight is shared.embedding.weight) == tied
    assert num_parameters(separate) - num_parameters(shared) == V * WIDTH
    assert sum(parameter.shape == (V, WIDTH) for parameter in shared.parameters()) == matrices


def test_the_gradient_of_a_shared_embedding_is_the_sum_of_its_three_uses(make_model, make_batch):
    batch = make_batch([5, 3], [4, 6], target_symbols=V)
    shared, separate = make_model(SHARED), make_model(SEPARATE, tie_embeddings=False)
    weights = {name: value for name, value in shared.state_dict().items()}
    separate.load_state_dict(weights)
    for model in (shared, separate):
        strategy_of(Autoregressive).loss(model, batch).sums["cross_entropy"].backward()
    parts = (separate.frontend.embedding, separate.embedding, separate.output)
    torch.testing.assert_close(shared.embedding.weight.grad, sum(part.weight.grad for part in parts))
