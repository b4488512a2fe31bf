"""Front-ends: from a batch's source to vectors of the core's width."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import PAD, UNKNOWN, States
from seq2seq_suite.model.variants.factorised import FactorisedEmbedding


class Tokens(nn.Module):
    """Token ids -> embedding * scale + positions, and + segments where the source has them.

    Args:
        embedding: of the tokens; the target's own where both share their symbols.
        positions: adds positions.
        dropout_rate: of the result.
        segments: adds the segments of sources (B,S,2); None for sources (B,S).
        scale: None: sqrt(D).

    Source: Vaswani et al. 2017, sections 3.4 and 3.5; for segments Devlin et al. 2019, section 3.
    """

    def __init__(
        self,
        embedding: nn.Embedding | FactorisedEmbedding,
        *,
        positions: nn.Module,
        dropout_rate: float,
        segments: nn.Module | None = None,
        scale: float | None = None,
    ):
        super().__init__()
        self.segments = segments
        self.embedding = embedding
        self.scale = math.sqrt(embedding.embedding_dim) if scale is None else scale
        self.positions = positions
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, source: Tensor, mask: Tensor) -> States:
        """source (B,S) int64, or (B,S,2) tokens and their segments; mask (B,S) bool -> (B,S,D)."""
        tokens = source if self.segments is None else source[..., 0]
        values = self.positions(self.embedding(tokens) * self.scale)
        if self.segments is not None:
            values = values + self.segments(source[..., 1])
        return States(self.dropout(values), mask)


class Words(nn.Module):
    """Words as a type and its letters: Norm(embedding + max over a convolution of letters) + positions.

    In training a word's type is dropped to <unknown> with the word's own probability, so that the letters learn
    to represent unseen words. The letters of each distinct word of a batch are read once.

    Source: character convolution of Kim et al. 2016, section 2.2, with windows of three letters; word dropping of
    Iyyer et al. 2015 with the rate of Dyer et al. 2015 (singletons), generalised to any count.

    Args:
        embedding: of the word types.
        num_characters: 0 reads words by their types alone; otherwise a word has at least one column of letters.
        positions: adds positions.
        dropout_rate: of the result.
        unknown_probability: (V,) float, chance that a type is dropped in training.
    """

    character_width = 64
    unknown_probability: Tensor

    def __init__(
        self,
        embedding: nn.Embedding | FactorisedEmbedding,
        num_characters: int,
        *,
        positions: nn.Module,
        dropout_rate: float,
        unknown_probability: Tensor,
    ):
        super().__init__()
        width = embedding.embedding_dim
        self.word_embedding = embedding
        self.register_buffer("unknown_probability", unknown_probability)
        self.has_characters = num_characters > 0
        if self.has_characters:
            self.character_embedding = nn.Embedding(num_characters, self.character_width, padding_idx=PAD)
            self.convolution = nn.Conv1d(self.character_width, width, kernel_size=3, padding=1)
            self.project = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.positions = positions
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, source: Tensor, mask: Tensor) -> States:
        """source (B,S,1+C) int64: type, then letters padded with 0; mask (B,S) bool -> (B,S,D)."""
        words = source[..., 0]
        if self.training:
            dropped = torch.rand(words.shape, device=words.device) < self.unknown_probability[words]
            words = words.masked_fill(dropped, UNKNOWN)
        values = self.word_embedding(words)
        if self.has_characters:
            values = values + self._letters(source[..., 1:])
        return States(self.dropout(self.positions(self.norm(values))), mask)

    def _letters(self, characters: Tensor) -> Tensor:
        batch, length, size = characters.shape
        distinct, place = characters.reshape(-1, size), None
        if characters.device.type == "cpu":  # elsewhere the number of spellings would need a synchronisation
            spellings, place = torch.unique(_fingerprint(distinct), return_inverse=True)
            distinct = distinct[place.new_zeros(spellings.size(0)).scatter_(0, place, torch.arange(place.size(0)))]
        features = self.convolution(self.character_embedding(distinct).transpose(1, 2))
        features = features.masked_fill((distinct == PAD).unsqueeze(1), torch.finfo(features.dtype).min)
        # A row of padding alone has no letter: its maximum is the mask's value, which becomes 0 here.
        pooled = functional.relu(features.amax(-1))
        found = self.project(pooled)
        return (found if place is None else functional.embedding(place, found)).view(batch, length, -1)


def _fingerprint(rows: Tensor) -> Tensor:
    """A 64-bit hash of each row of (N,C) int64: sorting numbers is far cheaper than sorting rows."""
    odd = rows.new_full((rows.size(1),), 0x5DEECE66D1CE4E5B).cumprod(0)
    mixed = (rows + 1) * odd
    return (mixed ^ (mixed >> 29)).sum(-1)
