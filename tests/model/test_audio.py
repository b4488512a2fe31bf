"""The front-end for sound: padding changes nothing, lengths are exact, masking hides what it says."""

from collections import Counter

import pytest
import torch

from seq2seq_suite.model.audio import Masking, Subsampled
from seq2seq_suite.model.positions import SinusoidalPositions


def make(factor: int, masking: Masking | None = None) -> Subsampled:
    torch.manual_seed(0)
    return Subsampled(
        torch.randn(10),
        torch.rand(10) + 0.5,
        16,
        factor=factor,
        positions=SinusoidalPositions(16, 100),
        dropout_rate=0.0,
        masking=masking,
    )


@pytest.mark.parametrize("factor", [2, 4])
def test_padding_changes_nothing_and_lengths_are_rounded_up(factor):
    frontend, lengths = make(factor).eval(), [17, 16, 5, 1]
    source = torch.randn(4, 17, 10) * 3
    states = frontend(source, torch.arange(17) < torch.tensor(lengths).unsqueeze(1))
    assert states.mask.sum(1).tolist() == [-(-length // factor) for length in lengths]
    for row, length in enumerate(lengths):
        alone = frontend(source[row : row + 1, :length], torch.ones(1, length, dtype=torch.bool))
        torch.testing.assert_close(states.values[row][states.mask[row]], alone.values[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("masking", "along", "kinds"),
    [(Masking(1, 3, 0, 0.0), 2, [(10, 3), (10, 3)]), (Masking(0, 0, 1, 0.25), 1, [(12, 3), (8, 2)])],
)
def test_bars_are_of_all_widths_and_stand_everywhere(masking, along, kinds):
    torch.manual_seed(1)
    hidden = masking(torch.ones(8000, 12, 10), torch.tensor([12, 8]).repeat(4000)) == 0.0
    for row, (extent, widest) in enumerate(kinds):
        found = Counter(tuple(places.nonzero().flatten().tolist()) for places in hidden[row::2].any(3 - along))
        expected = {
            tuple(range(start, start + width)): 4000 / (widest + 1) / (extent - width if width else 1)
            for width in range(widest + 1)
            for start in range(extent - width if width else 1)
        }
        assert set(found) <= {*expected, *(tuple(range(extent - width, extent)) for width in range(1, widest + 1))}
        assert all(abs(found[bar] - count) < 5 * count**0.5 for bar, count in expected.items())


def test_masking_hides_bars_of_the_sound_alone_and_only_in_training():
    x, lengths = torch.ones(200, 40, 20), torch.full((200,), 30)
    hidden = Masking(frequency_bars=1, frequency_width=5, time_bars=0)(x, lengths) == 0.0
    assert (hidden == hidden[:, :1]).all() and hidden[:, 0].sum(1).max() == 5 and hidden[:, 0].sum(1).min() == 0
    hidden = Masking(frequency_bars=0, time_bars=2, time_share=0.1)(x, lengths) == 0.0
    assert (hidden == hidden[..., :1]).all() and not hidden[:, 30:].any() and hidden[..., 0].sum(1).max() <= 6
    frontend = make(4, Masking(2, 8, 2, 0.2))
    mask = torch.ones(2, 40, dtype=torch.bool)
    first, second = (frontend.train()(x[:2, :, :10], mask).values for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (frontend.eval()(x[:2, :, :10], mask).values for _ in range(2))
    assert torch.equal(first, second)
