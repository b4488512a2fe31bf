"""The systems that are timed beside each other: the suite and what people would otherwise use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a system without PyTorch is measured in a process without it
    from torch import nn

Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class TrainingSystem:
    """One system ready to train.

    Args:
        version: of the system, for the report.
        model: what is trained.
        batches: an epoch of batches, each a list of (source, target).
        update: trains on a batch, padding included in its time, and returns the loss, on the model's device.
    """

    version: str
    model: nn.Module
    batches: list[list[Pair]]
    update: Callable[[list[Pair]], Any]

    def parameters(self) -> int:
        """Trained numbers, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)


@dataclass(frozen=True)
class DecodingSystem:
    """One system ready to decode.

    Args:
        version: of the system, for the report.
        decode: (sources, beam size, longest output, sentences at a time) -> output ids without END, in their order.
    """

    version: str
    decode: Callable[[list[list[int]], int, int, int], list[list[int]]]


@dataclass(frozen=True)
class Shape:
    """The Transformer that every system builds.

    Args:
        width, feed_forward, heads, layers: of encoder and decoder alike.
        vocabulary: joint symbols of source and target.
        dropout: after the embedding and each sub-layer.
    """

    width: int
    feed_forward: int
    heads: int
    layers: int
    vocabulary: int
    dropout: float = 0.1

    def operations(self, source: int, target: int) -> int:
        """Floating-point operations to train on one pair, a multiplication and an addition being two.

        With D width, F feed-forward width, N layers, V symbols, S and T lengths, the forward pass has
            encoder        N S (8 D^2 + 4 D F) + 4 N S^2 D
            decoder        N T (12 D^2 + 4 D F) + 4 N S D^2 + 4 N T^2 D + 4 N S T D
            output layer   2 T D V
        and the backward pass twice as much. Norms, softmax, dropout, embeddings and the optimiser are left out, and
        so is padding: what is wasted on it counts against a system.
        """
        width, inner, layers = self.width, self.feed_forward, self.layers
        encoder = layers * (source * (8 * width**2 + 4 * width * inner) + 4 * source**2 * width)
        decoder = layers * (
            target * (12 * width**2 + 4 * width * inner)
            + 4 * source * width**2
            + 4 * target**2 * width
            + 4 * source * target * width
        )
        return 3 * (encoder + decoder + 2 * target * width * self.vocabulary)


SHAPES = {
    "tiny": Shape(128, 256, 4, 4, 8000),
    "base": Shape(512, 2048, 8, 6, 8000),
    "big": Shape(1024, 4096, 16, 6, 8000),
}
TRAINING_OPTIONS: dict[str, Any] = {"learning_rate": 2e-3, "schedule": "inverse_sqrt", "warmup_updates": 400}
LABEL_SMOOTHING = 0.1
BATCH_TOKENS = 4096
