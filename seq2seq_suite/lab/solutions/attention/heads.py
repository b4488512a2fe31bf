"""Several heads: attention in H narrow spaces side by side.

Letters: B rows, T positions, S positions of the memory, D width, H heads, E = D / H width of a head.
"""

from typing import NamedTuple

import torch
from lab_given import attend
from torch import Tensor
from torch.nn import functional


class Weights(NamedTuple):
    """What attention learns: four matrices (D,D) and four biases (D,), used as y = x W^T + b."""

    wq: Tensor
    bq: Tensor
    wk: Tensor
    bk: Tensor
    wv: Tensor
    bv: Tensor
    wo: Tensor
    bo: Tensor


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cuts the features of each position into heads: head h gets features h E to (h + 1) E.

    Args:
        x: (B,T,D).
        num_heads: H, a divisor of D.

    Returns:
        (B,H,T,E).

    Example: two positions of four features, two heads.
        >>> split_heads(torch.tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]]), 2).tolist()
        [[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]]

    Source: note 004, "为什么能更好地知道 it": a cut along the features.
    """
    # BEGIN SOLUTION
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads).transpose(1, 2)
    # END SOLUTION


def merge_heads(x: Tensor) -> Tensor:
    """Undoes `split_heads`: the heads of a position stand behind one another again.

    Args:
        x: (B,H,T,E).

    Returns:
        (B,T,D).

    Example:
        >>> merge_heads(torch.tensor([[[[1, 2], [5, 6]], [[3, 4], [7, 8]]]])).tolist()
        [[[1, 2, 3, 4], [5, 6, 7, 8]]]
    """
    # BEGIN SOLUTION
    batch, heads, length, head_width = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * head_width)
    # END SOLUTION


def multi_head(x: Tensor, memory: Tensor, weights: Weights, num_heads: int, visible: Tensor | None = None) -> Tensor:
    """MultiHead(x, memory) = Concat(head_1, ..., head_H) W^O, head_i = Attention(x W_i^Q, memory W_i^K, memory W_i^V).

    Self-attention is the case memory = x; in cross-attention the memory is what the encoder made.

    Args:
        x: (B,T,D), where the queries come from.
        memory: (B,S,D), where keys and values come from.
        weights: of all heads; head i is rows i E to (i + 1) E of wq, wk and wv.
        num_heads: H.
        visible: bool, broadcastable to (B,T,S), the same for each head. None: everywhere.

    Returns:
        (B,T,D).

    Source: Vaswani et al. 2017, section 3.2.2; notes 001, 002 and 004.
    """
    # BEGIN SOLUTION
    query = split_heads(functional.linear(x, weights.wq, weights.bq), num_heads)
    key = split_heads(functional.linear(memory, weights.wk, weights.bk), num_heads)
    value = split_heads(functional.linear(memory, weights.wv, weights.bv), num_heads)
    visible = None if visible is None else visible.unsqueeze(1)
    return functional.linear(merge_heads(attend(query, key, value, visible)), weights.wo, weights.bo)
    # END SOLUTION
