"""The decoder stack. It does not know autoregressive from non-autoregressive: `visible` says who sees whom."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq_suite import kernels
from seq2seq_suite.model.attention import KeysValues
from seq2seq_suite.model.layers import DecoderLayer, LayerShape
from seq2seq_suite.model.norms import build_norm
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.types import States


@dataclass(frozen=True)
class Memory:
    """The encoder's output as the decoder's layers look at it: keys and values of each layer, computed once."""

    layers: tuple[KeysValues, ...]
    visible: Tensor  # (B,1,S)

    def select(self, sentences: Tensor) -> Memory:
        """The given sentences, (B',) int64."""
        return Memory(tuple(layer.select(sentences) for layer in self.layers), self.visible.index_select(0, sentences))


@dataclass(frozen=True)
class Cache:
    """Keys and values of the positions decoded so far, one for each layer."""

    layers: tuple[KeysValues, ...]

    @property
    def length(self) -> int:
        """Positions decoded so far."""
        return self.layers[0].length if self.layers else 0

    def select(self, rows: Tensor) -> Cache:
        """The given rows, (N',) int64; a beam search reorders its past with it."""
        return Cache(tuple(layer.select(rows) for layer in self.layers))


class DecoderStack(nn.Module):
    """N layers of self-attention, cross-attention and feed-forward; pre-norm stacks end in one more norm.

    Source: Vaswani et al. 2017, section 3.1. With `has_memory=False` it is GPT's stack (Radford et al. 2018).
    """

    num_steps = 1  # times that the layers are applied

    def __init__(self, shape: LayerShape, num_layers: int, *, rotary: RotaryPositions | None = None,
                 has_memory: bool = True):
        super().__init__()
        self.shape, self.has_memory = shape, has_memory
        self.layers = nn.ModuleList(DecoderLayer(shape, rotary, has_memory=has_memory) for _ in range(num_layers))
        self.norm = build_norm(shape.norm, shape.width) if shape.norm_placement == "pre" else None
        self.empty_cache = kernels.chosen("cache").empty

    def remember(self, memory: States) -> Memory | None:
        """Keys and values of the memory (B,S,D) for every layer; None for a stack that looks at none."""
        if not self.has_memory:
            return None
        layers = tuple(layer.cross_attention.memory_keys_values(memory.values) for layer in self.layers)
        return Memory(layers * self.num_steps, memory.mask.unsqueeze(1))

    def begin_step(self, x: Tensor, step: int, offset: int) -> Tensor:
        """x (N,T,D), whose first column stands at `offset`, as the layers see it the `step`-th time, from 0."""
        return x

    def new_cache(self, like: Tensor) -> Cache:
        """An empty cache for inputs like x (N,T,D)."""
        rows, head_width = like.size(0), self.shape.width // self.shape.num_heads
        empty = self.empty_cache(like.new_empty(rows, self.shape.num_heads, 0, head_width))
        return Cache((empty,) * (len(self.layers) * self.num_steps))

    def forward(self, x: Tensor, visible: Tensor | None, memory: Memory | None, cache: Cache | None = None,
                *, mask: Tensor | None = None, balance: list[Tensor] | None = None) -> tuple[Tensor, Cache | None]:
        """Hidden states of the target.

        Args:
            x: (N,T,D) embedded symbols with positions.
            visible: bool, broadcastable to (N,T,cached + T): True where a position may look. None: everywhere.
            memory: from `remember`, of B sentences; N is a multiple of B, a sentence's beams side by side.
            cache: of earlier positions; passed in and returned, never kept.
            mask: (N,T) of real positions, needed in training by norms over the batch and by experts.
            balance: gets the load-balance losses of the layers' experts, if there are any.

        Returns:
            (N,T,D) and the cache with these positions added, None if there was none.
        """
        new_layers: list[KeysValues | None] = []
        offset = cache.length if cache is not None else 0
        for step in range(self.num_steps):
            x = self.begin_step(x, step, offset)
            for layer in self.layers:
                index = len(new_layers)
                past = cache.layers[index] if cache is not None else None
                x, past = layer(x, visible, mask, past, memory.layers[index] if memory is not None else None,
                                memory.visible if memory is not None else None, balance)
                new_layers.append(past)
        if self.norm is not None:
            x = self.norm(x, mask)
        return x, Cache(tuple(new_layers)) if cache is not None else None


class RecurrentDecoderStack(DecoderStack):
    """The same layers over and over, as in `encoders.RecurrentEncoder`; each step has a cache of its own.

    Source: Dehghani et al. 2019 (Universal Transformer), section 2.1; what differs is told at the encoder.

    Args:
        shape, num_layers, rotary, has_memory: as of `DecoderStack`; the layers of one step.
        num_steps: times that the layers are applied.
        positions: adds P.
    """

    def __init__(self, shape: LayerShape, num_layers: int, *, num_steps: int, positions: nn.Module,
                 rotary: RotaryPositions | None = None, has_memory: bool = True):
        super().__init__(shape, num_layers, rotary=rotary, has_memory=has_memory)
        self.num_steps, self.positions = num_steps, positions
        self.steps = nn.Parameter(torch.randn(num_steps, shape.width) * 0.02)
        gains = torch.full((num_steps,), float(shape.norm_placement == "post"))
        gains[0] = 0.0
        self.gains = nn.Parameter(gains)

    def begin_step(self, x: Tensor, step: int, offset: int) -> Tensor:
        """x + g_t P + E_t."""
        places = self.positions(torch.zeros_like(x[:1]), offset)
        return x + (self.gains[step] * places + self.steps[step]).to(x.dtype)
