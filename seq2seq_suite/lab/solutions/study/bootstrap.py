"""How far one run's figure depends on the sentences that it was measured on."""

from collections.abc import Callable

import torch
from torch import Tensor


def bootstrap(counts: Tensor, formula: Callable[[Tensor], float], draws: Tensor) -> tuple[float, float]:
    """The 95 % interval of a figure under resampling of the sentences.

    For each draw the counts of its sentences are summed, and the formula is applied to the sums: BLEU is a ratio of
    sums, not a mean of ratios.

    Args:
        counts: (N,C) float, the counts of each sentence, such as matches and lengths.
        formula: sums (C,) -> the figure.
        draws: (R,N) int64, for each draw N sentences, drawn with replacement.

    Returns:
        The 2.5 % and the 97.5 % quantile of the R figures (`Tensor.quantile`).

    Example: all draws are alike, so is the figure: (1 + 1) / (2 + 4).
        >>> counts, draws = torch.tensor([[1.0, 2.0], [1.0, 4.0]]), torch.tensor([[0, 1], [1, 0]])
        >>> [round(end, 3) for end in bootstrap(counts, lambda sums: float(sums[0] / sums[1]), draws)]
        [0.333, 0.333]

    Source: Efron 1979; Koehn 2004 for BLEU.
    """
    # BEGIN SOLUTION
    figures = torch.tensor([float(formula(counts[rows].sum(0))) for rows in draws])
    return float(figures.quantile(0.025)), float(figures.quantile(0.975))
    # END SOLUTION
