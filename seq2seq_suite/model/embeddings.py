"""Symbols as vectors: one matrix, or the product of two."""

from __future__ import annotations

import torch
from torch import nn

from seq2seq_suite.model.variants.factorised import FactorisedEmbedding


def token_embedding(size: int, width: int, *, narrow_width: int = 0, padding_idx: int | None = None
                    ) -> nn.Embedding | FactorisedEmbedding:
    """An embedding whose rows have expected length one, as weights tied to the output need.

    Args:
        size: V.
        width: D.
        narrow_width: E of a factorised embedding; 0 for one matrix.
        padding_idx: a symbol whose vector is zero and stays so; None for none.
    """
    if narrow_width:
        embedding = FactorisedEmbedding(size, width, narrow_width, padding_idx=padding_idx)
    else:
        embedding = nn.Embedding(size, width, padding_idx=padding_idx)
    nn.init.normal_(embedding.weight, std=(narrow_width or width) ** -0.5)
    if padding_idx is not None:
        with torch.no_grad():
            embedding.weight[padding_idx] = 0.0
    return embedding
