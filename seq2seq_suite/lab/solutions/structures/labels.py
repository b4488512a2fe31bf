"""Sets of labels, written in some order that does not matter."""

import torch
from torch import Tensor


def allowed_labels(used: Tensor, end: int) -> Tensor:
    """Which symbols may follow: labels that were not written yet, and END behind at least one label.

    Args:
        used: (B,V) bool, True where a row has written the label.
        end: the symbol END.

    Returns:
        (B,V) bool; `used` stays as it is.

    Example: END is 0; the second row has written label 2.
        >>> allowed_labels(torch.tensor([[False, False, False], [False, False, True]]), end=0).int().tolist()
        [[0, 1, 1], [1, 1, 0]]

    Source: Yang et al. 2018, eq. 5: no label twice.
    """
    # BEGIN SOLUTION
    allowed = ~used
    allowed[:, end] = used.any(1)
    return allowed
    # END SOLUTION


def set_loss(log_p: Tensor, remaining: Tensor) -> Tensor:
    """-log of the probability that any of the labels that remain is written next, summed over positions.

    Args:
        log_p: (N,V) float, log-probabilities.
        remaining: (N,V) bool, True = a label of the set that is not written yet; at least one in each row.

    Returns:
        A scalar.

    Example: four symbols, equally likely, of which two are right: -log 1/2.
        >>> quarter = torch.full((1, 4), 0.25).log()
        >>> round(set_loss(quarter, torch.tensor([[True, False, True, False]])).item(), 4)
        0.6931

    Source: Tsai & Lee 2020, section 3: labels in free order.
    """
    # BEGIN SOLUTION
    return -log_p.masked_fill(~remaining, float("-inf")).logsumexp(-1).sum()
    # END SOLUTION


def micro_macro_f1(gold: list[set[int]], predicted: list[set[int]], labels: list[int]) -> tuple[float, float]:
    """F1 = 2 hits / (gold + predicted): micro counts all labels together, macro is the mean of each label's own.

    Args:
        gold: the right set of each text.
        predicted: the set written for it.
        labels: all labels that there are; one that stands in no set at all has F1 = 0.

    Returns:
        Micro-F1 and macro-F1, from 0 to 1.

    Example: label 1 is found, label 2 is not, label 3 is nowhere.
        >>> micro, macro = micro_macro_f1([{1, 2}], [{1}], [1, 2, 3])
        >>> round(micro, 3), round(macro, 3)
        (0.667, 0.333)

    Source: Yang et al. 2018, section 4; Lewis et al. 2004.
    """
    # BEGIN SOLUTION
    pairs = list(zip(gold, predicted, strict=True))
    hits = [sum(label in right and label in found for right, found in pairs) for label in labels]
    total = [sum((label in right) + (label in found) for right, found in pairs) for label in labels]
    micro = 2 * sum(hits) / max(1, sum(total))
    macro = sum(2 * hit / both if both else 0.0 for hit, both in zip(hits, total, strict=True)) / len(labels)
    return micro, macro
    # END SOLUTION
