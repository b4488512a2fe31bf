"""Laws of attention."""

import torch
from torch.nn import functional as F

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near


def _query_key_value(size: float = 1.5) -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 3, 4, 8) * size, torch.randn(2, 3, 5, 8) * size, torch.randn(2, 3, 5, 6)


def _visible() -> torch.Tensor:
    visible = torch.rand(2, 1, 4, 5) > 0.5
    visible[..., 0] = True
    return visible


@law("attend.parity", part="attend", note="003", says="equals torch without a mask",
     says_zh="没有 mask 时与 torch 相同")
def parity(student: Student) -> None:
    query, key, value = _query_key_value()
    near(student.call("attend", query, key, value), F.scaled_dot_product_attention(query, key, value),
         "without a mask", "没有 mask")


@law("attend.masked", part="attend", note="003", says="equals torch under a mask", says_zh="有 mask 时与 torch 相同")
def masked(student: Student) -> None:
    query, key, value = _query_key_value()
    visible = _visible()
    near(student.call("attend", query, key, value, visible),
         F.scaled_dot_product_attention(query, key, value, visible), "under a mask", "有 mask")


@law("attend.gradient", part="attend", kind=EDGE, note="003", says="gradients equal torch's",
     says_zh="梯度与 torch 相同")
def gradient(student: Student) -> None:
    inputs = [x.requires_grad_() for x in _query_key_value()]
    visible, cotangent = _visible(), torch.randn(2, 3, 4, 6)
    _, found = student.call("attend", *inputs, visible, gradient=(0, 1, 2), cotangent=cotangent)
    right = torch.autograd.grad(F.scaled_dot_product_attention(*inputs, visible), inputs, cotangent)
    for name, one, other in zip(("query", "key", "value"), found, right, strict=True):
        near(one, other, f"gradient of {name}", f"{name} 的梯度")


@law("attend.pure", part="attend", kind=EDGE, note="003", says="changes none of its inputs", says_zh="不改动输入")
def pure(student: Student) -> None:
    inputs = (*_query_key_value(), _visible())
    student.call("attend", *inputs)
    for name, before, after in zip(("query", "key", "value", "visible"), inputs, student.after, strict=True):
        if not torch.equal(before, after):
            raise Broken(f"`{name}` was changed in place; the caller still needs it",
                         f"`{name}` 被就地修改了，调用者还要用它")
