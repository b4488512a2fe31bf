"""Callables that laws hand to students: built from names and tensors, on either side of the pipe.

The worker imports this module too: of ours it may import nothing but its neighbours there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def linear(weight: Tensor, bias: Tensor | None = None) -> Callable[..., Tensor]:
    """x W^T + b; further arguments are ignored."""
    return lambda x, *_: F.linear(x, weight, bias)


def affine(gain: Tensor, bias: Tensor) -> Callable[..., Tensor]:
    """x * gain + bias, in place of a norm."""
    return lambda x: x * gain + bias


def table(vocabulary: int, seed: int) -> Callable[..., tuple[Tensor, list[tuple[int, ...]]]]:
    """A step of a language model with one random row of log-probabilities for each prefix.

    The state is a list of prefixes, a tuple of symbols for each row; the model begins with [()].
    """

    def step(state: list[tuple[int, ...]], last: Tensor) -> tuple[Tensor, list[tuple[int, ...]]]:
        state = [(*prefix, int(symbol)) for prefix, symbol in zip(state, last, strict=True)]
        return torch.stack([row(prefix) for prefix in state]), state

    def row(prefix: tuple[int, ...]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((seed, *prefix)) % 2**31)
        return (torch.randn(vocabulary, generator=generator) * 1.5).log_softmax(-1)

    return step


def fixed(log_p: Tensor) -> Callable[..., tuple[Tensor, Any]]:
    """A step that says the same for every row, whatever came before."""
    return lambda state, last: (log_p.expand(last.numel(), -1), state)


def select() -> Callable[..., list[Any]]:
    """The state's rows."""
    return lambda state, rows: [state[int(row)] for row in rows]


def embed(symbols: Tensor, positions: Tensor) -> Callable[..., Tensor]:
    """(symbols (B, T), first position) -> embeddings plus positions (B, T, D)."""
    return lambda ids, place: symbols[ids] + positions[place : place + ids.size(1)]


def layer_norm(gain: Tensor, bias: Tensor) -> Callable[..., Tensor]:
    """torch's own."""
    return lambda x: F.layer_norm(x, gain.shape, gain, bias)


def network(w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Callable[..., Tensor]:
    """max(0, x W1^T + b1) W2^T + b2."""
    return lambda x: F.linear(F.linear(x, w1, b1).relu(), w2, b2)


def attention(*weights: Any) -> Callable[..., Tensor]:
    """(x (B, T, D), memory (B, S, D), visible) -> (B, T, D), of wq bq wk bk wv bv wo bo and the number of heads."""
    *matrices, num_heads = weights

    def attend(x: Tensor, memory: Tensor, visible: Tensor | None = None) -> Tensor:
        query, key, value = (
            F.linear(of, *matrices[2 * number : 2 * number + 2]).unflatten(2, (num_heads, -1)).transpose(1, 2)
            for number, of in enumerate((x, memory, memory))
        )
        visible = None if visible is None else visible.unsqueeze(1)
        found = F.scaled_dot_product_attention(query, key, value, visible)
        return F.linear(found.transpose(1, 2).flatten(2), *matrices[6:])

    return attend


def ratio() -> Callable[..., Tensor]:
    """The first sum over the second."""
    return lambda sums: sums[0] / sums[1]


KINDS: dict[str, Callable[..., Callable[..., Any]]] = {
    "linear": linear,
    "affine": affine,
    "layer_norm": layer_norm,
    "network": network,
    "attention": attention,
    "table": table,
    "fixed": fixed,
    "select": select,
    "embed": embed,
    "ratio": ratio,
}


class Probe:
    """A callable by its kind and what it is made of; `calls` records its arguments, for the law to read.

    >>> double = Probe("affine", torch.tensor(2.0), torch.tensor(0.0), name="double")
    >>> double(torch.tensor(3.0)), double.calls
    (tensor(6.), [('double', (tensor(3.),))])
    """

    def __init__(self, kind: str, *parts: Any, name: str = ""):
        self.kind, self.parts, self.name = kind, parts, name or kind
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self._function = KINDS[kind](*parts)

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append(
            (self.name, tuple(one.detach().clone() if isinstance(one, Tensor) else one for one in arguments))
        )
        return self._function(*arguments)
