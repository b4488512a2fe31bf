"""Whisper's front-end is its two convolutions, and padding behind a window changes nothing."""

import math

import pytest
import torch

from seq2seq_suite.config.schema import Config
from seq2seq_suite.model.audio import Masking
from seq2seq_suite.model.variants.whisper_frontend import FRAMES, WhisperFrontend, halved_sinusoids

WINDOW = torch.ones(2, FRAMES, dtype=torch.bool)


def convolved(x, convolution, stride):
    """x (S,C) by the definition: a product for each place, with zeros beyond both ends."""
    padded = torch.cat((x.new_zeros(1, x.size(1)), x, x.new_zeros(1, x.size(1))))
    places = range(0, x.size(0), stride)
    return torch.stack([(padded[at : at + 3].t() * convolution.weight).sum((1, 2)) + convolution.bias for at in places])


def test_it_is_two_convolutions_with_gelu_and_sinusoids():
    torch.manual_seed(3)
    frontend, source = WhisperFrontend(5, 8, dropout_rate=0.0), torch.randn(2, FRAMES, 5)
    with torch.no_grad():
        found = frontend(source, WINDOW)
        x = torch.nn.functional.gelu(convolved(source[1, :40], frontend.first, 1))
        x = torch.nn.functional.gelu(convolved(x, frontend.second, 2))[:15]
    assert found.values.shape == (2, 1500, 8) and found.mask.shape == (2, 1500) and found.mask.all()
    sine = [[math.sin(place / 10_000 ** (i / 3)) for i in range(4)] for place in range(15)]
    torch.testing.assert_close(halved_sinusoids(15, 8)[:, :4], torch.tensor(sine))
    torch.testing.assert_close(found.values[1, :15], x + halved_sinusoids(15, 8))


def test_what_is_padded_behind_a_window_is_not_read():
    frontend, source = WhisperFrontend(5, 8, dropout_rate=0.0), torch.randn(2, FRAMES, 5)
    padded = torch.cat((source, torch.randn(2, 8, 5)), 1), torch.cat((WINDOW, ~WINDOW[:, :8]), 1)
    found, wanted = frontend(*padded), frontend(source, WINDOW)
    assert torch.equal(found.values, wanted.values) and torch.equal(found.mask, wanted.mask)


def test_masks_are_drawn_in_training_alone():
    masking = Masking(frequency_bars=1, frequency_width=5, time_bars=1, time_share=0.5)
    frontend, source = WhisperFrontend(5, 8, dropout_rate=0.0, masking=masking), torch.randn(2, FRAMES, 5)
    plain = frontend.eval()(source, WINDOW).values
    assert torch.equal(plain, frontend(source, WINDOW).values)
    assert not torch.equal(plain, frontend.train()(source, WINDOW).values)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": {"max_length": 2000}}, "data.max_length 2000: set audio.subsampling=2 and data.max_length=3000"),
        ({"audio": {"frontend": "whisper", "subsampling": 4}}, "audio.subsampling is 4"),
        ({"backbone": {"width": 15, "num_heads": 3}}, "an even backbone.width, not 15"),
    ],
)
def test_a_window_is_of_one_length(changes, said):
    given = {"task": "asr", "audio": {"frontend": "whisper", "subsampling": 2}, "data": {"max_length": 3000}}
    given["search"] = {"max_length_factor": 0.01}
    assert Config.model_validate(given).options.source_positions(Config.model_validate(given)) == 0
    with pytest.raises(ValueError, match=said.replace(".", r"\.")):
        Config.model_validate({**given, **changes})
