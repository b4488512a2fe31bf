"""Which validation is the best so far: by the primary metric, and by the loss while that does not move."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq_suite.training.checkpoint import Progress
    from seq2seq_suite.training.choosing import Metric

_SAID_AT = 3  # equal validations: a run may begin with two


@dataclass(frozen=True)
class Metric:
    """The metric that chooses the best checkpoint."""

    name: str
    higher_is_better: bool


def note_validation(progress: Progress, figures: Mapping[str, float], metric: Metric) -> bool:
    """Note the figures of a validation, and whether it is the best so far.

    While the metric has had one value at all validations, the one of the lowest loss is the best.
    """
    figure, loss = figures[metric.name], validation_loss(figures)
    first, same = progress.validated_update < 0, str(figure) == str(progress.best_figure)  # NaN is like NaN
    progress.equal_validations = 1 if first else progress.equal_validations + 1 if same and is_constant(progress) else 0
    better = is_better(figure, progress.best_figure, higher_is_better=metric.higher_is_better) or (
        is_constant(progress) and is_better(loss, progress.best_loss, higher_is_better=False)
    )
    if better:
        progress.best_update, progress.best_figure, progress.best_loss = progress.update, figure, loss
    progress.validations_since_best = 0 if better else progress.validations_since_best + 1
    progress.validated_update, progress.figures = progress.update, dict(figures)
    return better


def is_constant(progress: Progress) -> bool:
    """Whether the metric has had the same value at every validation."""
    return progress.equal_validations > 0


def watched(progress: Progress, metric: str) -> str:
    """What chooses the checkpoint: the metric, or the loss while it is constant."""
    return "validation loss" if progress.equal_validations > 1 else metric


def constancy(progress: Progress, metric: str, *, ended: bool = False) -> str:
    """A warning about a metric that stays constant, at the third validation or at the end; else empty."""
    times = progress.equal_validations
    if times < 2 or (times == _SAID_AT) == ended:
        return ""
    return (
        f"{metric} is {progress.best_figure:.4g} at all {times} validations: it does not tell checkpoints apart, "
        f"so the one of the lowest validation loss is kept (update {progress.best_update})"
    )


def validation_loss(figures: Mapping[str, float]) -> float:
    """The sum of each task's first loss; NaN if there is none.

    >>> validation_loss({"bleu": 0.0, "loss_output": 2.5, "loss_ctc": 9.0})
    2.5
    >>> validation_loss({"loss_a/output": 1.0, "loss_a/ctc": 9.0, "loss_b/output": 2.0})
    3.0
    """
    losses = {name.removeprefix("loss_"): value for name, value in figures.items() if name.startswith("loss_")}
    firsts = {name.rpartition("/")[0]: value for name, value in reversed(losses.items())}
    return sum(firsts.values()) if firsts else math.nan


def is_better(figure: float, best: float, *, higher_is_better: bool) -> bool:
    """True if `figure` beats `best`; NaN is worse than any number."""
    if figure != figure:
        return False
    return best != best or (figure > best if higher_is_better else figure < best)
