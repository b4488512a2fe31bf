"""What tasks have in common whose targets are texts in pieces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from seq2seq_suite.data.subwords import Subwords
from seq2seq_suite.types import Example, Hypothesis


class FreeText(ABC):
    """Pieces of `target`, in any order: no output is malformed, but it may be empty."""

    target: Subwords

    @abstractmethod
    def written(self, reference: Any) -> str:
        """The text to be written."""

    def linearise(self, reference: Any) -> list[str]:
        """The pieces of what is to be written."""
        return self.target.pieces(self.written(reference))

    def parse(self, symbols: Sequence[str], example: Example) -> str:
        """The text that pieces make."""
        return self.target.join(symbols)

    def read_hypothesis(self, hypothesis: Hypothesis, example: Example) -> str:
        """A search's output as text."""
        return self.target.decode(hypothesis.symbols)

    def constraint(self) -> None:
        """Texts are free: there is no automaton."""
        return None
