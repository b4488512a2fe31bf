"""Layers through torch.compile: equal losses and gradients; a CPU is refused."""

import pytest
import torch

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.kernels import torch_private
from seq2seq_suite.prediction.build import compile_layers


def test_compiled_layers_have_the_loss_and_gradients_of_plain_ones(make_model, make_batch):
    model = make_model(Shape(TokenShape(20), TargetShape(20)), noise=0.4, encoder_layers=1, decoder_layers=1).train()
    batch = make_batch([5, 3], [4, 2])

    def gradients():
        model.zero_grad()
        loss = model(batch.source, batch.source_mask, batch.target).float().log_softmax(-1)[..., 4].sum()
        loss.backward()
        return [loss.detach(), *(one.grad for one in model.parameters() if one.grad is not None)]

    plain, names = gradients(), list(model.state_dict())
    for layer in (*model.encoder.layers, *model.decoder.layers):
        torch_private.compile_layer(layer, backend="aot_eager")
    for one, other in zip(plain, gradients(), strict=True):
        torch.testing.assert_close(one, other)
    assert list(model.state_dict()) == names  # a run's weights are those of plain layers
    torch._dynamo.reset()


def test_layers_of_a_kind_are_compiled_once_for_all_lengths(make_model, make_batch):
    shape = Shape(TokenShape(20), TargetShape(20))
    # On a CPU the fast attention looks whether all is visible, which a compiler cannot.
    model = make_model(shape, kernel="plain", encoder_layers=3, decoder_layers=3).train()
    for layer in (*model.encoder.layers, *model.decoder.layers):
        torch_private.compile_layer(layer, backend="eager")
    compiled = torch._dynamo.utils.counters["stats"]
    compiled.clear()
    for lengths in ([5, 3], [4, 6]), ([8, 9, 4], [6, 3, 5]), ([11, 12], [13, 10]), ([14, 9], [15, 3]):
        batch = make_batch(*lengths)
        model(batch.source, batch.source_mask, batch.target)
    assert compiled["unique_graphs"] <= 4  # the encoder's and the decoder's, where sizes are equal and where not
    torch._dynamo.reset()


def test_a_cpu_is_refused_with_the_reason(capsys, tmp_path):
    with pytest.raises(ConfigError, match="the device is cpu"):
        compile_layers(torch.nn.Linear(1, 1), torch.device("cpu"))
    reported = cli.main(
        [
            "run",
            "tasks/parsing.yaml",
            "data.size=16",
            "training.compile=true",
            "device=cpu",
            "--output",
            str(tmp_path / "run"),
        ]
    )
    assert reported == 2 and "0.72 times" in capsys.readouterr().err
