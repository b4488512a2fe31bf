"""How far a mean of a few runs can be trusted."""

import math


def mean_interval(values: list[float]) -> tuple[float, float]:
    """The 95 % interval of the mean: mean -/+ q s / sqrt(n), q the 97.5 % quantile of Student's t at n - 1.

    Args:
        values: one figure for each seed, 2 to 5 of them.

    Returns:
        Its two ends.

    s^2 is the sum of squared deviations over n - 1; q is 12.706, 4.303, 3.182, 2.776 for n = 2, 3, 4, 5.

    Example: three runs.
        >>> low, high = mean_interval([90.0, 92.0, 97.0])
        >>> round(low, 2), round(high, 2)
        (84.04, 101.96)

    Source: Student 1908.
    """
    # BEGIN SOLUTION
    count = len(values)
    mean = sum(values) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    quantile = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}[count]
    half = quantile * deviation / math.sqrt(count)
    return mean - half, mean + half
    # END SOLUTION
