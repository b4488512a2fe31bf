"""Laws of speech."""

from __future__ import annotations

import math
from itertools import groupby, product

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near
from seq2seq_suite.lab.laws.common import unchanged


def _sound(count: int = 4000) -> tuple[Tensor, Tensor]:
    """Noise with a tone in it, and bands."""
    tone = torch.sin(torch.arange(count) * 0.3) * torch.linspace(0, 0.5, count)
    return tone + 0.05 * torch.randn(count), torch.rand(257, 20)


def _features(samples: Tensor, filters: Tensor, window: int, hop: int, fft: int) -> Tensor:
    """By torch.stft."""
    spectrum = torch.stft(samples, fft, hop, window, torch.hann_window(window), pad_mode="reflect", return_complex=True)
    return (spectrum.abs().square().T @ filters + 1e-6).log()


@law(
    "log_mel.parity",
    part="log_mel",
    note="003",
    says="equals torch.stft and its bands",
    says_zh="与 torch.stft 的结果相同",
)
def log_mel_parity(student: Student) -> None:
    samples, filters = _sound()
    near(student.call("log_mel", samples, filters), _features(samples, filters, 400, 160, 512), tolerance=1e-4)


@law(
    "log_mel.settings",
    part="log_mel",
    kind=EDGE,
    note="003",
    says="so for other windows and hops",
    says_zh="换窗长与步长也成立",
)
def log_mel_settings(student: Student) -> None:
    samples, _ = _sound(1001)
    filters = torch.rand(65, 7)
    near(
        student.call("log_mel", samples, filters, 100, 50, 128),
        _features(samples, filters, 100, 50, 128),
        "window 100, hop 50, fft 128",
        "window 100、hop 50、fft 128",
        tolerance=1e-4,
    )


@law(
    "log_mel.silence",
    part="log_mel",
    kind=EDGE,
    note="003",
    says="silence is log 1e-6, not minus infinity",
    says_zh="静音是 log 1e-6，而不是负无穷",
)
def log_mel_silence(student: Student) -> None:
    got = student.call("log_mel", torch.zeros(2000), torch.rand(257, 20))
    near(got, torch.full((13, 20), math.log(1e-6)), "silence", "静音")


@law("log_mel.pure", part="log_mel", kind=EDGE, note="003", says="the samples stay as they are", says_zh="样本保持原样")
def log_mel_pure(student: Student) -> None:
    unchanged(student, "log_mel", "samples filters", *_sound())


def _bars() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, lengths, and bars of which one has no width and one reaches beyond the end."""
    return (
        torch.rand(2, 10, 6) + 1,
        torch.tensor([10, 6]),
        torch.tensor([[2, 7], [1, 4]]),
        torch.tensor([[2, 1], [0, 5]]),
    )


@law(
    "spec_augment.bars",
    part="spec_augment",
    note="003",
    says="the frames of each bar become 0, the others stay",
    says_zh="每条带内的帧变为 0，其余不变",
)
def spec_augment_bars(student: Student) -> None:
    x, starts, widths = torch.rand(3, 12, 6) + 1, torch.randint(0, 8, (3, 2)), torch.randint(1, 4, (3, 2))
    expected = x.clone()
    for row in range(3):
        for start, width in zip(starts[row].tolist(), widths[row].tolist(), strict=True):
            expected[row, start : start + width] = 0
    near(
        student.call("spec_augment", x, torch.tensor([12, 12, 12]), starts, widths),
        expected,
        f"bars from {starts.tolist()} of {widths.tolist()} frames",
        f"起点 {starts.tolist()}、宽 {widths.tolist()} 的带",
    )


@law(
    "spec_augment.end",
    part="spec_augment",
    kind=EDGE,
    note="003",
    says="nothing behind the end changes",
    says_zh="末尾之后什么都不变",
)
def spec_augment_end(student: Student) -> None:
    x, lengths, starts, widths = _bars()
    expected = x.clone()
    expected[0, 2:4] = expected[0, 7] = expected[1, 4:6] = 0
    near(
        student.call("spec_augment", x, lengths, starts, widths),
        expected,
        "an utterance of 6 frames in a batch of 10",
        "10 帧的 batch 中一条 6 帧的录音",
    )


@law("spec_augment.pure", part="spec_augment", kind=EDGE, note="003", says="x stays as it is", says_zh="x 保持原样")
def spec_augment_pure(student: Student) -> None:
    unchanged(student, "spec_augment", "x lengths starts widths", *_bars())


def _over_all_paths(log_p: Tensor, target: list[int]) -> float:
    """-log of the sum over all paths that collapse to the target; blank 0."""
    total = 0.0
    for path in product(range(log_p.size(1)), repeat=log_p.size(0)):
        if [symbol for symbol, _ in groupby(path) if symbol] == target:
            total += math.exp(sum(float(log_p[frame, symbol]) for frame, symbol in enumerate(path)))
    return -math.log(total)


def _all_paths(student: Student, frames: int, target: list[int]) -> None:
    log_p = torch.randn(frames, 3).log_softmax(-1)
    near(
        float(student.call("ctc_loss", log_p, target, 0)),
        _over_all_paths(log_p, target),
        f"the {3**frames} paths of {frames} frames, target {target}",
        f"{frames} 帧的 {3**frames} 条路径，目标 {target}",
    )


@law(
    "ctc.paths",
    part="ctc",
    note="003",
    says="the sum over all paths that collapse to the target",
    says_zh="所有能归并为目标的路径之和",
)
def ctc_paths(student: Student) -> None:
    for frames, target in ((4, [1, 2]), (3, [2]), (5, [1, 2, 1])):
        _all_paths(student, frames, target)


@law(
    "ctc.repeats",
    part="ctc",
    note="003",
    says="equal symbols in a row need a blank between",
    says_zh="相邻相同的符号之间要有空白",
)
def ctc_repeats(student: Student) -> None:
    for frames, target in ((4, [1, 1]), (3, [2, 2]), (5, [1, 1, 2])):
        _all_paths(student, frames, target)


@law("ctc.empty", part="ctc", kind=EDGE, note="003", says="an empty target is blanks alone", says_zh="空目标就是全空白")
def ctc_empty(student: Student) -> None:
    _all_paths(student, 4, [])
    _all_paths(student, 1, [])


@law(
    "ctc.tight",
    part="ctc",
    kind=EDGE,
    note="003",
    says="works where the frames are just enough",
    says_zh="帧数刚好够时也成立",
)
def ctc_tight(student: Student) -> None:
    _all_paths(student, 1, [2])
    _all_paths(student, 3, [1, 1])


@law(
    "ctc.gradient",
    part="ctc",
    kind=EDGE,
    note="003",
    says="its gradient is torch's, and never NaN",
    says_zh="梯度与 torch 相同，且不会是 NaN",
)
def ctc_gradient(student: Student) -> None:
    target, log_p = [1, 2, 2], torch.randn(6, 4).log_softmax(-1)
    _, (found,) = student.call("ctc_loss", log_p, target, 0, gradient=(0,))
    if found is None:
        raise Broken("no gradient reaches log_p", "梯度没有传到 log_p")
    leaf = log_p.clone().requires_grad_()
    loss = functional.ctc_loss(
        leaf.unsqueeze(1), torch.tensor([target]), torch.tensor([6]), torch.tensor([3]), reduction="sum"
    )
    right = torch.autograd.grad(loss, leaf)[0]
    # torch's is that of the logits; through log-softmax both are the same
    near(
        found - log_p.exp() * found.sum(1, keepdim=True),
        right - log_p.exp() * right.sum(1, keepdim=True),
        "gradient of the logits",
        "logits 的梯度",
        tolerance=1e-4,
    )


@law("ctc.long", part="ctc", kind=EDGE, note="003", says="many frames do not underflow", says_zh="帧数很多也不下溢")
def ctc_long(student: Student) -> None:
    target, log_p = torch.randint(1, 5, (12,)).tolist(), (2 * torch.randn(80, 5)).log_softmax(-1)
    expected = functional.ctc_loss(
        log_p.double().unsqueeze(1), torch.tensor([target]), torch.tensor([80]), torch.tensor([12]), reduction="sum"
    )
    near(
        float(student.call("ctc_loss", log_p, target, 0)),
        float(expected),
        "80 frames, 12 symbols",
        "80 帧，12 个符号",
        tolerance=1e-4,
    )
