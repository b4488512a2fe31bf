"""A block of the encoder: how its parts are wired."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from lab_given import residual
from torch import Tensor


class Parts(NamedTuple):
    """What a block is made of.

    `self_attention(x (B,T,D), memory (B,S,D), visible (B,1,S) or (B,T,S) bool)` gives (B,T,D): queries come from x,
    keys and values from the memory. `feed_forward` and each of the norms take (B,T,D) to (B,T,D).
    """

    self_attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    feed_forward: Callable[[Tensor], Tensor]
    norms: Sequence[Callable[[Tensor], Tensor]]


def encoder_block(x: Tensor, mask: Tensor, parts: Parts, placement: str) -> Tensor:
    """Self-attention, then the feed-forward network, each with its residual connection and its norm.

    Args:
        x: (B,T,D).
        mask: (B,T) bool, True = real; no position may look at padding.
        parts: norms[0] belongs to self-attention, norms[1] to the feed-forward network.
        placement: of the norms, "pre" or "post".

    Returns:
        (B,T,D).

    Source: Vaswani et al. 2017, section 3.1; "Encoder" in note 003.
    """
    # BEGIN SOLUTION
    visible = mask.unsqueeze(1)
    x = residual(x, lambda y: parts.self_attention(y, y, visible), parts.norms[0], placement)
    return residual(x, parts.feed_forward, parts.norms[1], placement)
    # END SOLUTION
