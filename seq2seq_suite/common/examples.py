"""What a task reads and gives back: its examples, the same as numbers, and the score of outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from seq2seq_suite.common.errors import DataError


@dataclass(frozen=True)
class Example:
    """One item of a task.

    Args:
        source: what the model reads, in the task's own type (for parsing a tuple of words).
        reference: what `score` compares with; None when only a prediction is asked for.
        origin: where it came from, as `file:line`, for messages.
        begin: what an output that is searched for must begin with.
        left_out: what is wrong with parts of the row that the example lacks, such as a box; each counts as a bad row.
        also: what its row has beside source and reference, by column: further right outputs (`references`), the best
            output that training data can tell (`oracle`), phrases that a metric looks at (`sites`).
        remarks: what stands out in it, such as a rotated picture; counted when its split is read.
    """

    source: Any
    reference: Any = None
    origin: str = ""
    begin: str = ""
    left_out: tuple[DataError, ...] = field(default=(), compare=False, repr=False)
    remarks: tuple[str, ...] = field(default=(), compare=False, repr=False)
    also: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Encoded:
    """An example as numbers, without padding.

    Args:
        source: (S,) ids, (S,P) pieces of each word, or (S,F) features.
        target: (T,) ids, ends in END; empty when there is no reference.
        index: the example's place in its split.
        given: (T,) bool, True for target symbols that are not to be predicted; or None for none.
        auxiliary: other labels, by the names that `Batch.auxiliary` lists; without its padding.
    """

    source: np.ndarray
    target: np.ndarray
    index: int = 0
    given: np.ndarray | None = None
    auxiliary: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """Metrics by name, and the signature that says how they were computed.

    Args:
        figures: metric -> figure.
        signature: version and options of the metric.
        details: tables with more details.
        formula: name in `metrics.significance.FORMULAS`: from sums of counts to the primary metric.
        counts: what each item contributes to the primary metric, a row for each item in order; empty if the metric is
            not a function of such sums.
        interval: computes the primary metric's 95 % interval where there are no counts.
        notes: what a reader of the figures should know of these references and outputs, each on one line.
    """

    figures: dict[str, float]
    signature: str
    details: dict[str, Any] = field(default_factory=dict)
    formula: str = "mean"
    counts: tuple[tuple[float, ...], ...] = ()
    interval: Callable[[], list[float]] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:  # of what rounding lifted above 100
        self.figures.update({name: 100.0 for name, figure in self.figures.items() if 100.0 < figure < 100.0 + 1e-9})
