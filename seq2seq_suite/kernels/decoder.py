"""Encoder and decoder in a search without the modules around their weights, which cost more than products of few rows.

Measured: greedy search of one sentence is 1.9 times as fast, with a beam of 5 1.5 times, in batches of 64 1.2 times
(Multi30k, tiny, one thread).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import States
from seq2seq_suite.kernels.attention import attention as fused_attention
from seq2seq_suite.kernels.cache import KeysValues, cache_of, layers_of
from seq2seq_suite.kernels.product import fewest, product
from seq2seq_suite.kernels.projections import Projected
from seq2seq_suite.model.attention import KeysValues as PlainKeysValues
from seq2seq_suite.model.attention import MultiHeadAttention, RelativePositions
from seq2seq_suite.model.decoder import Cache, CrossKeysValues, TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.layers import FeedForward, PostNormLayer, TransformerLayer
from seq2seq_suite.model.norms import LayerNorm, RMSNorm
from seq2seq_suite.model.variants.real_positions import MaskedDecoder, MaskedEncoder

_FEW_QUERIES = 48  # of all rows together: below, the calls of anything but the fused kernel take longer than it does
_MOST_KEYS = 4  # of all heads, by the width: with more, arithmetic is more than the calls that `_Layer.absorb` saves


def prepared(stack: nn.Module) -> nn.Module | FastDecoder | FastEncoder:
    """`kernels.plain.prepared`. Stacks of other parts, and watched ones, stay as they are."""
    kind = _KINDS.get(type(stack))
    usual = isinstance(stack, TransformerDecoder | TransformerEncoder)
    if kind is None or not usual or stack.training or torch.is_grad_enabled() or is_watched(stack):
        return stack
    return kind(stack) if all(map(_is_usual, stack.layers)) else stack


def is_watched(module: nn.Module | None) -> bool:
    """Whether it or a module in it has a hook; `modules()` takes three times as long."""
    return module is not None and (
        bool(module._forward_hooks or module._forward_pre_hooks) or any(map(is_watched, module._modules.values()))
    )


def _is_usual(layer: TransformerLayer) -> bool:
    attentions = [layer.attention, *([] if layer.cross_attention is None else [layer.cross_attention])]
    return (
        type(layer) in (TransformerLayer, PostNormLayer)
        and layer.convolution is None
        and all(
            type(one) in (MultiHeadAttention, Projected)
            and one.attention is fused_attention
            and "_attend" not in vars(one)
            for one in attentions
        )
    )


class FastEncoder:
    """An encoder of sources without padding; others are left to it."""

    def __init__(self, encoder: TransformerEncoder):
        self.encoder = encoder

    def __call__(self, states: States) -> States:
        """See `TransformerEncoder.forward`."""
        shape = states.values.shape
        if states.mask.device.type != "cpu" or not bool(states.mask.all()):  # a synchronisation on a GPU
            return self.encoder(states)
        x = states.values.reshape(-1, shape[2])
        for layer in map(_Layer, self.encoder.layers):
            x = layer.transform(layer.attend(x, shape[0], None, None)[0])
        return States(_norm(self.encoder.norm)(x).view(shape), states.mask)


class FastDecoder:
    """A decoder for further positions behind a cache; what it cannot do itself it leaves to the decoder."""

    def __init__(self, decoder: TransformerDecoder):
        self.decoder = decoder
        self.norm = _norm(decoder.norm)
        self.visible: Tensor | None = None  # of the memory that `mask` is for
        self.mask: Tensor | None = None  # what is added to the scores of cross-attention
        self.blind = False  # whether a row sees nothing of its memory
        self.absorbed: list[tuple[Tensor, ...] | None] = []  # see `_Layer.absorb`

    @cached_property
    def layers(self) -> list[_Layer]:
        return [_Layer(layer, fused=True) for layer in self.decoder.layers]

    def new_cache(self, like: Tensor) -> Cache:
        """See `TransformerDecoder.new_cache`."""
        return self.decoder.new_cache(like)

    def __call__(
        self, x: Tensor, visible: Tensor | None, memory: CrossKeysValues | None, cache: Cache | None = None
    ) -> tuple[Tensor, Cache | None]:
        """See `TransformerDecoder.forward`."""
        if memory is not None and memory.visible is not self.visible:
            self._look_at(memory)
        if cache is None or self.blind or not isinstance(cache.layers[0], KeysValues):
            return self.decoder(x, visible, memory, cache)
        shape, visible, caches = x.shape, visible if visible is None else visible.unsqueeze(1), []
        kept = layers_of(cache)
        x = x.reshape(-1, shape[2])  # products of two dimensions need no views around them
        for number, layer in enumerate(self.layers):
            x, past = layer.attend(x, shape[0], visible, kept[number])
            caches.append(past)
            if memory is not None:
                x = layer.cross(x, memory.layers[number], self.mask, self.absorbed[number])
            x = layer.transform(x)
        return self.norm(x).view(shape), cache_of(caches)

    def _look_at(self, memory: CrossKeysValues) -> None:
        visible = memory.visible
        looks = visible.device.type == "cpu"  # elsewhere a look would wait for the device: it is done once
        if looks or self.visible is None:
            self.blind = not bool(visible.any(-1).all())
        self.visible, self.mask = visible, None
        if not (looks and bool(visible.all())):
            nothing = memory.layers[0].keys.new_zeros(visible.shape)
            self.mask = nothing.masked_fill_(~visible, float("-inf")).unsqueeze(1)
        few = visible.size(2) * self.decoder.shape.num_heads <= _MOST_KEYS * self.decoder.shape.width
        absorbs = self.mask is None and visible.size(0) == 1 and few and not torch.is_autocast_enabled("cpu")
        self.absorbed = [
            layer.absorb(own) if absorbs else None for layer, own in zip(self.layers, memory.layers, strict=True)
        ]


_KINDS: dict[type[nn.Module], Callable[[Any], FastDecoder | FastEncoder]] = {
    TransformerDecoder: FastDecoder,
    MaskedDecoder: FastDecoder,
    TransformerEncoder: FastEncoder,
    MaskedEncoder: FastEncoder,
}


class _Layer:
    """A layer's weights and functions at hand: to look them up in its modules takes as long as small products.

    Args:
        layer: in evaluation.
        fused: its queries, keys and values are one product, of weights put together here.
    """

    def __init__(self, layer: Any, *, fused: bool = False):
        own, self.heads = layer.attention, layer.attention.num_heads
        self.head_width = own.output.weight.size(0) // self.heads
        self.query_key_value, self.output = _projections(own, fused=fused), _linear(*_weights(own.output))
        self.positions = own.positions if type(own.positions) is not RelativePositions else None
        around = partial(_Residual, pre=layer.ends_in_norm)
        self.attention_residual = around(layer.attention_norm)
        if layer.cross_attention is not None:
            cross = layer.cross_attention
            self.cross_weights = *_weights(cross.query), *_weights(cross.output)
            self.query, self.cross_output = _linear(*self.cross_weights[:2]), _linear(*self.cross_weights[2:])
            self.cross_residual = around(layer.cross_norm)
        network = layer.feed_forward
        self.feed_forward = lambda x: network(x.unsqueeze(0)).squeeze(0)
        if type(network) is FeedForward:
            inner, outer = _linear(*_weights(network.inner)), _linear(*_weights(network.outer))
            activation = network.activation
            self.feed_forward = lambda x: outer(activation(inner(x)))
        self.feed_forward_residual = around(layer.feed_forward_norm)

    def attend(
        self, x: Tensor, rows: int, visible: Tensor | None, cache: KeysValues | None
    ) -> tuple[Tensor, KeysValues | None]:
        """Self-attention of x (N*T,D), N `rows`, to the cache, where there is one, and to itself."""
        parts = self.query_key_value(self.attention_residual.before(x)).view(rows, -1, 3, self.heads, self.head_width)
        parts, bias, length = parts.permute(2, 0, 3, 1, 4), None, 0 if cache is None else cache.length  # (3,N,H,T,E)
        query, both = parts[0], parts[1:]
        if self.positions is not None:
            query, both = self.positions.rotate(query, length), parts[1:].clone()
            both[0] = self.positions.rotate(parts[1], length)
            bias = self.positions.bias(query, length)
        if cache is not None:
            cache = cache.extend(both)
            both = cache.both
        key, value = both.unbind()
        found = (
            _attend(query, key, value, visible) if bias is None else fused_attention(query, key, value, visible, bias)
        )
        return self.attention_residual.after(x, self.output(found.transpose(1, 2).reshape(x.shape))), cache

    def absorb(self, memory: PlainKeysValues) -> tuple[Tensor, ...]:
        """A sentence's keys with the projection of queries (D,H*S) and its bias, values with that of outputs (H*S,D).

        The weights of each head sum to one, so that each value takes an H-th of the output's bias.
        """
        heads, width = self.heads, self.head_width
        weight, bias, output_weight, output_bias = self.cross_weights
        keys = memory.keys[0] * width**-0.5  # (H,S,E)
        values = memory.values[0] @ output_weight.view(-1, heads, width).permute(1, 2, 0) + output_bias / heads
        return (
            (keys @ weight.view(heads, width, -1)).flatten(0, 1).t(),
            (keys @ bias.view(heads, width, 1)).flatten(),
            values.flatten(0, 1),
        )

    def cross(
        self, x: Tensor, memory: PlainKeysValues, mask: Tensor | None, absorbed: tuple[Tensor, ...] | None
    ) -> Tensor:
        """Cross-attention of x (N*T,D) to the memory of B sentences, N a multiple of B."""
        if absorbed is not None:
            keys, bias, values = absorbed
            weights = torch.addmm(bias, self.cross_residual.before(x), keys).view(x.size(0), self.heads, -1).softmax(-1)
            return self.cross_residual.behind(torch.addmm(x, weights.flatten(1), values))
        query = self.query(self.cross_residual.before(x))
        query = query.view(memory.keys.size(0), -1, self.heads, self.head_width).transpose(1, 2)
        found = _attend(query, memory.keys, memory.values, mask)
        return self.cross_residual.after(x, self.cross_output(found.transpose(1, 2).reshape(x.shape)))

    def transform(self, x: Tensor) -> Tensor:
        """The position-wise network."""
        return self.feed_forward_residual.after(x, self.feed_forward(self.feed_forward_residual.before(x)))


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """`model.attention.attention` of few queries to a row's keys, with a mask that is added to the scores or bool."""
    rows, _, count, width = query.shape
    if (
        rows * count < _FEW_QUERIES
        or query.device.type != "cpu"
        or query.dtype != torch.float32
        or (mask is not None and mask.dtype == torch.bool)
    ):
        return functional.scaled_dot_product_attention(query, key, value, mask)
    query = query * width**-0.5
    if count > 1:  # the fused kernel takes three times as long for a sentence's five beams
        scores = query @ key.transpose(2, 3)
        return (scores if mask is None else scores + mask).softmax(-1) @ value
    scores = (query * key).sum(-1)  # a sum for each key is less than a product for each head
    weights = (scores if mask is None else scores + mask.squeeze(2)).softmax(-1)
    return (weights.unsqueeze(3) * value).sum(2, keepdim=True)


def _same(x: Tensor) -> Tensor:
    return x


class _Residual:
    """x + Sublayer(Norm(x)), or Norm(x + Sublayer(x))."""

    def __init__(self, norm: nn.Module, *, pre: bool):
        function = _norm(norm)
        self.before, self.behind = (function, _same) if pre else (_same, function)

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        return self.behind(x + y)


def _projections(attention: MultiHeadAttention, *, fused: bool) -> Callable[[Tensor], Tensor]:
    """x (P,D) -> (P,3D), its queries, keys and values."""
    linears = attention.query, attention.key, attention.value
    if fused:
        return _linear(*(torch.cat([getattr(one, part) for one in linears]) for part in ("weight", "bias")))
    functions = [_linear(*_weights(one)) for one in linears]
    return lambda x: torch.cat([function(x) for function in functions], 1)


def _weights(layer: nn.Linear) -> tuple[Tensor, Tensor]:
    return layer.weight, layer.bias


def _linear(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor], Tensor]:
    few = fewest(weight)  # to ask `product` takes half a microsecond
    return lambda x: functional.linear(x, weight, bias) if x.numel() < few else product(x, weight, bias)


def _norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    if type(norm) is LayerNorm:
        return partial(
            torch.layer_norm, normalized_shape=norm.gain.shape, weight=norm.gain, bias=norm.bias, eps=norm.epsilon
        )
    if type(norm) is RMSNorm:
        return partial(torch.rms_norm, normalized_shape=norm.gain.shape, weight=norm.gain, eps=norm.epsilon)
    return norm


def with_parts(model: nn.Module, **parts: Any) -> Any:
    """The same model with other parts, which need be no modules."""
    found = copy.copy(model)
    vars(found).update(parts)
    return found
