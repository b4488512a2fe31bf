"""Right in another way: blocks."""

import torch
from torch.nn import functional


def feed_forward_by_products(x, w1, b1, w2, b2):
    hidden = torch.maximum(x @ w1.T + b1, torch.zeros(()))
    return hidden @ w2.mT + b2


def feed_forward_by_einsum(x, w1, b1, w2, b2):
    return torch.einsum("df,...f->...d", w2, functional.relu(torch.einsum("fd,...d->...f", w1, x) + b1)) + b2


def encoder_block_written_out(x, mask, parts, placement):
    visible = mask[:, None, :].expand(x.size(0), x.size(1), x.size(1))
    if placement == "pre":
        y = parts.norms[0](x)
        x = x + parts.self_attention(y, y, visible)
        return x + parts.feed_forward(parts.norms[1](x))
    x = parts.norms[0](x + parts.self_attention(x, x, visible))
    return parts.norms[1](x + parts.feed_forward(x))


def encoder_block_in_a_loop(x, mask, parts, placement):
    def attend(y):
        return parts.self_attention(y, y, mask.unsqueeze(1))

    for sublayer, norm in zip((attend, parts.feed_forward), parts.norms, strict=True):
        y = sublayer(norm(x)) if placement == "pre" else sublayer(x)
        x = x + y if placement == "pre" else norm(x + y)
    return x


def decoder_block_written_out(x, memory, visible, memory_mask, parts, placement):
    first, second, third = parts.norms
    seen = memory_mask[:, None].expand(-1, x.size(1), -1)
    if placement == "post":
        x = first(x + parts.self_attention(x, x, visible))
        x = second(x + parts.cross_attention(x, memory, seen))
        return third(x + parts.feed_forward(x))
    y = first(x)
    x = x + parts.self_attention(y, y, visible)
    x = x + parts.cross_attention(second(x), memory, seen)
    return x + parts.feed_forward(third(x))


def decoder_block_in_a_loop(x, memory, visible, memory_mask, parts, placement):
    sublayers = [
        lambda y: parts.self_attention(y, y, visible.expand(y.size(0), -1, -1)),
        lambda y: parts.cross_attention(y, memory, memory_mask[:, None]),
        parts.feed_forward,
    ]
    for number, sublayer in enumerate(sublayers):
        norm = parts.norms[number]
        x = x + sublayer(norm(x)) if placement == "pre" else norm(sublayer(x) + x)
    return x
