"""What stands between a student's function and the suite: arguments and results of one as the other has them.

Each adapter takes the function and what it replaces, and returns what is put there. Where a call asks for something
that the function is not for (a cache, a gate, a convolution), what was there before answers it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import BLANK, Loss, source_symbols
from seq2seq_suite.lab.laws.common import Weights
from seq2seq_suite.model import layers
from seq2seq_suite.model.attention import KeysValues, MultiHeadAttention
from seq2seq_suite.strategies.ctc_head import positions_needed

Function = Callable[..., Any]


def as_it_is(function: Function, _: Function) -> Function:
    return function


# -- losses ---------------------------------------------------------------------------------------------------------


def mean_loss(loss: Function, before: Function) -> Function:
    """`loss(logits, targets) -> mean` as `model.output.cross_entropy`, a sum; weighted rows have the suite's own."""

    def summed(
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        label_smoothing: float = 0.0,
        row_weights: Tensor | None = None,
    ) -> Tensor:
        return (
            loss(functional.linear(hidden, weight, bias), targets) * targets.size(0)
            if row_weights is None
            else before(hidden, weight, bias, targets, label_smoothing, row_weights)
        )

    return summed


def smoothed_loss(loss: Function, before: Function) -> Function:
    """`loss(logits, target, mask, smoothing) -> (sum, count)`; a wrong count shows in the sum. As in `mean_loss`."""

    def cross_entropy(
        model: Any,
        hidden: Tensor,
        memory: Any,
        targets: Tensor,
        asked: Tensor,
        label_smoothing: float = 0.0,
        row_weights: Tensor | None = None,
    ) -> Tensor:
        mask = torch.zeros(targets.numel(), dtype=torch.bool).index_fill(0, asked, True).view_as(targets)
        total, count = loss(model.logits(hidden, memory), targets, mask, label_smoothing)
        return (
            total * (len(asked) / max(1, int(count)))
            if row_weights is None
            else before(model, hidden, memory, targets, asked, label_smoothing, row_weights)
        )

    return cross_entropy


def language_loss(loss: Function, _: Function) -> Function:
    """`loss(logits, tokens, mask) -> (sum, count)`; a wrong count shows in the sum."""

    def summed(part: Any, states: Any, batch: Any) -> Tensor:
        total, count = loss(part.head(states.values), source_symbols(batch.source), batch.source_mask)
        return total * (part.count(batch) / max(1, int(count)))

    return summed


def fine_tuning_loss(combine: Function, before: Function) -> Function:
    """`loss((sum, count), (sum, count), weight) -> L3`, of updates of one batch; L1 is then reported alone."""

    def added(parts: Any, loss: Loss, batch: Any, states: Any) -> Loss:
        found = before(parts, loss, batch, states)
        if set(found.sums) != {"cross_entropy", "language"}:
            return found
        target, language = ((found.sums[name], max(1, found.counts[name])) for name in ("cross_entropy", "language"))
        weight, beside = found.weights["language"], language[0].detach()
        own = (combine(target, language, weight) - weight * beside / language[1]) * target[1]
        return Loss({"cross_entropy": own, "language": beside}, found.counts, {"cross_entropy": 1.0})

    return added


def set_loss(loss: Function, _: Function) -> Function:
    """`loss(log_p, remaining) -> sum` over the steps of a rollout."""

    def summed(strategy: Any, model: Any, batch: Any, memory: Any) -> Tensor:
        previous, remaining, real = strategy._rollout(model, batch, memory)
        hidden = strategy._hidden(model, replace(batch, target_mask=real), memory, previous)
        return loss(model.logits(hidden, memory).log_softmax(-1)[real], remaining[real])

    return summed


_OWN = 20  # updates in which a loss of loops over positions is the student's: each takes a second and more


def path_loss(loss: Function, before: Function) -> Function:
    """`loss(log_p, target, blank)` of a row, from the log-probabilities of the target's own symbols.

    In the first updates only, then what was there before goes on.
    """
    updates = itertools.count()

    def summed(scores: Tensor, positions: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
        if next(updates) >= _OWN:
            return before(scores, positions, target, lengths)
        total = scores.new_zeros(())
        for row, count, symbols, fits in zip(
            scores, positions.tolist(), _lists(target, lengths), positions_needed(target) <= positions, strict=True
        ):
            own = {symbol: place for place, symbol in reversed(list(enumerate(symbols, 1)))}
            if fits:
                total = total + loss(row[:count], [own[symbol] for symbol in symbols], 0)
        return total

    return summed


def transcript_loss(loss: Function, before: Function) -> Function:
    """`loss(log_p, target, blank)` of each recording, in the first updates."""
    updates = itertools.count()

    def summed(head: Any, states: Any, transcript: Tensor) -> Tensor:
        if next(updates) >= _OWN:
            return before(head, states, transcript)
        scores, positions = head.linear(states.values).log_softmax(-1), states.mask.sum(1)
        fits = positions_needed(transcript) <= positions
        losses: list[Tensor] = [
            loss(row[:count], own, BLANK)
            for row, count, own, fit in zip(
                scores, positions.tolist(), _lists(transcript, (transcript != BLANK).sum(1)), fits, strict=True
            )
            if fit
        ]
        return sum(losses, scores.new_zeros(()))

    return summed


def _lists(symbols: Tensor, lengths: Tensor) -> list[list[int]]:
    return [row[:length] for row, length in zip(symbols.tolist(), lengths.tolist(), strict=True)]


# -- attention ------------------------------------------------------------------------------------------------------


def weights_of(attention: MultiHeadAttention) -> Weights:
    """The weights of an attention, queries, keys and values apart."""
    return Weights(
        *(
            getattr(linear, part)
            for linear in (attention.query, attention.key, attention.value, attention.output)
            for part in ("weight", "bias")
        )
    )


@dataclass(frozen=True)
class PreparedMemory:
    """A memory (B,S,D), and its keys and values where they are asked for."""

    of: Tensor
    keys: Tensor | None = None
    values: Tensor | None = None

    def select(self, sentences: Tensor) -> PreparedMemory:
        """The given sentences, (B',) int64."""
        return PreparedMemory(
            self.of.index_select(0, sentences),
            *(None if part is None else part.index_select(0, sentences) for part in (self.keys, self.values)),
        )


def attention(attend: Function, _: Function) -> Function:
    """`attend(query, key, value, visible)`."""

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        dropout_rate: float = 0.0,
    ) -> Tensor:
        return attend(query, key, value, _whole(visible, *query.shape[:3], key.size(2)))

    return attention


def causal(causal_mask: Function, _: Function) -> Function:
    """`causal_mask(length, past) -> (T,S)`."""

    def causal(length: int, past: int = 0, device: torch.device | None = None) -> Tensor:
        return causal_mask(length, past).to(device).unsqueeze(0)

    return causal


def self_attention(multi_head: Function, before: Function) -> Function:
    """`multi_head(x, x, weights, num_heads, visible)` where nothing is cached."""

    def forward(part: MultiHeadAttention, x: Tensor, visible: Tensor | None, cache: Any = None) -> Any:
        if cache is not None:
            return before(part, x, visible, cache)
        visible = _whole(visible, x.size(0), x.size(1), x.size(1))
        return multi_head(x, x, weights_of(part), part.num_heads, visible), None

    return forward


def cross_attention(multi_head: Function, _: Function) -> Function:
    """`multi_head(x, memory, weights, num_heads, visible)`, the beams of a sentence as one row of queries."""

    def cross(part: MultiHeadAttention, x: Tensor, memory: PreparedMemory, visible: Tensor) -> Tensor:
        queries = x.reshape(visible.size(0), -1, x.size(-1))
        whole = _whole(visible, *queries.shape[:2], memory.of.size(1))
        return multi_head(queries, memory.of, weights_of(part), part.num_heads, whole).view(x.shape)

    return cross


def no_cross_attention(_: Function, __: Function) -> Function:
    """Cross-attention that says nothing: the decoder sees no source."""
    return lambda part, x, memory, visible: torch.zeros_like(x)


@dataclass(frozen=True)
class Inputs:
    """All inputs (N,T,D) of a decoder so far, in the place of keys and values."""

    x: Tensor

    @property
    def length(self) -> int:
        """T."""
        return self.x.size(1)

    def select(self, rows: Tensor) -> Inputs:
        """The given rows, (N',) int64."""
        return Inputs(self.x.index_select(0, rows))


def keep_inputs(_: Function, __: Function) -> Function:
    return lambda part, like: Inputs(like.new_empty(like.size(0), 0, like.size(-1)))


def read_all_again(_: Function, before: Function) -> Function:
    """A decoder without a cache: each step reads the whole output so far."""

    def forward(part: Any, x: Tensor, visible: Tensor | None, memory: Any, cache: Any = None, **others: Any) -> Any:
        if not isinstance(cache, Inputs):
            return before(part, x, visible, memory, cache, **others)
        inputs = torch.cat((cache.x, x), 1)
        hidden, _ = before(part, inputs, layers.causal(inputs.size(1)), memory, **others)
        return hidden[:, -x.size(1) :], Inputs(inputs)

    return forward


def memory_alone(_: Function, __: Function) -> Function:
    return lambda part, memory: PreparedMemory(memory)


def memory_with_keys_values(_: Function, before: Function) -> Function:
    def prepare_memory(part: MultiHeadAttention, memory: Tensor) -> PreparedMemory:
        found = before(part, memory)
        return PreparedMemory(memory, getattr(found, "keys", None), getattr(found, "values", None))

    return prepare_memory


def cached_step(step: Function, before: Function) -> Function:
    """`cached_step(x, past, weights, num_heads) -> (output, past)`, `past` keys and values or None."""

    def forward(part: MultiHeadAttention, x: Tensor, visible: Tensor | None, cache: Any = None) -> Any:
        if cache is None or visible is not None:
            return before(part, x, visible, cache)
        past = (cache.keys, cache.values) if cache.length else None
        out, (keys, values) = step(x, past, weights_of(part), part.num_heads)
        return out, KeysValues(keys, values)

    return forward


def _whole(visible: Tensor | None, *shape: int) -> Tensor | None:
    """A mask without dimensions to be broadcast."""
    return None if visible is None else visible.expand(shape)


# -- layers ---------------------------------------------------------------------------------------------------------


def layer_norm(norm: Function, _: Function) -> Function:
    """`layer_norm(x, gain, bias, epsilon)`."""
    return lambda part, x: norm(x, part.gain, part.bias, part.epsilon)


def dropout(drop: Function, _: Function) -> Function:
    """`dropout(x, rate, training)`."""
    return lambda x, rate: drop(x, rate, rate > 0.0)


def feed_forward(network: Function, before: Function) -> Function:
    """`feed_forward(x, w1, b1, w2, b2)` of networks with ReLU."""

    def forward(part: Any, x: Tensor) -> Tensor:
        if part.activation is not functional.relu:
            return before(part, x)
        return network(x, part.inner.weight, part.inner.bias, part.outer.weight, part.outer.bias)

    return forward


def residual(residual: Function, before: Function) -> Function:
    """`residual(x, sublayer, norm, placement)` around each sub-layer."""

    def forward(
        layer: Any,
        x: Tensor,
        visible: Tensor | None,
        *,
        cache: Any = None,
        memory: Any = None,
        memory_visible: Tensor | None = None,
    ) -> Any:
        if layer.convolution is not None:
            return before(layer, x, visible, cache=cache, memory=memory, memory_visible=memory_visible)
        past = [cache]

        def around(norm: Any, x: Tensor, sublayer: Function) -> Tensor:
            return residual(x, lambda y: layer.dropout(sublayer(y)), norm, _placement(layer))

        def attend(y: Tensor) -> Tensor:
            out, past[0] = layer.attention(y, visible, cache)
            return out

        x = around(layer.attention_norm, x, attend)
        if layer.cross_attention is not None:
            x = around(layer.cross_norm, x, lambda y: layer.cross_attention.cross(y, memory, memory_visible))
        return around(layer.feed_forward_norm, x, layer.feed_forward), past[0]

    return forward


def encoder_block(block: Function, before: Function) -> Function:
    """`encoder_block(x, mask, parts, placement)` of layers without a memory."""

    def forward(layer: Any, x: Tensor, visible: Tensor | None, **others: Any) -> Any:
        if layer.cross_attention is not None or layer.convolution is not None or others.get("cache") is not None:
            return before(layer, x, visible, **others)
        return block(x, None if visible is None else visible.any(1), _parts(layer), _placement(layer)), None

    return forward


def decoder_block(block: Function, before: Function) -> Function:
    """`decoder_block(x, memory, visible, memory_mask, parts, placement)` where nothing is cached."""

    def forward(
        layer: Any,
        x: Tensor,
        visible: Tensor | None,
        *,
        cache: Any = None,
        memory: Any = None,
        memory_visible: Tensor | None = None,
    ) -> Any:
        if memory_visible is None or layer.convolution is not None or cache is not None:
            return before(layer, x, visible, cache=cache, memory=memory, memory_visible=memory_visible)
        return block(
            x,
            memory.of,
            _whole(visible, x.size(0), x.size(1), x.size(1)),
            memory_visible.squeeze(1),
            _parts(layer, memory),
            _placement(layer),
        ), None

    return forward


def _parts(layer: Any, memory: PreparedMemory | None = None) -> SimpleNamespace:
    """A layer's parts as callables: attention(x, memory, visible), feed_forward(x), norm(x)."""

    def attend(x: Tensor, other: Tensor, visible: Tensor) -> Tensor:
        if other is x:
            return layer.attention(x, visible)[0]
        return layer.attention.cross(x, layer.attention.memory_keys_values(other), visible)

    def cross(x: Tensor, other: Tensor, visible: Tensor) -> Tensor:
        known = memory is not None and other is memory.of
        return layer.cross_attention.cross(
            x, memory if known else layer.cross_attention.memory_keys_values(other), visible
        )

    norms = [
        layer.attention_norm,
        *([layer.cross_norm] if layer.cross_attention is not None else []),
        layer.feed_forward_norm,
    ]
    return SimpleNamespace(self_attention=attend, cross_attention=cross, feed_forward=layer.feed_forward, norms=norms)


def _placement(layer: Any) -> str:
    return "pre" if layer.ends_in_norm else "post"
