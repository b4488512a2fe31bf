"""Glancing: a part of the target is shown to a parallel decoder while it learns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.config_section import ShareOrNone

Ratios = tuple[ShareOrNone, ShareOrNone]  # at the training's beginning and at its end


@dataclass(frozen=True)
class Glancing:
    """Show a part of the target in training: the more, the more the model would get wrong.

    Of the symbols on the alignment with the target, `ratio` times as many as the model misses are put into the
    decoder's input, at random places; ratio falls from `start` to `end` over the run.

    Source: Qian et al. 2021 (Glancing Transformer), section 3.1; over CTC's and the graph's best alignment as in
    Gu & Kong 2021 and Huang et al. 2022.
    """

    start: float = 0.5
    end: float = 0.3

    def __bool__(self) -> bool:
        return self.start > 0.0 or self.end > 0.0

    def positions(self, missed: Tensor, asked: Tensor, fraction_done: float) -> Tensor:
        """(B,C) bool: a random part of `asked` (B,C), as large as the `missed` symbols (B,) call for."""
        ratio = self.start + (self.end - self.start) * fraction_done
        return random_part(asked, (ratio * missed).round())


def random_part(asked: Tensor, counts: Tensor) -> Tensor:
    """(B,C) bool, `counts` (B,) random places of each row of `asked` (B,C) bool, all of them where it has fewer.

    >>> random_part(torch.tensor([[True, False, True], [True, True, True]]), torch.tensor([2, 0])).tolist()
    [[True, False, True], [False, False, False]]
    """
    keys = torch.rand(asked.shape, device=asked.device).masked_fill(~asked, 2.0)
    return (keys.argsort(1).argsort(1) < counts.unsqueeze(1)) & asked
