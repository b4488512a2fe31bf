"""Laws of blocks: torch's layers with the same weights, and what each part was called with."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from seq2seq_suite.lab.assignment import EDGE, Broken, Student, law, near
from seq2seq_suite.lab.laws.common import real, unchanged
from seq2seq_suite.lab.probes import Probe

WIDTH, HEADS, HIDDEN = 12, 3, 20


def _network() -> tuple[Tensor, ...]:
    return torch.randn(HIDDEN, 8), torch.randn(HIDDEN), torch.randn(8, HIDDEN) / 4, torch.randn(8)


@law("feed_forward.parity", part="feed_forward", note="001", says="max(0, x W1 + b1) W2 + b2")
def feed_forward_parity(student: Student) -> None:
    x, weights = torch.randn(2, 3, 8), _network()
    near(student.call("feed_forward", x, *weights), Probe("network", *weights)(x), tolerance=1e-4)


@law(
    "feed_forward.positions",
    part="feed_forward",
    kind=EDGE,
    note="002",
    says="each position is treated alike, alone",
    says_zh="每个位置单独且同样处理",
)
def feed_forward_positions(student: Student) -> None:
    x, weights = torch.randn(2, 3, 8), _network()
    near(
        student.call("feed_forward", x, *weights)[1, 2],
        student.call("feed_forward", x[1, 2], *weights),
        "position 2 of row 1 alone",
        "单独计算第 1 行的位置 2",
        tolerance=1e-4,
    )


@law(
    "feed_forward.pure",
    part="feed_forward",
    kind=EDGE,
    note="001",
    says="its inputs stay as they are",
    says_zh="输入保持原样",
)
def feed_forward_pure(student: Student) -> None:
    unchanged(student, "feed_forward", "x w1 b1 w2 b2", torch.randn(2, 3, 8), *_network())


class EncoderParts(NamedTuple):
    """Of an encoder's block."""

    self_attention: Probe
    feed_forward: Probe
    norms: list[Probe]


class DecoderParts(NamedTuple):
    """Of a decoder's block."""

    self_attention: Probe
    cross_attention: Probe
    feed_forward: Probe
    norms: list[Probe]


Layer = TypeVar("Layer", nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def _layer(kind: type[Layer], placement: str) -> Layer:
    """torch's layer with noise on all parameters; in training, since evaluation takes another path."""
    layer = kind(WIDTH, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=placement == "pre")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    return layer.requires_grad_(False)


def _attention(module: nn.MultiheadAttention, name: str) -> Probe:
    pairs = zip(module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3), strict=True)
    return Probe(
        "attention",
        *(one for pair in pairs for one in pair),
        module.out_proj.weight,
        module.out_proj.bias,
        HEADS,
        name=name,
    )


def _parts(layer: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> EncoderParts | DecoderParts:
    third = [layer.norm3] if isinstance(layer, nn.TransformerDecoderLayer) else []
    norms = [
        Probe("layer_norm", norm.weight, norm.bias, name=f"norms[{place}]")
        for place, norm in enumerate([layer.norm1, layer.norm2, *third])
    ]
    network = Probe(
        "network",
        layer.linear1.weight,
        layer.linear1.bias,
        layer.linear2.weight,
        layer.linear2.bias,
        name="feed_forward",
    )
    own = _attention(layer.self_attn, "self_attention")
    if isinstance(layer, nn.TransformerDecoderLayer):
        return DecoderParts(own, _attention(layer.multihead_attn, "cross_attention"), network, norms)
    return EncoderParts(own, network, norms)


def _encoder_parity(student: Student, placement: str) -> None:
    layer, x, mask = _layer(nn.TransformerEncoderLayer, placement), torch.randn(2, 5, WIDTH), real((5, 3))
    got = student.call("encoder_block", x, mask, _parts(layer), placement)
    near(
        got[mask],
        layer(x, src_key_padding_mask=~mask)[mask],
        f"{placement}, against torch.nn.TransformerEncoderLayer",
        f"{placement}，与 torch.nn.TransformerEncoderLayer 比较",
        tolerance=1e-4,
    )


@law(
    "encoder_block.post",
    part="encoder_block",
    note="003",
    says="post equals torch's layer with the same weights",
    says_zh="post 与权重相同的 torch 层相同",
)
def encoder_block_post(student: Student) -> None:
    _encoder_parity(student, "post")


@law(
    "encoder_block.pre",
    part="encoder_block",
    note="003",
    says="pre equals torch's layer with the same weights",
    says_zh="pre 与权重相同的 torch 层相同",
)
def encoder_block_pre(student: Student) -> None:
    _encoder_parity(student, "pre")


@law(
    "encoder_block.padding",
    part="encoder_block",
    kind=EDGE,
    note="004",
    says="what stands on padding changes nothing",
    says_zh="填充处的内容毫无影响",
)
def encoder_block_padding(student: Student) -> None:
    layer, x, mask = _layer(nn.TransformerEncoderLayer, "post"), torch.randn(2, 5, WIDTH), real((5, 3))
    before = student.call("encoder_block", x, mask, _parts(layer), "post")
    other = torch.where(mask.unsqueeze(2), x, 50 * torch.randn(2, 5, WIDTH))
    near(
        student.call("encoder_block", other, mask, _parts(layer), "post")[mask],
        before[mask],
        "padding changed",
        "填充处改变后",
        tolerance=1e-4,
    )


def _heard(student: Student, expected: list[str], placement: str) -> None:
    found = [name for name, _ in student.calls]
    if found != expected:
        raise Broken(
            f"{placement}: the parts are called in the order {', '.join(found)}; expected {', '.join(expected)}",
            f"{placement}：各部分的调用顺序是 {', '.join(found)}；应为 {', '.join(expected)}",
        )


@law(
    "encoder_block.order",
    part="encoder_block",
    kind=EDGE,
    note="003",
    says="each part is called once, in its turn",
    says_zh="每个部分依次调用一次",
)
def encoder_block_order(student: Student) -> None:
    layer, x, mask = _layer(nn.TransformerEncoderLayer, "post"), torch.randn(2, 5, WIDTH), real((5, 3))
    for placement, order in (
        ("post", ["self_attention", "norms[0]", "feed_forward", "norms[1]"]),
        ("pre", ["norms[0]", "self_attention", "norms[1]", "feed_forward"]),
    ):
        student.call("encoder_block", x, mask, _parts(layer), placement)
        _heard(student, order, placement)


@law(
    "encoder_block.pure",
    part="encoder_block",
    kind=EDGE,
    note="003",
    says="x and the mask stay as they are",
    says_zh="x 与 mask 保持原样",
)
def encoder_block_pure(student: Student) -> None:
    parts = _parts(_layer(nn.TransformerEncoderLayer, "post"))
    unchanged(student, "encoder_block", "x mask", torch.randn(2, 5, WIDTH), real((5, 3)), parts, "post")


def _decoding() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x, memory, the causal mask and the memory's mask."""
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    return torch.randn(2, 4, WIDTH), torch.randn(2, 5, WIDTH), causal.unsqueeze(0), real((5, 3))


def _decoder_parity(student: Student, placement: str) -> None:
    layer, given = _layer(nn.TransformerDecoderLayer, placement), _decoding()
    x, memory, visible, mask = given
    expected = layer(x, memory, tgt_mask=~visible[0], memory_key_padding_mask=~mask)
    near(
        student.call("decoder_block", *given, _parts(layer), placement),
        expected,
        f"{placement}, against torch.nn.TransformerDecoderLayer",
        f"{placement}，与 torch.nn.TransformerDecoderLayer 比较",
        tolerance=1e-4,
    )


@law(
    "decoder_block.post",
    part="decoder_block",
    note="003",
    says="post equals torch's layer with the same weights",
    says_zh="post 与权重相同的 torch 层相同",
)
def decoder_block_post(student: Student) -> None:
    _decoder_parity(student, "post")


@law(
    "decoder_block.pre",
    part="decoder_block",
    note="003",
    says="pre equals torch's layer with the same weights",
    says_zh="pre 与权重相同的 torch 层相同",
)
def decoder_block_pre(student: Student) -> None:
    _decoder_parity(student, "pre")


@law(
    "decoder_block.future",
    part="decoder_block",
    kind=EDGE,
    note="003",
    says="no position sees what follows it",
    says_zh="任何位置都看不到后面",
)
def decoder_block_future(student: Student) -> None:
    layer, (x, *others) = _layer(nn.TransformerDecoderLayer, "post"), _decoding()
    before = student.call("decoder_block", x, *others, _parts(layer), "post")
    other = torch.cat((x[:, :3], x[:, 3:] + 5 * torch.randn(2, 1, WIDTH)), 1)
    near(
        student.call("decoder_block", other, *others, _parts(layer), "post")[:, :3],
        before[:, :3],
        "the last position changed",
        "最后一个位置改变后",
        tolerance=1e-4,
    )


@law(
    "decoder_block.memory",
    part="decoder_block",
    kind=EDGE,
    note="004",
    says="padding of the source changes nothing",
    says_zh="源句的填充毫无影响",
)
def decoder_block_memory(student: Student) -> None:
    layer, (x, memory, visible, mask) = _layer(nn.TransformerDecoderLayer, "post"), _decoding()
    before = student.call("decoder_block", x, memory, visible, mask, _parts(layer), "post")
    other = torch.where(mask.unsqueeze(2), memory, 50 * torch.randn(2, 5, WIDTH))
    near(
        student.call("decoder_block", x, other, visible, mask, _parts(layer), "post"),
        before,
        "padding of the memory changed",
        "memory 的填充处改变后",
        tolerance=1e-4,
    )


@law(
    "decoder_block.order",
    part="decoder_block",
    kind=EDGE,
    note="003",
    says="each part is called once, in its turn",
    says_zh="每个部分依次调用一次",
)
def decoder_block_order(student: Student) -> None:
    layer, given = _layer(nn.TransformerDecoderLayer, "post"), _decoding()
    parts = ["self_attention", "cross_attention", "feed_forward"]
    for placement in ("post", "pre"):
        student.call("decoder_block", *given, _parts(layer), placement)
        pairs = [(part, f"norms[{place}]") for place, part in enumerate(parts)]
        _heard(student, [one for pair in pairs for one in (pair if placement == "post" else pair[::-1])], placement)


@law(
    "decoder_block.pure",
    part="decoder_block",
    kind=EDGE,
    note="003",
    says="its inputs stay as they are",
    says_zh="输入保持原样",
)
def decoder_block_pure(student: Student) -> None:
    parts = _parts(_layer(nn.TransformerDecoderLayer, "pre"))
    unchanged(student, "decoder_block", "x memory visible memory_mask", *_decoding(), parts, "pre")
