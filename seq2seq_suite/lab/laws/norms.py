"""Laws of norms."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near
from seq2seq_suite.lab.laws.common import unchanged
from seq2seq_suite.lab.probes import Probe


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Features whose mean is not 0, and a gain and a bias that matter."""
    return torch.randn(3, 5, 8) * 2 + 1, torch.randn(8), torch.randn(8)


@law(
    "layer_norm.parity",
    part="layer_norm",
    note="004",
    says="equals torch's layer norm",
    says_zh="与 torch 的 layer norm 相同",
)
def layer_norm_parity(student: Student) -> None:
    x, gain, bias = inputs()
    near(student.call("layer_norm", x, gain, bias), functional.layer_norm(x, (8,), gain, bias))


@law(
    "layer_norm.small",
    part="layer_norm",
    kind=EDGE,
    note="004",
    says="epsilon stands inside the root",
    says_zh="epsilon 在根号里面",
)
def layer_norm_small(student: Student) -> None:
    x, gain, bias = torch.randn(3, 5, 8) * 1e-3, torch.ones(8), torch.zeros(8)
    near(
        student.call("layer_norm", x, gain, bias),
        functional.layer_norm(x, (8,)),
        "features of a thousandth",
        "特征只有千分之一大小时",
    )


@law(
    "layer_norm.constant",
    part="layer_norm",
    kind=EDGE,
    note="004",
    says="equal features give the bias, not NaN",
    says_zh="特征全相等时得到 bias，而不是 NaN",
)
def layer_norm_constant(student: Student) -> None:
    _, gain, bias = inputs()
    near(
        student.call("layer_norm", torch.full((1, 2, 8), 3.0), gain, bias),
        bias.expand(1, 2, 8),
        "equal features",
        "特征全相等时",
    )


@law(
    "layer_norm.far",
    part="layer_norm",
    kind=EDGE,
    note="004",
    says="features of mean 1000 keep their digits",
    says_zh="均值为 1000 的特征也保持精度",
)
def layer_norm_far(student: Student) -> None:
    x, gain, bias = torch.randn(3, 5, 8) + 1000, torch.ones(8), torch.zeros(8)
    near(
        student.call("layer_norm", x, gain, bias),
        functional.layer_norm(x.double(), (8,)),
        "features of mean 1000",
        "特征的均值为 1000 时",
        tolerance=5e-3,
    )


@law(
    "layer_norm.rows",
    part="layer_norm",
    kind=EDGE,
    note="004",
    says="a position depends on no other",
    says_zh="每个位置只取决于自己",
)
def layer_norm_rows(student: Student) -> None:
    x, gain, bias = inputs()
    before = student.call("layer_norm", x, gain, bias)
    other = x.clone()
    other[0] += 7 * torch.randn(5, 8)
    other[1, 0] *= 9
    near(
        student.call("layer_norm", other, gain, bias)[1, 1:],
        before[1, 1:],
        "row 0 and position 0 of row 1 changed",
        "第 0 行和第 1 行的位置 0 改变后",
    )


@law(
    "layer_norm.pure",
    part="layer_norm",
    kind=EDGE,
    note="004",
    says="its inputs stay as they are",
    says_zh="输入保持原样",
)
def layer_norm_pure(student: Student) -> None:
    unchanged(student, "layer_norm", "x gain bias", *inputs())


def _around() -> tuple[Tensor, Probe, Probe, Tensor, Tensor]:
    """x, a sub-layer and a norm for which every order gives another result; then pre and post."""
    x, weight, bias, gain, shift = (torch.randn(*shape) for shape in ((2, 3, 8), (8, 8), (8,), (8,), (8,)))
    pre = x + functional.linear(x * gain + shift, weight, bias)
    post = (x + functional.linear(x, weight, bias)) * gain + shift
    return x, Probe("linear", weight, bias, name="sublayer"), Probe("affine", gain, shift, name="norm"), pre, post


@law("residual.pre", part="residual", note="003", says="pre: x + Sublayer(Norm(x))")
def residual_pre(student: Student) -> None:
    x, sublayer, norm, pre, _ = _around()
    near(student.call("residual", x, sublayer, norm, "pre"), pre, "pre: x + Sublayer(Norm(x))")


@law("residual.post", part="residual", note="003", says="post: Norm(x + Sublayer(x))")
def residual_post(student: Student) -> None:
    x, sublayer, norm, _, post = _around()
    near(student.call("residual", x, sublayer, norm, "post"), post, "post: Norm(x + Sublayer(x))")


@law(
    "residual.once",
    part="residual",
    kind=EDGE,
    note="003",
    says="the sub-layer and the norm run once each",
    says_zh="子层和 norm 各运行一次",
)
def residual_once(student: Student) -> None:
    x, sublayer, norm, _, _ = _around()
    for placement in ("pre", "post"):
        student.call("residual", x, sublayer, norm, placement)
        called = [name for name, _ in student.calls]
        for name in ("sublayer", "norm"):
            if called.count(name) != 1:
                raise Broken(
                    f"{placement}: the {name} runs {called.count(name)} times; dropout in it would differ",
                    f"{placement}：{name} 运行了 {called.count(name)} 次；若其中有 dropout，结果就会不同",
                )


@law("residual.pure", part="residual", kind=EDGE, note="004", says="x stays as it is", says_zh="x 保持原样")
def residual_pure(student: Student) -> None:
    x, sublayer, norm, _, _ = _around()
    for placement in ("pre", "post"):
        unchanged(student, "residual", "x", x, sublayer, norm, placement)


@law(
    "dropout.eval",
    part="dropout",
    kind=EDGE,
    note="004",
    says="outside training nothing changes",
    says_zh="训练之外什么都不变",
)
def dropout_eval(student: Student) -> None:
    x = torch.randn(20, 20)
    near(student.call("dropout", x, 0.3, False), x, "outside training", "训练之外")


@law(
    "dropout.share",
    part="dropout",
    note="004",
    says="the rate is the share that becomes 0",
    says_zh="rate 是变成 0 的比例",
)
def dropout_share(student: Student) -> None:
    x = torch.rand(200, 200) + 1
    share = (student.call("dropout", x, 0.3, True) == 0).float().mean().item()
    if abs(share - 0.3) > 0.02:
        raise Broken(
            f"rate 0.3 dropped {share:.2f} of the elements",
            f"rate 为 0.3，却有 {share:.2f} 的元素变成 0",
            got=share,
            expected=0.3,
        )


@law(
    "dropout.scale",
    part="dropout",
    kind=EDGE,
    note="004",
    says="what stays is divided by 1 - rate",
    says_zh="留下的元素除以 1 - rate",
)
def dropout_scale(student: Student) -> None:
    x = torch.rand(40, 40) + 1
    got = student.call("dropout", x, 0.3, True)
    if (got == 0).all():
        raise Broken("nothing stays", "什么都没有留下")
    near(got[got != 0], x[got != 0] / 0.7, "what stays must be divided by 1 - rate", "留下的元素应除以 1 - rate")


@law(
    "dropout.independent",
    part="dropout",
    kind=EDGE,
    note="004",
    says="each element is drawn by itself",
    says_zh="每个元素各自随机",
)
def dropout_independent(student: Student) -> None:
    dropped = student.call("dropout", torch.ones(100, 100), 0.5, True) == 0
    for dim, what, what_zh in ((0, "columns", "列"), (1, "rows", "行")):
        if dropped.float().mean(dim).std() > 0.1:
            raise Broken(f"whole {what} are dropped together", f"整{what_zh}一起被置零")


@law(
    "dropout.zero",
    part="dropout",
    kind=EDGE,
    note="004",
    says="rate 0 changes nothing in training",
    says_zh="rate 为 0 时训练中也不变",
)
def dropout_zero(student: Student) -> None:
    x = torch.randn(20, 20)
    near(student.call("dropout", x, 0.0, True), x, "rate 0 in training", "训练中 rate 为 0")


def _power_inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.randn(3, 5, 8) * 2 + 1, torch.randn(8), torch.randn(8), torch.rand(8) + 0.5


@law(
    "power_norm.training",
    part="power_norm",
    note="003",
    says="in training x is divided by the statistics from before this batch",
    says_zh="训练时用这个 batch 之前的统计量来除",
)
def power_norm_training(student: Student) -> None:
    x, gain, bias, running = _power_inputs()
    y, _ = student.call("power_norm", x, gain, bias, running, 0.9, True)
    near(y, x / (running + 1e-5).sqrt() * gain + bias, "y")


@law(
    "power_norm.running",
    part="power_norm",
    note="003",
    says="the running mean square follows the batches",
    says_zh="滑动均方跟随各个 batch",
)
def power_norm_running(student: Student) -> None:
    x, gain, bias, running = _power_inputs()
    _, found = student.call("power_norm", x, gain, bias, running, 0.9, True)
    near(found, 0.9 * running + 0.1 * x.square().mean((0, 1)), "running mean squares", "滑动均方")


@law(
    "power_norm.eval",
    part="power_norm",
    note="003",
    says="in evaluation the statistics stay",
    says_zh="评估时统计量不变",
)
def power_norm_eval(student: Student) -> None:
    x, gain, bias, running = _power_inputs()
    y, found = student.call("power_norm", x, gain, bias, running, 0.9, False)
    near(y, x / (running + 1e-5).sqrt() * gain + bias, "y in evaluation", "评估时的 y")
    near(found, running, "running mean squares in evaluation", "评估时的滑动均方")


@law(
    "power_norm.first",
    part="power_norm",
    kind=EDGE,
    note="003",
    says="the first batch is divided by its own",
    says_zh="第一个 batch 用自己的统计量",
)
def power_norm_first(student: Student) -> None:
    x, gain, bias, _ = _power_inputs()
    y, found = student.call("power_norm", x, gain, bias, None, 0.9, True)
    square = x.square().mean((0, 1))
    near(y, x / (square + 1e-5).sqrt() * gain + bias, "y of the first batch", "第一个 batch 的 y")
    near(found, square, "running mean squares after the first batch", "第一个 batch 之后的滑动均方")


@law(
    "power_norm.pure",
    part="power_norm",
    kind=EDGE,
    note="003",
    says="the statistics handed in stay as they are",
    says_zh="传入的统计量保持原样",
)
def power_norm_pure(student: Student) -> None:
    unchanged(student, "power_norm", "x gain bias running", *_power_inputs(), 0.9, True)
