"""Laws of positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seq2seq_suite.lab.assignment import EDGE, Student, law, near
from seq2seq_suite.lab.laws.common import unchanged


def waves(positions: Tensor, width: int) -> Tensor:
    """PE of positions (N,), (N,width), feature by feature in float64."""
    return torch.tensor(
        [
            [
                (math.cos if feature % 2 else math.sin)(place / 10000 ** (2 * (feature // 2) / width))
                for feature in range(width)
            ]
            for place in positions.tolist()
        ],
        dtype=torch.float64,
    )


@law(
    "sinusoids.parity",
    part="sinusoids",
    note="002",
    says="equals the formula, element by element",
    says_zh="逐元素等于公式",
)
def sinusoids_parity(student: Student) -> None:
    length, width = int(torch.randint(30, 60, ())), 2 * int(torch.randint(4, 12, ()))
    near(
        student.call("sinusoids", length, width),
        waves(torch.arange(length), width).float(),
        f"sinusoids({length}, {width})",
        tolerance=1e-4,
    )


@law(
    "sinusoids.zero",
    part="sinusoids",
    kind=EDGE,
    note="004",
    says="position 0 is 0 1 0 1 ...",
    says_zh="位置 0 是 0 1 0 1 ……",
)
def sinusoids_zero(student: Student) -> None:
    near(student.call("sinusoids", 1, 8)[0], torch.tensor([0.0, 1.0] * 4), "position 0", "位置 0")


@law(
    "sinusoids.distance",
    part="sinusoids",
    kind=EDGE,
    note="002",
    says="PE[p] . PE[p + k] depends on k alone",
    says_zh="PE[p] · PE[p + k] 只取决于 k",
)
def sinusoids_distance(student: Student) -> None:
    table = student.call("sinusoids", 40, 16).double()
    first, second, distance = (int(torch.randint(20, ())) for _ in range(3))
    near(
        table[first] @ table[first + distance],
        table[second] @ table[second + distance],
        f"PE[{first}] . PE[{first + distance}] and PE[{second}] . PE[{second + distance}]",
        f"PE[{first}] · PE[{first + distance}] 与 PE[{second}] · PE[{second + distance}]",
        tolerance=1e-4,
    )
    near(
        table[first] @ table[first],
        8.0,
        f"PE[{first}] . PE[{first}], half the width",
        f"PE[{first}] · PE[{first}]，即宽度的一半",
        tolerance=1e-4,
    )


@law(
    "sinusoids.longer",
    part="sinusoids",
    kind=EDGE,
    note="004",
    says="a longer table begins like a shorter one",
    says_zh="更长的表以更短的表开头",
)
def sinusoids_longer(student: Student) -> None:
    near(
        student.call("sinusoids", 30, 8)[:10],
        student.call("sinusoids", 10, 8),
        "the first 10 positions of 30, and 10 alone",
        "30 个位置中的前 10 个与单独 10 个",
    )


@law(
    "shift.linear",
    part="shift",
    note="002",
    says="M PE[t] = PE[t + k], whatever t",
    says_zh="对任何 t，M PE[t] = PE[t + k]",
)
def shift_linear(student: Student) -> None:
    for distance in (1, 5, -3):
        matrix, start = student.call("shift_matrix", 16, distance), int(torch.randint(3, 30, ()))
        here, there = waves(torch.tensor([start, start + distance]), 16).float()
        near(
            torch.as_tensor(matrix).float() @ here,
            there,
            f"shift_matrix(16, {distance}) PE[{start}] against PE[{start + distance}]",
            f"shift_matrix(16, {distance}) PE[{start}] 与 PE[{start + distance}]",
            tolerance=1e-4,
        )


@law(
    "shift.rotation",
    part="shift",
    kind=EDGE,
    note="002",
    says="a shift is a rotation: M M^T = 1",
    says_zh="平移就是旋转：M M^T = 1",
)
def shift_rotation(student: Student) -> None:
    matrix = student.call("shift_matrix", 16, int(torch.randint(2, 50, ())))
    near(matrix @ matrix.T, torch.eye(16, dtype=matrix.dtype), "M M^T", tolerance=1e-4)


@law(
    "shift.adds",
    part="shift",
    kind=EDGE,
    note="002",
    says="two shifts are one: M(j) M(k) = M(j + k)",
    says_zh="两次平移合为一次：M(j) M(k) = M(j + k)",
)
def shift_adds(student: Student) -> None:
    first, second = (int(torch.randint(1, 20, ())) for _ in range(2))
    near(
        student.call("shift_matrix", 8, first) @ student.call("shift_matrix", 8, second),
        student.call("shift_matrix", 8, first + second),
        f"M({first}) M({second}) and M({first + second})",
        f"M({first}) M({second}) 与 M({first + second})",
        tolerance=1e-4,
    )


@law(
    "shift.still", part="shift", kind=EDGE, note="002", says="a shift by 0 changes nothing", says_zh="平移 0 什么都不变"
)
def shift_still(student: Student) -> None:
    near(student.call("shift_matrix", 6, 0), torch.eye(6), "shift_matrix(6, 0)")


def _turned(x: Tensor, offset: int = 0) -> Tensor:
    """As pairs of complex numbers."""
    width = x.size(-1)
    angle = torch.arange(offset, offset + x.size(2)).double().unsqueeze(1) / 10000 ** (
        torch.arange(0, width, 2).double() / width
    )
    pairs = torch.complex(*x.double().chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((pairs.real, pairs.imag), -1).float()


@law(
    "rotate.parity",
    part="rotate",
    note="002",
    says="turns each pair by its angle",
    says_zh="把每一对特征旋转相应的角度",
)
def rotate_parity(student: Student) -> None:
    x = torch.randn(2, 3, 9, 8)
    near(student.call("rotate", x), _turned(x), tolerance=1e-4)


@law(
    "rotate.offset",
    part="rotate",
    kind=EDGE,
    note="004",
    says="cached positions move the first column",
    says_zh="缓存的位置使第一列后移",
)
def rotate_offset(student: Student) -> None:
    x, offset = torch.randn(2, 3, 9, 8), int(torch.randint(1, 8, ()))
    near(
        student.call("rotate", x[:, :, offset:], offset),
        _turned(x)[:, :, offset:],
        f"offset {offset}",
        f"offset 为 {offset}",
        tolerance=1e-4,
    )


@law(
    "rotate.distance",
    part="rotate",
    kind=EDGE,
    note="002",
    says="q . k depends on the distance alone",
    says_zh="q · k 只取决于距离",
)
def rotate_distance(student: Student) -> None:
    query, key = (torch.randn(8).expand(1, 1, 12, 8) for _ in range(2))
    scores = (student.call("rotate", query) @ student.call("rotate", key).mT)[0, 0]
    near(
        scores[5, 2],
        scores[11, 8],
        "query 5 and key 2 against query 11 and key 8",
        "query 5 与 key 2，对比 query 11 与 key 8",
        tolerance=1e-4,
    )


@law("rotate.pure", part="rotate", kind=EDGE, note="002", says="x stays as it is", says_zh="x 保持原样")
def rotate_pure(student: Student) -> None:
    unchanged(student, "rotate", "x", torch.randn(2, 3, 9, 8))
