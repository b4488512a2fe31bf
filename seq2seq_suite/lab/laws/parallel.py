"""Laws of writing all symbols at once."""

from __future__ import annotations

import random
from itertools import groupby

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near, number
from seq2seq_suite.lab.laws.common import only, real, unchanged


@law(
    "lengths.best",
    part="lengths",
    note="003",
    says="the likeliest lengths, likeliest first",
    says_zh="最可能的长度，最可能的在前",
)
def lengths_best(student: Student) -> None:
    log_p = torch.randn(3, 9).log_softmax(-1)
    lengths, _ = student.call("likeliest_lengths", log_p, 3)
    near(lengths, log_p[:, 1:].argsort(descending=True)[:, :3] + 1, "three lengths for each row", "每行三个长度")


@law(
    "lengths.scores",
    part="lengths",
    note="003",
    says="with each length its log-probability",
    says_zh="每个长度附上它的对数概率",
)
def lengths_scores(student: Student) -> None:
    log_p = torch.randn(3, 9).log_softmax(-1)
    _, scores = student.call("likeliest_lengths", log_p, 3)
    near(scores, log_p[:, 1:].sort(descending=True).values[:, :3], "their log-probabilities", "它们的对数概率")


@law("lengths.zero", part="lengths", kind=EDGE, note="003", says="length 0 is never chosen", says_zh="绝不选长度 0")
def lengths_zero(student: Student) -> None:
    log_p = torch.randn(3, 5)
    log_p[:, 0] = 5.0
    lengths, _ = student.call("likeliest_lengths", log_p, 4)
    if (lengths < 1).any():
        raise Broken("length 0 was chosen, which is no output at all", "选了长度 0，那等于没有输出")
    near(lengths.sort().values, torch.arange(1, 5).expand(3, 4), "all four lengths that remain", "余下的全部四个长度")


@law(
    "lengths.pure",
    part="lengths",
    kind=EDGE,
    note="003",
    says="the log-probabilities stay as they are",
    says_zh="对数概率保持原样",
)
def lengths_pure(student: Student) -> None:
    unchanged(student, "likeliest_lengths", "log_p", torch.randn(3, 9), 2)


@law("cut.first", part="cut", note="003", says="what stands before the first END", says_zh="第一个 END 之前的内容")
def cut_first(student: Student) -> None:
    for _ in range(5):
        symbols = [random.randint(3, 9) for _ in range(8)]
        first, second = sorted(random.sample(range(8), 2))
        output = list(symbols)
        output[first] = output[second] = 2
        only(
            student.call("cut_at_end", output, 2),
            symbols[:first],
            f"cut_at_end({output}, 2)",
            f"cut_at_end({output}, 2)",
        )


@law("cut.none", part="cut", kind=EDGE, note="003", says="without END nothing is cut", says_zh="没有 END 就不截断")
def cut_none(student: Student) -> None:
    only(student.call("cut_at_end", [7, 8, 9], 2), [7, 8, 9], "cut_at_end([7, 8, 9], 2)", "cut_at_end([7, 8, 9], 2)")


@law("cut.empty", part="cut", kind=EDGE, note="003", says="END first leaves nothing", says_zh="END 在最前则什么都不剩")
def cut_empty(student: Student) -> None:
    only(student.call("cut_at_end", [2, 7, 8], 2), [], "cut_at_end([2, 7, 8], 2)", "cut_at_end([2, 7, 8], 2)")
    only(student.call("cut_at_end", [], 2), [], "cut_at_end([], 2)", "cut_at_end([], 2)")


@law("cut.pure", part="cut", kind=EDGE, note="003", says="the list stays as it is", says_zh="列表保持原样")
def cut_pure(student: Student) -> None:
    unchanged(student, "cut_at_end", "symbols", [7, 2, 8], 2)


@law(
    "collapse.examples",
    part="collapse",
    note="003",
    says="equal neighbours are one symbol, blanks are none",
    says_zh="相邻相同的是一个符号，空白不算",
)
def collapse_examples(student: Student) -> None:
    for path, expected in (
        ([7, 7, 0, 7, 8, 0], [7, 7, 8]),
        ([5, 0, 5, 5, 0, 0, 6], [5, 5, 6]),
        ([3, 3, 3], [3]),
        ([4, 5, 4], [4, 5, 4]),
    ):
        only(student.call("collapse", path, 0), expected, f"collapse({path}, 0)", f"collapse({path}, 0)")


@law(
    "collapse.any", part="collapse", note="003", says="so for any path and any blank", says_zh="对任何路径和空白都成立"
)
def collapse_any(student: Student) -> None:
    for _ in range(10):
        blank, path = random.randint(0, 3), [random.randint(0, 3) for _ in range(12)]
        expected = [symbol for symbol, _ in groupby(path) if symbol != blank]
        only(
            student.call("collapse", path, blank), expected, f"collapse({path}, {blank})", f"collapse({path}, {blank})"
        )


@law(
    "collapse.empty",
    part="collapse",
    kind=EDGE,
    note="003",
    says="blanks alone spell nothing",
    says_zh="全是空白就什么都没有",
)
def collapse_empty(student: Student) -> None:
    for path in ([0, 0], []):
        only(student.call("collapse", path, 0), [], f"collapse({path}, 0)", f"collapse({path}, 0)")


@law("collapse.pure", part="collapse", kind=EDGE, note="003", says="the path stays as it is", says_zh="路径保持原样")
def collapse_pure(student: Student) -> None:
    unchanged(student, "collapse", "path", [7, 7, 0, 7], 0)


LENGTHS = (6, 4)


def _predicted() -> tuple[Tensor, Tensor]:
    """Probabilities no two of which are equal, and the mask."""
    return (torch.randperm(12).view(2, 6) + 1) / 13, real(LENGTHS)


@law(
    "hide.counts",
    part="hide",
    note="003",
    says="n (I - i) / I symbols are hidden again",
    says_zh="重新隐藏 n (I - i) / I 个符号",
)
def hide_counts(student: Student) -> None:
    for iteration in range(1, 4):
        confidence, mask = _predicted()
        hidden = student.call("hide", confidence, mask, iteration, 4) & mask
        near(
            hidden.sum(1),
            torch.tensor([length * (4 - iteration) // 4 for length in LENGTHS]),
            f"hidden after pass {iteration} of 4, of {LENGTHS[0]} and of {LENGTHS[1]} symbols",
            f"4 遍中第 {iteration} 遍之后，{LENGTHS[0]} 个和 {LENGTHS[1]} 个符号中被隐藏的个数",
        )
    lengths = torch.arange(1, 31)
    confidence, mask = torch.stack([torch.randperm(30) + 1 for _ in lengths]) / 31, real(lengths.tolist())
    for iterations in range(2, 13):
        for iteration in range(1, iterations):
            hidden = student.call("hide", confidence, mask, iteration, iterations) & mask
            near(
                hidden.sum(1),
                lengths * (iterations - iteration) // iterations,
                f"hidden after pass {iteration} of {iterations}, of 1 to 30 symbols",
                f"{iterations} 遍中第 {iteration} 遍之后，1 到 30 个符号中被隐藏的个数",
            )


@law("hide.least", part="hide", note="003", says="those that the model is least sure of", says_zh="隐藏最没把握的符号")
def hide_least(student: Student) -> None:
    confidence, mask = _predicted()
    hidden = student.call("hide", confidence, mask, 1, 2) & mask
    for row, length in enumerate(LENGTHS):
        own, gone = confidence[row, :length], hidden[row, :length]
        if gone.any() and not gone.all() and own[gone].max() > own[~gone].min():
            raise Broken(
                f"a symbol of probability {number(own[gone].max().item())} is hidden, one of "
                f"{number(own[~gone].min().item())} is kept",
                f"概率为 {number(own[gone].max().item())} 的符号被隐藏，"
                f"而 {number(own[~gone].min().item())} 的却保留了",
            )
    near(hidden.sum(1), torch.tensor([3, 2]), "hidden after one of two passes", "两遍中第一遍之后被隐藏的个数")


@law("hide.padding", part="hide", kind=EDGE, note="003", says="padding is never hidden", says_zh="填充处绝不隐藏")
def hide_padding(student: Student) -> None:
    confidence, mask = _predicted()
    confidence[~mask] = 1e-9
    hidden = student.call("hide", confidence, mask, 1, 2)
    if (hidden & ~mask).any():
        raise Broken("padding is hidden", "填充处被隐藏了", where=tuple((hidden & ~mask).nonzero()[0].tolist()))
    near(hidden.sum(1), torch.tensor([3, 2]), "hidden after one of two passes", "两遍中第一遍之后被隐藏的个数")


@law(
    "hide.last",
    part="hide",
    kind=EDGE,
    note="003",
    says="before the last pass few are hidden, perhaps none",
    says_zh="最后一遍之前隐藏得很少，也可能没有",
)
def hide_last(student: Student) -> None:
    confidence, mask = torch.rand(2, 3), real((3, 2))
    near(
        student.call("hide", confidence, mask, 9, 10).int(),
        torch.zeros(2, 3, dtype=torch.int32),
        "3 and 2 symbols, nine of ten passes done",
        "3 个和 2 个符号，十遍已做九遍",
    )


@law("hide.pure", part="hide", kind=EDGE, note="003", says="its inputs stay as they are", says_zh="输入保持原样")
def hide_pure(student: Student) -> None:
    unchanged(student, "hide", "confidence mask", *_predicted(), 1, 2)
