"""Laws of attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.lab.assignment import EDGE, Broken, Failed, Student, law, near, number
from seq2seq_suite.lab.laws.common import Weights, real, unchanged

WIDTH, HEADS = 12, 3


def inputs(size: float = 1.5) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values whose widths and numbers all differ."""
    return torch.randn(2, 3, 4, 8) * size, torch.randn(2, 3, 5, 8) * size, torch.randn(2, 3, 5, 6)


def some_visible() -> Tensor:
    """(2,1,4,5): at least one key for each query."""
    visible = torch.rand(2, 1, 4, 5) > 0.5
    visible[..., 0] = True
    return visible


@law(
    "attend.parity",
    part="attend",
    note="000",
    says="equals torch's attention where nothing is hidden",
    says_zh="没有遮挡时与 torch 的注意力相同",
)
def attend_parity(student: Student) -> None:
    query, key, value = inputs()
    near(
        student.call("attend", query, key, value),
        functional.scaled_dot_product_attention(query, key, value),
        "without a mask",
        "没有 mask 时",
    )


@law(
    "attend.masked",
    part="attend",
    note="004",
    says="equals torch's attention under a mask",
    says_zh="有 mask 时与 torch 的注意力相同",
)
def attend_masked(student: Student) -> None:
    query, key, value = inputs()
    visible = some_visible()
    near(
        student.call("attend", query, key, value, visible),
        functional.scaled_dot_product_attention(query, key, value, visible),
        "under a mask",
        "有 mask 时",
    )


@law(
    "attend.leak",
    part="attend",
    kind=EDGE,
    note="003",
    says="what a query may not see changes nothing for it",
    says_zh="看不到的 key 和 value 对 query 毫无影响",
)
def attend_leak(student: Student) -> None:
    query, key, value = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 6)
    visible = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    before = student.call("attend", query, key, value, visible)
    changed = [x.index_add(2, torch.tensor([4]), torch.full_like(x[:, :, :1], 100.0)) for x in (key, value)]
    after = student.call("attend", query, *changed, visible)
    moved = ((before - after).abs() > 1e-5 * (1 + before.abs())).nonzero()
    for where in moved.tolist():
        if where[2] < 4:
            was, now = before[tuple(where)].item(), after[tuple(where)].item()
            raise Broken(
                f"position {where[2]} sees position 4, which is hidden from it: key and value 4 changed, and "
                f"at {where} your output went from {number(was)} to {number(now)}",
                f"位置 {where[2]} 看到了本应对它隐藏的位置 4：key 4 和 value 4 变了，"
                f"你的输出在 {where} 从 {number(was)} 变成 {number(now)}",
                where=tuple(where),
                got=now,
                expected=was,
            )


@law(
    "attend.blind",
    part="attend",
    kind=EDGE,
    note="004",
    says="a query that may see nothing gets zeros",
    says_zh="什么都看不到的 query 得到零向量",
)
def attend_blind(student: Student) -> None:
    query, key, value = inputs()
    visible = some_visible()
    visible[0, 0, 1] = False
    got = student.call("attend", query, key, value, visible)
    near(got[0, :, 1], torch.zeros(3, 6), "a query that may see no key", "看不到任何 key 的 query")


@law(
    "attend.large",
    part="attend",
    kind=EDGE,
    note="002",
    says="scores of hundreds do not overflow",
    says_zh="分数上百时不溢出",
)
def attend_large(student: Student) -> None:
    query, key, value = inputs(30.0)
    near(
        student.call("attend", query, key, value),
        functional.scaled_dot_product_attention(query, key, value),
        "scores of hundreds",
        "分数上百时",
        tolerance=1e-3,
    )


@law(
    "attend.gradient",
    part="attend",
    kind=EDGE,
    note="000",
    says="its gradients equal torch's",
    says_zh="梯度与 torch 相同",
)
def attend_gradient(student: Student) -> None:
    query, key, value = leaves = [x.requires_grad_() for x in inputs()]
    visible, cotangent = some_visible(), torch.randn(2, 3, 4, 6)
    _, found = student.call("attend", *(x.detach() for x in leaves), visible, gradient=(0, 1, 2), cotangent=cotangent)
    output = functional.scaled_dot_product_attention(query, key, value, visible)
    right = torch.autograd.grad((output * cotangent).sum(), leaves)
    for name, one, other in zip(("query", "key", "value"), found, right, strict=True):
        if one is None:
            raise Broken(
                f"no gradient reaches `{name}`: something is detached", f"梯度没有传到 `{name}`：计算图被切断了"
            )
        near(one, other, f"gradient of {name}", f"{name} 的梯度")


@law("attend.pure", part="attend", kind=EDGE, note="000", says="its inputs stay as they are", says_zh="输入保持原样")
def attend_pure(student: Student) -> None:
    unchanged(student, "attend", "query key value visible", *inputs(), some_visible())


@law(
    "attend.half",
    part="attend",
    kind=EDGE,
    note="000",
    says="works in float16 and bfloat16",
    says_zh="在 float16 和 bfloat16 下也成立",
)
def attend_half(student: Student) -> None:
    visible = some_visible()
    for precision, tolerance in ((torch.bfloat16, 5e-2), (torch.float16, 1e-2)):
        rounded = [x.to(precision) for x in inputs()]
        try:
            got = student.call("attend", *rounded, visible)
        except Failed as failed:
            raise Broken(f"in {precision}: {failed.message}", f"{precision} 下：{failed.message_zh}") from None
        query, key, value = (x.float() for x in rounded)
        near(
            got,
            functional.scaled_dot_product_attention(query, key, value, visible),
            f"in {precision}",
            f"{precision} 下",
            tolerance=tolerance,
        )
        if got.dtype != precision:
            raise Broken(
                f"the output of {precision} is {got.dtype}; it is to have the inputs' type",
                f"输入为 {precision}，输出却是 {got.dtype}；类型应与输入相同",
            )


@law(
    "masks.causal",
    part="masks",
    note="004",
    says="a position sees itself and what is before it",
    says_zh="每个位置看到自己和之前的位置",
)
def masks_causal(student: Student) -> None:
    length = int(torch.randint(3, 7, ()))
    near(student.call("causal_mask", length).int(), torch.ones(length, length).tril().int(), f"causal_mask({length})")


@law(
    "masks.past",
    part="masks",
    kind=EDGE,
    note="004",
    says="cached positions are visible to all",
    says_zh="缓存的位置人人可见",
)
def masks_past(student: Student) -> None:
    near(
        student.call("causal_mask", 2, 3).int(),
        torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.int32),
        "causal_mask(2, past=3)",
    )


@law(
    "masks.padding",
    part="masks",
    note="004",
    says="the first positions of a row are real, the rest is padding",
    says_zh="每行开头是真实位置，其余是填充",
)
def masks_padding(student: Student) -> None:
    lengths = torch.randint(0, 5, (3,))
    expected = torch.tensor([[[place < length for place in range(4)]] for length in lengths.tolist()])
    near(student.call("padding_mask", lengths, 4).int(), expected.int(), f"padding_mask({lengths.tolist()}, 4)")


@law(
    "heads.split",
    part="heads",
    note="004",
    says="head h is features h E to (h + 1) E of every position",
    says_zh="第 h 个头是每个位置的第 h E 到 (h + 1) E 个特征",
)
def heads_split(student: Student) -> None:
    x = torch.randn(2, 5, 12)
    expected = torch.stack([x[..., :4], x[..., 4:8], x[..., 8:]], 1)
    near(student.call("split_heads", x, 3), expected, "split_heads")


@law("heads.merge", part="heads", note="002", says="merging undoes splitting", says_zh="合并是切分的逆操作")
def heads_merge(student: Student) -> None:
    x = torch.randn(2, 5, 12)
    near(
        student.call("merge_heads", torch.stack(x.split(4, -1), 1)),
        x,
        "merge_heads of x that was split",
        "切分后再 merge_heads",
    )


@law(
    "heads.parity",
    part="heads",
    note="001",
    says="equals torch's MultiheadAttention with the same weights",
    says_zh="权重相同时与 torch 的 MultiheadAttention 相同",
)
def heads_parity(student: Student) -> None:
    weights, x, memory, seen = Weights.drawn(WIDTH), torch.randn(2, 4, WIDTH), torch.randn(2, 5, WIDTH), real((5, 3))
    near(
        student.call("multi_head", x, memory, weights, HEADS, seen.unsqueeze(1)),
        torch_multi_head(x, memory, weights, ~seen),
        "against torch.nn.MultiheadAttention",
        "与 torch.nn.MultiheadAttention 比较",
    )


@law(
    "heads.self",
    part="heads",
    note="003",
    says="self-attention under a causal mask equals torch's",
    says_zh="带 causal mask 的 self-attention 与 torch 相同",
)
def heads_self(student: Student) -> None:
    weights, x, causal = Weights.drawn(WIDTH), torch.randn(2, 4, WIDTH), torch.ones(4, 4, dtype=torch.bool).tril()
    near(
        student.call("multi_head", x, x, weights, HEADS, causal.expand(2, 4, 4)),
        torch_multi_head(x, x, weights, attn_mask=~causal),
        "x looks at itself, no position at what follows",
        "x 看自己，且看不到后面",
    )


@law(
    "heads.permute",
    part="heads",
    kind=EDGE,
    note="002",
    says="attention knows no order: permuted in, permuted out",
    says_zh="注意力不知道顺序：输入打乱，输出同样打乱",
)
def heads_permute(student: Student) -> None:
    weights, x, order = Weights.drawn(WIDTH), torch.randn(1, 6, WIDTH), torch.randperm(6)
    near(
        student.call("multi_head", x[:, order], x[:, order], weights, HEADS),
        student.call("multi_head", x, x, weights, HEADS)[:, order],
        f"positions in the order {order.tolist()}",
        f"位置顺序为 {order.tolist()} 时",
    )


@law(
    "heads.rows",
    part="heads",
    kind=EDGE,
    note="004",
    says="a row of a batch is as if alone",
    says_zh="batch 中的一行与单独计算相同",
)
def heads_rows(student: Student) -> None:
    weights, x = Weights.drawn(WIDTH), torch.randn(3, 6, WIDTH)
    visible = torch.rand(3, 6, 6) > 0.3
    visible[..., 0] = True
    near(
        student.call("multi_head", x, x, weights, HEADS, visible)[1:2],
        student.call("multi_head", x[1:2], x[1:2], weights, HEADS, visible[1:2]),
        "row 1 alone",
        "单独计算第 1 行",
    )


def torch_multi_head(
    x: Tensor, memory: Tensor, weights: Weights, hidden: Tensor | None = None, *, attn_mask: Tensor | None = None
) -> Tensor:
    """torch's own, with our weights; its masks are True where ours are False."""
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat((weights.wq, weights.wk, weights.wv)))
        module.in_proj_bias.copy_(torch.cat((weights.bq, weights.bk, weights.bv)))
        module.out_proj.weight.copy_(weights.wo)
        module.out_proj.bias.copy_(weights.bo)
        return module(x, memory, memory, key_padding_mask=hidden, attn_mask=attn_mask)[0]
