"""Whole models and strategies of plain code are those of fast kernels: in loss, gradients and outputs."""

from types import SimpleNamespace

import pytest
import torch
from making import strategy_of

from seq2seq_suite import kernels
from seq2seq_suite.model.attention import KeysValues
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.parallel.ctc import Ctc

KINDS = {
    "sinusoidal": (Autoregressive, {}),
    "rotary": (Autoregressive, {"positions": "rotary", "norm": "rms"}),
    "alibi": (Autoregressive, {"positions": "alibi", "norm_placement": "post"}),
    "t5": (Autoregressive, {"positions": "t5", "activation": "geglu"}),
    "normed": (Autoregressive, {"embedding_norm": True, "scale_embeddings": False}),
    "decoder alone": (Autoregressive, {"encoder": "none"}),
    "repeated": (Autoregressive, {"encoder_steps": 2, "decoder_steps": 2}),
    "convolutions": (Ctc, {"encoder_kernel": 3, "decoder_kernel": 3}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_plain_models_learn_and_write_what_fast_ones_do(make_model, make_batch, kind):
    strategy_type, backbone = KINDS[kind]
    found, batch = [], make_batch([5, 3, 4], [4, 6, 2])
    for implementation in kernels.KINDS:
        model = make_model(noise=0.4, kernel=implementation, **backbone)
        strategy = strategy_of(strategy_type, kernel=implementation)
        loss = strategy.loss(model, batch)
        sum(loss.sums.values()).backward()
        written = [
            strategy.generate(model, batch, options=SearchOptions(beam_size=beam), limit=torch.full((3,), 8))
            for beam in (1, 3)
        ]
        outputs = [[hypothesis.symbols for hypothesis in row] for rows in written for row in rows]
        scores = torch.tensor([hypothesis.score for rows in written for row in rows for hypothesis in row])
        found.append((loss.sums, {name: value.grad for name, value in model.named_parameters()}, scores, outputs))
    (*fast, fast_outputs), (*plain, plain_outputs) = found
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-4)
    assert fast_outputs == plain_outputs


def test_every_slot_has_its_place_in_models_or_strategies(make_model, make_batch):
    called, components = set(), {}

    def noted(slot):
        plain = kernels.implementation(slot, "plain")

        def call(*given, **named):
            called.add(slot)
            return plain(*given, **named)

        return call

    for slot in kernels.SLOTS:
        components[slot] = noted(slot)
    components["cache"] = SimpleNamespace(empty=lambda like: called.add("cache") or KeysValues.empty(like))
    batch, limit = make_batch([5, 3], [4, 6]), torch.tensor([6, 6])
    for kind, backbone in ((Autoregressive, {}), (Ctc, {"decoder_kernel": 3})):
        model, strategy = make_model(dropout=0.1, **backbone), strategy_of(kind)
        for made in (model, strategy):
            kernels.accelerate(made, components=components)
        strategy.loss(model.train(), batch)
        for beam in (1, 2):
            strategy.generate(model.eval(), batch, options=SearchOptions(beam_size=beam), limit=limit)
    assert called == set(kernels.SLOTS)
