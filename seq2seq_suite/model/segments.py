"""Sentences of a source: their distances from the question, and sentences read as one vector each."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seq2seq_suite.common.types import States
from seq2seq_suite.model.positions import sinusoids
from seq2seq_suite.model.variants.factorised import FactorisedEmbedding


class Segments(nn.Module):
    """A learned vector for each segment number: 0 for the question, n for the n-th sentence away from it.

    In training each number from 1 on, with the chance `jitter`, moves itself and all above it one further, as if
    an empty sentence had been inserted: the model learns order rather than exact distance, and sees large numbers that
    only long contexts would contain. Numbers above the largest count as the largest.

    Source: the temporal encoding and its random noise of Sukhbaatar et al. 2015 (MemN2N), section 4.1, where a
    tenth of empty memories is added. The vectors begin as sinusoids, so that order means something from the start,
    in reverse order of features, so that they do not look like those of positions.

    Args:
        num_segments: how many numbers are distinguished.
        width: D.
        jitter: from 0 to 1.
    """

    def __init__(self, num_segments: int, width: int, *, jitter: float = 0.0):
        super().__init__()
        self.embedding = nn.Embedding(num_segments, width)
        with torch.no_grad():
            self.embedding.weight.copy_(sinusoids(num_segments, width + width % 2)[:, :width].flip(1))
        self.jitter = jitter

    def forward(self, segments: Tensor) -> Tensor:
        """segments (B,S) int64, from 0 -> (B,S,D)."""
        largest = self.embedding.num_embeddings - 1
        segments = segments.clamp(max=largest)
        if self.training and self.jitter:
            gaps = torch.rand(segments.size(0), largest + 1, device=segments.device) < self.jitter
            gaps[:, 0] = False  # the question stays the question
            segments = (segments + gaps.long().cumsum(1).gather(1, segments)).clamp(max=largest)
        return self.embedding(segments)


class Sentences(nn.Module):
    """Each sentence as one vector: sum over its words of mask_j * embedding_j * scale, + its segment.

    The multiplicative mask of each place in a sentence is learned; without it a sentence would be a bag of words.
    The encoder's length is the number of sentences, several times less than that of words. A sentence's segment is
    its position; no other encoding is needed.

    Source: Dehghani et al. 2019 (Universal Transformer), section 3.1, after the position encoding of Sukhbaatar et
    al. 2015, section 4.1.
    Differs: the mask begins as 1 + noise instead of 1, so that order matters from the first update on.

    Args:
        embedding: of the word types, zero for padding.
        segments: adds a vector for each sentence's place.
        dropout_rate: of the result.
        scale: None: sqrt(D).
    """

    max_words = 128  # words from here on share the last place's mask

    def __init__(
        self,
        embedding: nn.Embedding | FactorisedEmbedding,
        *,
        segments: Segments,
        dropout_rate: float,
        scale: float | None = None,
    ):
        super().__init__()
        width = embedding.embedding_dim
        self.embedding = embedding
        self.mask = nn.Parameter(1.0 + 0.5 * torch.randn(self.max_words, width))
        self.scale = math.sqrt(width) if scale is None else scale
        self.segments = segments
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, source: Tensor, mask: Tensor) -> States:
        """source (B,S,W) int64, the words of each sentence padded with 0; mask (B,S) bool -> (B,S,D)."""
        batch, length, size = source.shape
        places = torch.arange(size, device=source.device).clamp(max=self.max_words - 1)
        values = (self.embedding(source) * self.mask[places]).sum(2) * self.scale
        values = values + self.segments(torch.arange(length, device=source.device).expand(batch, -1))
        return States(self.dropout(values), mask)
