"""A block of the decoder: it looks at what is written, then at the encoder's memory."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from lab_given import residual
from torch import Tensor


class Parts(NamedTuple):
    """What a block is made of.

    Both attentions are called as `attention(x (B,T,D), memory (B,S,D), visible (B,1,S) or (B,T,S) bool)` and give
    (B,T,D): queries come from x, keys and values from the memory. The others take (B,T,D) to (B,T,D).
    """

    self_attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    cross_attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    feed_forward: Callable[[Tensor], Tensor]
    norms: Sequence[Callable[[Tensor], Tensor]]


def decoder_block(x: Tensor, memory: Tensor, visible: Tensor, memory_mask: Tensor, parts: Parts, placement: str
                  ) -> Tensor:
    """Masked self-attention, cross-attention, feed-forward network, each with its residual connection and its norm.

    Args:
        x: (B,T,D), the target so far.
        memory: (B,S,D), what the encoder made of the source; it needs no further norm.
        visible: (B,T,T) or (1,T,T) bool, the causal mask.
        memory_mask: (B,S) bool, True = real.
        parts: norms[0], [1] and [2] belong to self-attention, cross-attention and the feed-forward network.
        placement: of the norms, "pre" or "post".

    Returns:
        (B,T,D).

    Source: Vaswani et al. 2017, section 3.1; "Decoder" and "Cross attention" in note 003.
    """
    # BEGIN SOLUTION
    seen = memory_mask.unsqueeze(1)
    x = residual(x, lambda y: parts.self_attention(y, y, visible), parts.norms[0], placement)
    x = residual(x, lambda y: parts.cross_attention(y, memory, seen), parts.norms[1], placement)
    return residual(x, parts.feed_forward, parts.norms[2], placement)
    # END SOLUTION
