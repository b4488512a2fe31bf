"""Glancing shows as much as is missed."""

import torch

from seq2seq_suite.strategies.parallel.glancing import random_part, ratio_at


def test_glancing_shows_as_much_as_is_missed():
    torch.manual_seed(1)
    asked = torch.arange(10) < torch.tensor([[10], [6], [0]])
    shown = random_part(asked, (ratio_at((0.5, 0.3), 0.0) * torch.tensor([8, 6, 0])).round())
    assert shown.sum(1).tolist() == [4, 3, 0] and not (shown & ~asked).any()
    assert ratio_at((0.5, 0.3), 1.0) == 0.3
