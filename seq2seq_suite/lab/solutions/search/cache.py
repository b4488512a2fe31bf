"""Keys and values of what is written already are kept, so that a step costs one position.

Letters: B rows, H heads, T new positions, P cached ones, D width, E = D / H.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from lab_given import Weights, attend, causal_mask, merge_heads, split_heads
from torch import Tensor
from torch.nn import functional

Past = tuple[Tensor, Tensor]


class Parts(NamedTuple):
    """A decoder of one attention: what turns symbols into vectors, and the attention's weights.

    `embed(symbols (B,T), place)` gives (B,T,D): the symbols' vectors plus those of positions place, place + 1, ...
    """

    embed: Callable[[Tensor, int], Tensor]
    weights: Weights
    num_heads: int


def cached_step(x: Tensor, past: Past | None, weights: Weights, num_heads: int) -> tuple[Tensor, Past]:
    """Causal multi-head self-attention of new positions to the cached ones, to those before them and to themselves.

    Args:
        x: (B,T,D), new positions only; T is 1 in a search.
        past: keys and values (B,H,P,E) of earlier positions, oldest first; None at the first step.
        weights: as of `multi_head`.
        num_heads: H.

    Returns:
        (B,T,D), what `multi_head` under a causal mask gives at these positions of the whole sequence; and keys and
        values (B,H,P+T,E) for the next step.

    Source: note 003, step 6: "BEGIN, 機" gives mb2, while k and v of BEGIN stay what they were.
    """
    # BEGIN SOLUTION
    query = split_heads(functional.linear(x, weights.wq, weights.bq), num_heads)
    key = split_heads(functional.linear(x, weights.wk, weights.bk), num_heads)
    value = split_heads(functional.linear(x, weights.wv, weights.bv), num_heads)
    if past is not None:
        key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
    visible = causal_mask(x.size(1), key.size(2) - x.size(1))
    joined = merge_heads(attend(query, key, value, visible))
    return functional.linear(joined, weights.wo, weights.bo), (key, value)
    # END SOLUTION


def decode_step(symbols: Tensor, past: Past | None, parts: Parts) -> tuple[Tensor, Past]:
    """`cached_step` of symbols, each embedded at the position where it stands.

    Args:
        symbols: (B,T) int64, those that follow the cached positions.
        past: as of `cached_step`.
        parts: the decoder.

    Returns:
        As `cached_step`.

    Source: "inference" in note 004, with the positions of "位置编码".
    """
    # BEGIN SOLUTION
    place = 0 if past is None else past[0].size(2)
    return cached_step(parts.embed(symbols, place), past, parts.weights, parts.num_heads)
    # END SOLUTION
