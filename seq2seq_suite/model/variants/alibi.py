"""ALiBi: attention with linear biases, positions as a penalty on distance alone."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.model.attention import RelativePositions


class AlibiPositions(RelativePositions):
    """score(i, j) = q_i . k_j / sqrt(E) - m_h |i - j|, with the slope m_h = 2^(-8 h / H) of head h = 1 ... H.

    It has no table: a model may read longer sequences than in training. Encoders and parallel decoders have the same
    penalty on both sides.

    Source: Press et al. 2022, section 3; both sides as in its authors' repository.
    Differs: the same formula where H is no power of two, for which the authors interpolate.

    Args:
        head_width, max_positions: not used.
        num_heads: H.
    """

    slopes: Tensor

    def __init__(self, head_width: int = 0, max_positions: int = 0, *, num_heads: int):
        super().__init__()
        heads = torch.arange(1, num_heads + 1, dtype=torch.float32)
        self.register_buffer("slopes", 2.0 ** (-8.0 * heads / num_heads), persistent=False)

    def bias(self, query_BHTE: Tensor, offset: int = 0) -> Tensor:
        length = query_BHTE.size(2)
        places = torch.arange(offset + length, device=query_BHTE.device)
        distances_TS = (places[offset:, None] - places).abs()
        return (-self.slopes[:, None, None] * distances_TS).to(query_BHTE.dtype)
