"""Laws of teacher forcing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.lab.assignment import EDGE, Student, law, near
from seq2seq_suite.lab.laws.common import real, unchanged


@law(
    "shift_right.example",
    part="shift_right",
    note="003",
    says="BEGIN first, then each symbol one place later",
    says_zh="先是 BEGIN，然后每个符号后移一位",
)
def shift_right_example(student: Student) -> None:
    target = torch.tensor([[7, 8, 9, 2], [5, 2, 0, 0]])
    near(
        student.call("shift_right", target, 1),
        torch.tensor([[1, 7, 8, 9], [1, 5, 2, 0]]),
        "7 8 9 END and 5 END PAD PAD behind BEGIN",
        "7 8 9 END 与 5 END PAD PAD 前加 BEGIN",
    )


@law(
    "shift_right.any",
    part="shift_right",
    note="003",
    says="so for any batch and any BEGIN",
    says_zh="对任何 batch 和任何 BEGIN 都成立",
)
def shift_right_any(student: Student) -> None:
    target, begin = torch.randint(3, 9, (3, 6)), int(torch.randint(10, 20, ()))
    got = student.call("shift_right", target, begin)
    near(got[:, 0], torch.full((3,), begin), "the first column", "第一列")
    near(got[:, 1:], target[:, :-1], "the other columns", "其余各列")


@law(
    "shift_right.pure",
    part="shift_right",
    kind=EDGE,
    note="003",
    says="the target stays as it is",
    says_zh="target 保持原样",
)
def shift_right_pure(student: Student) -> None:
    unchanged(student, "shift_right", "target", torch.randint(3, 9, (3, 6)), 1)


@law(
    "shift_right.short",
    part="shift_right",
    kind=EDGE,
    note="003",
    says="a target of END alone becomes BEGIN",
    says_zh="只有 END 的 target 变成 BEGIN",
)
def shift_right_short(student: Student) -> None:
    near(student.call("shift_right", torch.tensor([[2], [2]]), 1), torch.tensor([[1], [1]]), "one column", "只有一列时")


def _batch(vocabulary: int = 7) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets and a mask of rows with 5, 3 and 2 real positions."""
    return torch.randn(3, 5, vocabulary) * 2, torch.randint(vocabulary, (3, 5)), real((5, 3, 2))


@law(
    "smoothing.parity",
    part="smoothing",
    note="003",
    says="the sum equals torch's with the same smoothing",
    says_zh="总和与 torch 的 label smoothing 相同",
)
def smoothing_parity(student: Student) -> None:
    logits, target, mask = _batch()
    total, _ = student.call("smoothed_cross_entropy", logits, target, mask, 0.1)
    near(
        total,
        functional.cross_entropy(logits[mask], target[mask], reduction="sum", label_smoothing=0.1),
        "the sum",
        "总和",
    )


@law(
    "smoothing.count",
    part="smoothing",
    note="003",
    says="the count is that of real positions",
    says_zh="计数只算真实位置",
)
def smoothing_count(student: Student) -> None:
    logits, target, mask = _batch()
    _, count = student.call("smoothed_cross_entropy", logits, target, mask, 0.1)
    near(float(count), 10.0, "the count of rows with 5, 3 and 2 real positions", "真实位置为 5、3、2 个的三行的计数")


@law(
    "smoothing.zero",
    part="smoothing",
    note="003",
    says="smoothing 0 is plain cross-entropy",
    says_zh="smoothing 为 0 就是普通交叉熵",
)
def smoothing_zero(student: Student) -> None:
    logits, target, mask = _batch()
    total, _ = student.call("smoothed_cross_entropy", logits, target, mask, 0.0)
    near(total, functional.cross_entropy(logits[mask], target[mask], reduction="sum"), "smoothing 0", "smoothing 为 0")


@law(
    "smoothing.padding",
    part="smoothing",
    kind=EDGE,
    note="004",
    says="what stands on padding changes nothing",
    says_zh="填充处的内容毫无影响",
)
def smoothing_padding(student: Student) -> None:
    logits, target, mask = _batch()
    before, _ = student.call("smoothed_cross_entropy", logits, target, mask, 0.1)
    other, symbols = logits.clone(), target.clone()
    other[~mask], symbols[~mask] = 99 * torch.randn(5, 7), 0
    other[1, 4] = float("inf")
    after, _ = student.call("smoothed_cross_entropy", other, symbols, mask, 0.1)
    near(after, before, "logits and symbols on padding changed", "填充处的 logits 与符号改变后")


@law(
    "smoothing.large",
    part="smoothing",
    kind=EDGE,
    note="003",
    says="logits of hundreds do not overflow",
    says_zh="logits 上百时不溢出",
)
def smoothing_large(student: Student) -> None:
    logits, target, mask = _batch()
    total, _ = student.call("smoothed_cross_entropy", logits * 100, target, mask, 0.1)
    near(
        total,
        functional.cross_entropy(logits[mask] * 100, target[mask], reduction="sum", label_smoothing=0.1),
        "logits of hundreds",
        "logits 上百时",
    )


@law(
    "smoothing.gradient", part="smoothing", kind=EDGE, note="003", says="its gradient is p - q", says_zh="梯度是 p - q"
)
def smoothing_gradient(student: Student) -> None:
    logits, target, mask = _batch()
    _, (found,) = student.call("smoothed_cross_entropy", logits, target, mask, 0.1, gradient=(0,))
    wanted = functional.one_hot(target, 7) * 0.9 + 0.1 / 7
    near(found, (logits.softmax(-1) - wanted) * mask.unsqueeze(-1), "gradient of the logits", "logits 的梯度")


def _mixing() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs under forcing, predictions and numbers between 0 and 1."""
    previous = torch.cat((torch.ones(3, 1, dtype=torch.int64), torch.randint(3, 9, (3, 5))), 1)
    return previous, torch.randint(10, 19, (3, 6)), torch.rand(3, 6)


@law(
    "mix_inputs.none",
    part="mix_inputs",
    kind=EDGE,
    note="003",
    says="rate 0 is teacher forcing",
    says_zh="rate 为 0 就是 teacher forcing",
)
def mix_inputs_none(student: Student) -> None:
    previous, predicted, uniform = _mixing()
    near(student.call("mix_inputs", previous, predicted, uniform, 0.0, 1), previous, "rate 0", "rate 为 0")


@law(
    "mix_inputs.all",
    part="mix_inputs",
    note="003",
    says="rate 1: the model's own symbols, one place later",
    says_zh="rate 为 1：全是模型自己的符号，后移一位",
)
def mix_inputs_all(student: Student) -> None:
    previous, predicted, uniform = _mixing()
    expected = torch.cat((previous[:, :1], predicted[:, :-1]), 1)
    near(
        student.call("mix_inputs", previous, predicted, uniform, 1.0, 1),
        expected,
        "rate 1: BEGIN, then each prediction one place later",
        "rate 为 1：BEGIN，然后每个预测后移一位",
    )


@law(
    "mix_inputs.some",
    part="mix_inputs",
    note="003",
    says="own symbols stand where the number is below the rate",
    says_zh="随机数小于 rate 的位置用模型自己的符号",
)
def mix_inputs_some(student: Student) -> None:
    previous, predicted, uniform = _mixing()
    own = torch.cat((previous[:, :1], predicted[:, :-1]), 1)
    near(
        student.call("mix_inputs", previous, predicted, uniform, 0.4, 1),
        torch.where(uniform < 0.4, own, previous),
        "rate 0.4",
        "rate 为 0.4",
    )


@law(
    "mix_inputs.pure",
    part="mix_inputs",
    kind=EDGE,
    note="003",
    says="its inputs stay as they are",
    says_zh="输入保持原样",
)
def mix_inputs_pure(student: Student) -> None:
    unchanged(student, "mix_inputs", "previous predicted uniform", *_mixing(), 0.5, 1)
