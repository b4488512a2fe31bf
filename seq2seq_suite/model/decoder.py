"""The decoder, for autoregressive and parallel decoding alike: `visible` says which positions see which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from torch import Tensor, nn

from seq2seq_suite.common.types import PerRow
from seq2seq_suite.model.attention import KeysValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seq2seq_suite.common.types import States
    from seq2seq_suite.model.attention import RelativePositions
    from seq2seq_suite.model.layers import LayerShape, TransformerLayer


@dataclass(frozen=True)
class CrossKeysValues(PerRow):
    """The encoder's output as keys and values for each decoder layer, computed once."""

    layers: tuple[KeysValues, ...]
    visible: Tensor  # (B,1,S)


@dataclass(frozen=True)
class Cache(PerRow):
    """Keys and values of the positions decoded so far, one for each layer; beam search reorders them by `select`."""

    layers: tuple[KeysValues, ...]

    @property
    def length(self) -> int:
        """Positions decoded so far."""
        return self.layers[0].length if self.layers else 0

    def first(self, length: int) -> Cache:
        """Without the positions from `length` on."""
        return Cache(tuple(layer.first(length) for layer in self.layers))


class TransformerDecoder(nn.Module):
    """N layers of self-attention, cross-attention and feed-forward; pre-norm stacks end in one more norm.

    Source: Vaswani et al. 2017, section 3.1. With `has_memory=False` it is GPT's stack (Radford et al. 2018).
    """

    def __init__(
        self, shape: LayerShape, num_layers: int, positions: RelativePositions | None = None, *, has_memory: bool = True
    ):
        super().__init__()
        self.shape, self.has_memory = shape, has_memory
        layers = nn.ModuleList(shape.layer(shape, positions, has_memory=has_memory) for _ in range(num_layers))
        self.layers = cast("Sequence[TransformerLayer]", layers)
        self.norm = shape.last_norm()
        self.empty_cache = KeysValues.empty

    def prepare_memory(self, memory: States) -> CrossKeysValues | None:
        """Keys and values of the memory (B,S,D) for every layer; None for a stack without memory."""
        if not self.has_memory:
            return None
        return CrossKeysValues(
            tuple(
                layer.cross_attention.memory_keys_values(memory.values)
                for layer in self.layers
                if layer.cross_attention is not None
            ),
            memory.mask.unsqueeze(1),
        )

    def new_cache(self, like: Tensor) -> Cache:
        """An empty cache for inputs like x (N,T,D)."""
        heads, width = self.shape.num_heads, self.shape.width
        empty = self.empty_cache(like.new_empty(like.size(0), heads, 0, width // heads))
        return Cache((empty,) * len(self.layers))

    def forward(
        self, x: Tensor, visible: Tensor | None, memory: CrossKeysValues | None, cache: Cache | None = None
    ) -> tuple[Tensor, Cache | None]:
        """Hidden states of the target.

        Args:
            x: (N,T,D) embedded symbols with positions.
            visible: bool, broadcastable to (N,T,cached + T): True where a position may attend. None: everywhere. What
                no position sees counts as padding for norms over the batch and for experts.
            memory: from `prepare_memory`, of B sentences; N is a multiple of B, a sentence's beams side by side.
            cache: of earlier positions; passed in and returned, never kept.

        Returns:
            (N,T,D) and the cache with these positions added, None if there was none.
        """
        x, cache = self.through_layers(x, visible, memory, cache)
        return self.norm(x), cache

    def through_layers(
        self, x: Tensor, visible: Tensor | None, memory: CrossKeysValues | None, cache: Cache | None
    ) -> tuple[Tensor, Cache | None]:
        """`forward` without the last norm."""
        caches = []
        for number, layer in enumerate(self.layers):
            x, past = layer(
                x,
                visible,
                cache=cache.layers[number] if cache is not None else None,
                memory=memory.layers[number] if memory is not None else None,
                memory_visible=memory.visible if memory is not None else None,
            )
            caches.append(past)
        return x, Cache(tuple(caches)) if cache is not None else None
