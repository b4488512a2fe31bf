"""The Universal Transformer: the same layers over and over, so that depth is a number of steps.

H_t = Layers(H_t-1 + g_t P + E_t): P the positions, E_t a learned vector and g_t a learned number for each step. Depth
in time lets the model chain facts without a layer for each link of the chain.

Source: Dehghani et al. 2019, section 2.1, with a fixed number of steps.
Differs: E_t is learned, not sinusoidal; several layers may make up one step; positions are weighted. g_1 begins as 0,
for P has been added before. The others begin as 1 in post-norm stacks, which is the published form, and as 0 in
pre-norm stacks: their residual stream carries P through all steps, and N times P would drown the words.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq_suite.model.attention import RelativePositions
from seq2seq_suite.model.decoder import Cache, CrossKeysValues, TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.layers import LayerShape


class StepSignal(nn.Module):
    """x -> x + g_t P + E_t.

    Args:
        shape: of the layers.
        num_steps: times that the layers are applied.
        positions: adds P.
    """

    def __init__(self, shape: LayerShape, num_steps: int, positions: nn.Module):
        super().__init__()
        self.vectors = nn.Parameter(torch.randn(num_steps, shape.width) * 0.02)
        gains = torch.full((num_steps,), float(not shape.layer.ends_in_norm))
        gains[0] = 0.0
        self.gains = nn.Parameter(gains)
        self.positions = positions

    def forward(self, x: Tensor, step: int, offset: int = 0) -> Tensor:
        """x (N,T,D), whose first column is at position `offset`, as the layers see it the `step`-th time, from 0."""
        places = self.positions(torch.zeros_like(x[:1]), offset)
        return x + (self.gains[step] * places + self.vectors[step]).to(x.dtype)


class UniversalTransformerEncoder(TransformerEncoder):
    """`TransformerEncoder` whose layers are applied `num_steps` times."""

    def __init__(
        self,
        shape: LayerShape,
        num_layers: int,
        positions: RelativePositions | None = None,
        *,
        num_steps: int,
        step_positions: nn.Module,
    ):
        super().__init__(shape, num_layers, positions)
        self.num_steps, self.signal = num_steps, StepSignal(shape, num_steps, step_positions)

    def through_layers(self, x: Tensor, visible: Tensor) -> Tensor:
        for step in range(self.num_steps):
            x = super().through_layers(self.signal(x, step), visible)
        return x


class UniversalTransformerDecoder(TransformerDecoder):
    """`TransformerDecoder` whose layers are applied `num_steps` times; each step has a cache of its own."""

    def __init__(
        self,
        shape: LayerShape,
        num_layers: int,
        positions: RelativePositions | None = None,
        *,
        num_steps: int,
        step_positions: nn.Module,
        has_memory: bool = True,
    ):
        super().__init__(shape, num_layers, positions, has_memory=has_memory)
        self.num_steps, self.signal = num_steps, StepSignal(shape, num_steps, step_positions)

    def new_cache(self, like: Tensor) -> Cache:
        return Cache(super().new_cache(like).layers * self.num_steps)

    def through_layers(
        self, x: Tensor, visible: Tensor | None, memory: CrossKeysValues | None, cache: Cache | None
    ) -> tuple[Tensor, Cache | None]:
        offset, caches = cache.length if cache is not None else 0, []
        for step in range(self.num_steps):
            own = slice(step * len(self.layers), (step + 1) * len(self.layers))
            past = Cache(cache.layers[own]) if cache is not None else None
            x, past = super().through_layers(self.signal(x, step, offset), visible, memory, past)
            caches += past.layers if past is not None else ()
        return x, Cache(tuple(caches)) if cache is not None else None
