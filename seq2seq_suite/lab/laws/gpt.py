"""Laws of language modelling."""

from __future__ import annotations

import random

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near
from seq2seq_suite.lab.laws.common import only, real, unchanged

LENGTHS = (6, 4, 1)


def _batch() -> tuple[Tensor, Tensor, Tensor]:
    """Rows of 6, 4 and 1 symbols."""
    return 2 * torch.randn(3, 6, 7), torch.randint(7, (3, 6)), real(LENGTHS)


@law(
    "language_loss.parity",
    part="language_loss",
    note="001",
    says="-log p of each symbol given those before it",
    says_zh="每个符号在之前符号下的 -log p",
)
def language_loss_parity(student: Student) -> None:
    logits, tokens, mask = _batch()
    total, _ = student.call("language_loss", logits, tokens, mask)
    expected = sum(
        functional.cross_entropy(logits[row, : length - 1], tokens[row, 1:length], reduction="sum")
        for row, length in enumerate(LENGTHS)
    )
    near(total, expected, "the sum", "总和", tolerance=3e-5)


@law(
    "language_loss.count",
    part="language_loss",
    note="001",
    says="all real symbols count but the first of each row",
    says_zh="除每行第一个外，所有真实符号都计入",
)
def language_loss_count(student: Student) -> None:
    _, count = student.call("language_loss", *_batch())
    near(float(count), 8.0, "the count of rows with 6, 4 and 1 symbols", "三行各 6、4、1 个符号的计数")


@law(
    "language_loss.holes",
    part="language_loss",
    kind=EDGE,
    note="001",
    says="what the mask leaves out counts nowhere",
    says_zh="mask 去掉的符号一概不计",
)
def language_loss_holes(student: Student) -> None:
    logits, tokens, mask = torch.randn(2, 6, 7), torch.randint(7, (2, 6)), torch.ones(2, 6, dtype=torch.bool)
    mask[0, 2] = mask[1, 4] = mask[1, 0] = False
    total, count = student.call("language_loss", logits, tokens, mask)
    log_p = logits.log_softmax(-1)
    asked = [(row, place) for row in range(2) for place in range(1, 6) if mask[row, place]]
    near(
        total,
        -sum(log_p[row, place - 1, tokens[row, place]] for row, place in asked),
        "symbols 2 of row 0 and 4 of row 1 left out",
        "去掉第 0 行第 2 个和第 1 行第 4 个符号",
        tolerance=3e-5,
    )
    near(float(count), 8.0, "their count", "计数")


@law(
    "language_loss.padding",
    part="language_loss",
    kind=EDGE,
    note="001",
    says="what stands on padding changes nothing",
    says_zh="填充处的内容毫无影响",
)
def language_loss_padding(student: Student) -> None:
    logits, tokens, mask = _batch()
    before, _ = student.call("language_loss", logits, tokens, mask)
    other, symbols = logits.clone(), tokens.clone()
    other[~mask], symbols[~mask] = float("inf"), 0
    after, _ = student.call("language_loss", other, symbols, mask)
    near(after, before, "logits and symbols on padding changed", "填充处的 logits 与符号改变后", tolerance=3e-5)


@law(
    "language_loss.gradient",
    part="language_loss",
    kind=EDGE,
    note="001",
    says="the last logits of a row predict nothing",
    says_zh="一行最后的 logits 不预测任何符号",
)
def language_loss_gradient(student: Student) -> None:
    logits, tokens, mask = _batch()
    _, (found,) = student.call("language_loss", logits, tokens, mask, gradient=(0,))
    if found is None:
        raise Broken("no gradient reaches the logits", "梯度没有传到 logits")
    asked = torch.zeros(3, 6, dtype=torch.bool)
    asked[:, :-1] = mask[:, 1:]
    wanted = functional.one_hot(tokens.roll(-1, 1), 7)
    near(found, (logits.softmax(-1) - wanted) * asked.unsqueeze(2), "gradient of the logits", "logits 的梯度")


def _pair() -> tuple[list[int], list[int]]:
    return (
        [random.randint(5, 9) for _ in range(random.randint(2, 5))],
        [random.randint(5, 9) for _ in range(random.randint(1, 4))],
    )


@law("layout.tokens", part="layout", note="001", says="source, BEGIN, target, END", says_zh="源、BEGIN、目标、END")
def layout_tokens(student: Student) -> None:
    source, target = _pair()
    tokens, _, _ = student.call("layout", source, target, 1, 2)
    only(
        tokens,
        [*source, 1, *target, 2],
        f"the tokens of layout({source}, {target}, 1, 2)",
        f"layout({source}, {target}, 1, 2) 的符号",
    )


@law(
    "layout.answered",
    part="layout",
    note="001",
    says="L2 asks for the target and END, not for BEGIN",
    says_zh="L2 计入目标与 END，不计 BEGIN",
)
def layout_answered(student: Student) -> None:
    source, target = _pair()
    _, _, answered = student.call("layout", source, target, 1, 2)
    only(
        [bool(one) for one in answered],
        [False] * (len(source) + 1) + [True] * (len(target) + 1),
        f"what L2 counts of layout({source}, {target}, 1, 2)",
        f"layout({source}, {target}, 1, 2) 中 L2 计入的",
    )


@law(
    "layout.predicted",
    part="layout",
    note="001",
    says="L1 predicts the source's symbols but the first",
    says_zh="L1 预测源中除第一个外的符号",
)
def layout_predicted(student: Student) -> None:
    source, target = _pair()
    _, predicted, _ = student.call("layout", source, target, 1, 2)
    only(
        [bool(one) for one in predicted],
        [False] + [True] * (len(source) - 1) + [False] * (len(target) + 2),
        f"what L1 counts of layout({source}, {target}, 1, 2)",
        f"layout({source}, {target}, 1, 2) 中 L1 计入的",
    )


@law(
    "layout.short",
    part="layout",
    kind=EDGE,
    note="001",
    says="a source of one symbol, an empty target",
    says_zh="只有一个符号的源，空的目标",
)
def layout_short(student: Student) -> None:
    tokens, predicted, answered = student.call("layout", [5], [], 1, 2)
    only(tokens, [5, 1, 2], "layout([5], [], 1, 2)", "layout([5], [], 1, 2)")
    only([bool(one) for one in predicted], [False, False, False], "what L1 counts of it", "其中 L1 计入的")
    only([bool(one) for one in answered], [False, False, True], "what L2 counts of it", "其中 L2 计入的")


@law(
    "layout.pure",
    part="layout",
    kind=EDGE,
    note="001",
    says="source and target stay as they are",
    says_zh="源与目标保持原样",
)
def layout_pure(student: Student) -> None:
    unchanged(student, "layout", "source target", *_pair(), 1, 2)


@law(
    "fine_tuning.means",
    part="fine_tuning",
    note="001",
    says="L3 = L2 + lambda L1, both means",
    says_zh="L3 = L2 + lambda L1，两者都是平均",
)
def fine_tuning_means(student: Student) -> None:
    sums, weight = torch.rand(2) * 50 + 1, float(torch.rand(()) * 0.8 + 0.1)
    counts = torch.randint(2, 30, (2,)).tolist()
    near(
        student.call("fine_tuning_loss", (sums[0], counts[0]), (sums[1], counts[1]), weight),
        sums[0] / counts[0] + weight * sums[1] / counts[1],
        f"sums {sums[0]:.1f} and {sums[1]:.1f}, counts {counts}, lambda {weight:.2f}",
        f"总和 {sums[0]:.1f} 与 {sums[1]:.1f}，计数 {counts}，lambda 为 {weight:.2f}",
    )


@law(
    "fine_tuning.zero",
    part="fine_tuning",
    kind=EDGE,
    note="001",
    says="lambda 0 leaves L2 alone",
    says_zh="lambda 为 0 就只剩 L2",
)
def fine_tuning_zero(student: Student) -> None:
    near(
        student.call("fine_tuning_loss", (torch.tensor(12.0), 4), (torch.tensor(80.0), 20), 0.0),
        torch.tensor(3.0),
        "lambda 0",
        "lambda 为 0",
    )
