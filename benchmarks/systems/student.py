"""What a student writes: torch.nn.Transformer, random batches padded to their longest sentence, all logits at once."""

from __future__ import annotations

import math
import random

import torch
from torch import Tensor, nn

from benchmarks.corpus import Corpus
from benchmarks.systems import BATCH_TOKENS, LABEL_SMOOTHING, Pair, Shape, TrainingSystem
from seq2seq_suite.common.types import BEGIN, PAD


class Translator(nn.Module):
    """Post-norm Transformer with one embedding for source, target and output."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, shape.width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=shape.width**-0.5)
        self.transformer = nn.Transformer(
            shape.width, shape.heads, shape.layers, shape.layers, shape.feed_forward, shape.dropout, batch_first=True
        )
        angle = torch.arange(512)[:, None] * torch.exp(torch.arange(0, shape.width, 2) * -math.log(1e4) / shape.width)
        self.register_buffer("positions", torch.stack((angle.sin(), angle.cos()), 2).flatten(1))
        self.dropout = nn.Dropout(shape.dropout)

    def embed(self, symbols: Tensor) -> Tensor:
        """(B,T) -> (B,T,D)."""
        scaled = self.embedding(symbols) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions[: symbols.size(1)])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(B,S), (B,T) -> logits (B,T,V)."""
        padded = source == PAD
        length = target.size(1)
        later = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            src_key_padding_mask=padded,
            memory_key_padding_mask=padded,
            tgt_mask=later,
            tgt_key_padding_mask=target == PAD,
        )
        return hidden @ self.embedding.weight.t()


def pad(sequences: list[list[int]]) -> Tensor:
    """(B, longest) int64."""
    longest = max(map(len, sequences))
    return torch.tensor([sequence + [PAD] * (longest - len(sequence)) for sequence in sequences])


def pad_pairs(pairs: list[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """Source, decoder input and target, each (B, its longest)."""
    return (
        pad([source for source, _ in pairs]),
        pad([[BEGIN, *target[:-1]] for _, target in pairs]),
        pad([target for _, target in pairs]),
    )


def training(shape: Shape, precision: str, corpus: Corpus, seed: int, *, device: str = "cpu") -> TrainingSystem:
    """The plain loop."""
    model = Translator(shape).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=LABEL_SMOOTHING)

    def update(pairs: list[Pair]) -> Tensor:
        source, inputs, target = (one.to(device) for one in pad_pairs(pairs))
        model.train()
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            logits = model(source, inputs)
            loss = criterion(logits.reshape(-1, shape.vocabulary), target.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    size = max(1, round(BATCH_TOKENS * len(corpus.train) / sum(len(target) for _, target in corpus.train)))
    order = list(corpus.train)
    random.Random(seed).shuffle(order)
    batches = [order[first : first + size] for first in range(0, max(1, len(order) - size + 1), size)]
    return TrainingSystem(torch.__version__, model, batches, update)
