"""Laws of losses."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near
from seq2seq_suite.lab.laws.common import unchanged


def _separable() -> tuple[Tensor, Tensor]:
    """Points on both sides of a random line, none near it."""
    line, points = functional.normalize(torch.randn(3), dim=0), torch.randn(25, 3)
    distance = points @ line + 0.3
    clear = distance.abs() > 0.3
    return points[clear], distance[clear].sign()


def _separated(x: Tensor, y: Tensor, w: Tensor, b: Tensor | float, what: str, what_zh: str) -> None:
    wrong = (y * (x @ w + b) <= 0).nonzero()
    if len(wrong):
        number = int(wrong[0])
        raise Broken(
            f"{what}: after all passes point {number} is not on its side",
            f"{what_zh}：走完所有轮之后第 {number} 个点仍不在自己那一侧",
            where=(number,),
        )


@law(
    "perceptron.separates",
    part="perceptron",
    note="001",
    says="classes that a line can separate are separated",
    says_zh="线性可分的两类被分开",
)
def perceptron_separates(student: Student) -> None:
    x, y = _separable()
    w, b = student.call("perceptron", x, y, 200)
    _separated(x, y, w, b, "separable classes", "线性可分的两类")


@law(
    "perceptron.steps",
    part="perceptron",
    note="001",
    says="each mistake moves the line at once, by y x and y",
    says_zh="每个错误立即使直线移动 y x 与 y",
)
def perceptron_steps(student: Student) -> None:
    x, y = torch.randn(20, 3), torch.tensor([1.0, -1.0] * 10)
    right, shift = torch.zeros(3), torch.zeros(())
    for point, side in zip(x, y, strict=True):
        if side * (right @ point + shift) <= 0:
            right, shift = right + side * point, shift + side
    w, b = student.call("perceptron", x, y, 1)
    near(w, right, "w after one pass over 20 points", "20 个点走一轮之后的 w", tolerance=1e-4)
    near(float(b), float(shift), "b after one pass over 20 points", "20 个点走一轮之后的 b")


@law(
    "perceptron.bias",
    part="perceptron",
    kind=EDGE,
    note="001",
    says="classes that only a bias separates are separated",
    says_zh="只有偏置才能分开的两类被分开",
)
def perceptron_bias(student: Student) -> None:
    x, y = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([-1.0, -1.0, 1.0, 1.0])
    w, b = student.call("perceptron", x, y, 300)
    _separated(x, y, w, b, "1 and 2 against 3 and 4", "1、2 与 3、4")


@law(
    "perceptron.pure",
    part="perceptron",
    kind=EDGE,
    note="001",
    says="the points stay as they are",
    says_zh="数据点保持原样",
)
def perceptron_pure(student: Student) -> None:
    unchanged(student, "perceptron", "x y", *_separable(), 3)


def _examples(size: float = 2.0) -> tuple[Tensor, Tensor]:
    return torch.randn(6, 5) * size, torch.randint(5, (6,))


@law(
    "cross_entropy.parity",
    part="cross_entropy",
    note="001",
    says="equals torch's cross-entropy",
    says_zh="与 torch 的交叉熵相同",
)
def cross_entropy_parity(student: Student) -> None:
    logits, targets = _examples()
    near(student.call("cross_entropy", logits, targets), functional.cross_entropy(logits, targets))


@law(
    "cross_entropy.large",
    part="cross_entropy",
    kind=EDGE,
    note="001",
    says="logits of hundreds do not overflow",
    says_zh="logits 上百时不溢出",
)
def cross_entropy_large(student: Student) -> None:
    logits, targets = _examples(400.0)
    for sign in (1, -1):
        shifted = logits + sign * 300
        near(
            student.call("cross_entropy", shifted, targets),
            functional.cross_entropy(shifted, targets),
            "logits of hundreds",
            "logits 上百时",
        )


@law(
    "cross_entropy.gradient",
    part="cross_entropy",
    kind=EDGE,
    note="001",
    says="something can be learned from it",
    says_zh="能从中学到东西：梯度正确",
)
def cross_entropy_has_gradient(student: Student) -> None:
    logits, targets = _examples()
    _, (found,) = student.call("cross_entropy", logits, targets, gradient=(0,))
    if found is None:
        raise Broken("no gradient reaches the logits", "梯度没有传到 logits")
    near(found, _gradient(logits, targets), "gradient of the logits", "logits 的梯度")


def _gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """What autograd finds."""
    leaf = logits.clone().requires_grad_()
    return torch.autograd.grad(functional.cross_entropy(leaf, targets), leaf)[0]


@law("gradient.parity", part="gradient", note="001", says="equals what autograd finds", says_zh="与自动求导的结果相同")
def gradient_parity(student: Student) -> None:
    logits, targets = _examples()
    near(student.call("cross_entropy_gradient", logits, targets), _gradient(logits, targets), "gradient", "梯度")


@law(
    "gradient.large",
    part="gradient",
    kind=EDGE,
    note="001",
    says="logits of hundreds do not overflow",
    says_zh="logits 上百时不溢出",
)
def gradient_large(student: Student) -> None:
    logits, targets = _examples(400.0)
    near(
        student.call("cross_entropy_gradient", logits, targets),
        _gradient(logits, targets),
        "logits of hundreds",
        "logits 上百时",
    )


@law(
    "gradient.sum",
    part="gradient",
    kind=EDGE,
    note="001",
    says="what one class gains the others lose",
    says_zh="一类所得即其余各类所失",
)
def gradient_sum(student: Student) -> None:
    logits, targets = torch.randn(3, 8), torch.randint(8, (3,))
    near(student.call("cross_entropy_gradient", logits, targets).sum(-1), torch.zeros(3), "sum of a row", "每行之和")


@law(
    "gradient.pure",
    part="gradient",
    kind=EDGE,
    note="001",
    says="the logits stay as they are",
    says_zh="logits 保持原样",
)
def gradient_pure(student: Student) -> None:
    unchanged(student, "cross_entropy_gradient", "logits targets", *_examples())


@law(
    "squared_error.parity",
    part="squared_error",
    note="001",
    says="the mean over examples of sum_v (p_v - y_v)^2",
    says_zh="各样本 sum_v (p_v - y_v)^2 的平均",
)
def squared_error_parity(student: Student) -> None:
    logits, targets = _examples()
    expected = (logits.softmax(-1) - torch.eye(5)[targets]).square().sum(-1).mean()
    near(student.call("squared_error", logits, targets), expected)


@law(
    "squared_error.flat",
    part="squared_error",
    kind=EDGE,
    note="001",
    says="it teaches nothing where the net is sure and wrong",
    says_zh="在网络自信而错误之处，它什么也教不了",
)
def squared_error_flat(student: Student) -> None:
    logits, targets = torch.tensor([[20.0, 0.0, 0.0]]), torch.tensor([1])
    _, (found,) = student.call("squared_error", logits, targets, gradient=(0,))
    if found is None:
        raise Broken("no gradient reaches the logits", "梯度没有传到 logits")
    near(
        found,
        torch.zeros(1, 3),
        "gradient at logits 20, 0, 0 where the second is right",
        "logits 为 20、0、0 而第二类正确时的梯度",
        tolerance=1e-6,
    )


@law(
    "squared_error.gradient",
    part="squared_error",
    kind=EDGE,
    note="001",
    says="elsewhere its gradient is autograd's",
    says_zh="其他地方梯度正确",
)
def squared_error_gradient(student: Student) -> None:
    logits, targets = _examples()
    leaf = logits.clone().requires_grad_()
    right = torch.autograd.grad((leaf.softmax(-1) - torch.eye(5)[targets]).square().sum(-1).mean(), leaf)[0]
    _, (found,) = student.call("squared_error", logits, targets, gradient=(0,))
    if found is None:
        raise Broken("no gradient reaches the logits", "梯度没有传到 logits")
    near(found, right, "gradient of the logits", "logits 的梯度")
