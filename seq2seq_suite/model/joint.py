"""One set of weights for several tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import nn

from seq2seq_suite.model.seq2seq import Seq2Seq


class JointModel(nn.Module):
    """Models of several tasks that share encoder and decoder stack, and front-ends where their sources are alike.

    Args:
        parts: name -> the task's model; `build_model(..., like=...)` makes them share.
    """

    def __init__(self, parts: Mapping[str, Seq2Seq]):
        super().__init__()
        first = next(iter(parts.values()))
        self.encoder, self.decoder = first.encoder, first.decoder  # first, so that checkpoints call them so
        self.parts = nn.ModuleDict(parts)

    def num_parameters(self) -> int:
        """Trained numbers, shared ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())

    def num_core_parameters(self) -> int:
        """Those of encoder and decoder stack."""
        return sum(parameter.numel() for parameter in self.core_parameters())

    def core_parameters(self) -> Iterator[nn.Parameter]:
        """Those of encoder and decoder stack."""
        return next(iter(self.parts.values())).core_parameters()
