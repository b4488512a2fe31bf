"""Laws of comparing figures."""

from __future__ import annotations

import math
import statistics
from itertools import product

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near, number
from seq2seq_suite.lab.laws.common import unchanged
from seq2seq_suite.lab.probes import Probe

QUANTILES = {2: 12.7062, 3: 4.30265, 4: 3.18245, 5: 2.77645}


def _interval(student: Student, count: int) -> None:
    values = (torch.randn(count) + 90 + 4 * torch.arange(count)).tolist()
    half = QUANTILES[count] * statistics.stdev(values) / math.sqrt(count)
    found = student.call("mean_interval", values)
    for end, got, expected in zip(
        ("lower", "upper"), found, (statistics.mean(values) - half, statistics.mean(values) + half), strict=True
    ):
        near(
            float(got),
            expected,
            f"{end} end for {[round(value, 2) for value in values]}",
            f"{[round(value, 2) for value in values]} 的{'下' if end == 'lower' else '上'}端",
            tolerance=1e-3,
        )


@law(
    "interval.three",
    part="interval",
    note="003",
    says="Student's interval of three runs",
    says_zh="三次运行的 Student 区间",
)
def interval_three(student: Student) -> None:
    _interval(student, 3)


@law(
    "interval.counts",
    part="interval",
    kind=EDGE,
    note="003",
    says="so for two, four and five runs",
    says_zh="两次、四次、五次运行也成立",
)
def interval_counts(student: Student) -> None:
    for count in (2, 4, 5):
        _interval(student, count)


@law(
    "interval.equal",
    part="interval",
    kind=EDGE,
    note="003",
    says="equal runs have an interval of width 0",
    says_zh="结果全同时区间宽度为 0",
)
def interval_equal(student: Student) -> None:
    near([float(end) for end in student.call("mean_interval", [7.0, 7.0, 7.0])], [7.0, 7.0], "7, 7, 7")


def _sentences() -> tuple[Tensor, Tensor]:
    """Counts of 50 sentences whose ratios differ, and 200 draws."""
    return torch.rand(50, 2) * torch.tensor([1.0, 5.0]) + 0.01, torch.randint(50, (200, 50))


def _ends(counts: Tensor, draws: Tensor) -> list[float]:
    figures = torch.tensor([float(sums[0] / sums[1]) for sums in (counts[rows].sum(0) for rows in draws)])
    return [float(figures.quantile(share)) for share in (0.025, 0.975)]


@law(
    "bootstrap.ratio",
    part="bootstrap",
    note="003",
    says="the formula of summed counts, its 2.5 % and 97.5 % quantiles",
    says_zh="对计数之和用公式，取 2.5 % 与 97.5 % 分位数",
)
def bootstrap_ratio(student: Student) -> None:
    counts, draws = _sentences()
    for some in (draws, draws[:21]):  # of 21 figures each end lies in the middle between two
        found = student.call("bootstrap", counts, Probe("ratio"), some)
        near(
            [float(end) for end in found],
            _ends(counts, some),
            f"the interval of a ratio of sums, {len(some)} draws",
            f"总和之比的区间，{len(some)} 次抽样",
            tolerance=1e-4,
        )


@law(
    "bootstrap.draws",
    part="bootstrap",
    kind=EDGE,
    note="003",
    says="the draws handed in are those that count",
    says_zh="只用传入的抽样",
)
def bootstrap_draws(student: Student) -> None:
    counts, _ = _sentences()
    draws = torch.arange(50).repeat(20, 1)
    figure = float(counts[:, 0].sum() / counts[:, 1].sum())
    found = student.call("bootstrap", counts, Probe("ratio"), draws)
    near(
        [float(end) for end in found],
        [figure, figure],
        "each draw is the whole set once",
        "每次抽样都是全体一次",
        tolerance=1e-4,
    )


@law(
    "bootstrap.pure",
    part="bootstrap",
    kind=EDGE,
    note="003",
    says="its inputs stay as they are",
    says_zh="输入保持原样",
)
def bootstrap_pure(student: Student) -> None:
    counts, draws = _sentences()
    unchanged(student, "bootstrap", "counts", counts, Probe("ratio"), draws)
    if not torch.equal(student.after[2], draws):
        raise Broken("`draws` was changed in place", "`draws` 被就地修改了")


def _figures(gap: float) -> tuple[Tensor, Tensor, Tensor]:
    signs = torch.tensor(list(product((1.0, -1.0), repeat=10)))[torch.randperm(1024)[:400]]
    first = torch.rand(10) + 0.5
    return first, first - gap + 0.4 * torch.randn(10), signs


def _p(first: Tensor, second: Tensor, flips: Tensor) -> float:
    difference = (first - second).double()
    others = (difference * flips).mean(1).abs()
    return (int((others >= difference.mean().abs() - 1e-6).sum()) + 1) / (len(flips) + 1)


@law(
    "paired.flips",
    part="paired",
    note="003",
    says="how often flipped signs give as much, in either direction",
    says_zh="翻转符号后有多少次达到同样的差，不论方向",
)
def paired_flips(student: Student) -> None:
    for gap in (0.1, 0.2):
        first, second, flips = _figures(gap)
        near(float(student.call("paired_p", first, second, flips)), _p(first, second, flips), "the p-value", "p 值")


@law(
    "paired.exchange",
    part="paired",
    kind=EDGE,
    note="003",
    says="the two systems may be exchanged",
    says_zh="两个系统可以对调",
)
def paired_exchange(student: Student) -> None:
    first, second, flips = _figures(0.2)
    near(
        float(student.call("paired_p", second, first, flips)),
        _p(first, second, flips),
        "the worse one first",
        "较差的在前",
    )


@law(
    "paired.least",
    part="paired",
    kind=EDGE,
    note="003",
    says="p is never 0, and 1 where the two are equal",
    says_zh="p 绝不为 0；两者相同时为 1",
)
def paired_least(student: Student) -> None:
    first, _, flips = _figures(0.0)
    flips = flips[flips.sum(1).abs() < 10]
    p = float(student.call("paired_p", first + 5.0, first, flips))
    if not math.isclose(p, 1 / (len(flips) + 1), rel_tol=1e-4):
        raise Broken(
            f"no flip comes near the true difference: p is {number(p)}, expected 1 / (R + 1) = "
            f"{number(1 / (len(flips) + 1))}",
            f"没有一次翻转接近真实的差：p 为 {number(p)}，应为 1 / (R + 1) = {number(1 / (len(flips) + 1))}",
            got=p,
            expected=1 / (len(flips) + 1),
        )
    near(
        float(student.call("paired_p", first, first, flips)), 1.0, "p of a system against itself", "系统与自己比较的 p"
    )
