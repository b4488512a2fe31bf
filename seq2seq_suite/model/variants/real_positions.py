"""Which positions of a batch are real: for what computes over positions, such as PowerNorm and experts.

Layers do not pass the mask on. Stacks that have such parts are of the classes below, which set it for the parts that
they call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor, nn

from seq2seq_suite.common.types import States
from seq2seq_suite.model.decoder import Cache, CrossKeysValues, TransformerDecoder
from seq2seq_suite.model.encoder import TransformerEncoder
from seq2seq_suite.model.variants.universal import UniversalTransformerDecoder, UniversalTransformerEncoder

_mask: ContextVar[Tensor | None] = ContextVar("real positions", default=None)


@contextmanager
def on_real_positions(mask: Tensor | None) -> Iterator[None]:
    """Parts called in the block compute over the real positions of a mask (N,T) or (1,T) bool; None: all."""
    token = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(token)


def real_positions() -> Tensor | None:
    """The mask of the block around this call, (N,T) or (1,T) bool; None: all positions are real."""
    return _mask.get()


class _Encoder(nn.Module):
    def forward(self, states: States) -> States:
        """See `TransformerEncoder.forward`."""
        with on_real_positions(states.mask):
            return super().forward(states)


class _Decoder(nn.Module):
    def forward(
        self, x: Tensor, visible: Tensor | None, memory: CrossKeysValues | None, cache: Cache | None = None
    ) -> tuple[Tensor, Cache | None]:
        """See `TransformerDecoder.forward`; what no position sees is padding."""
        with on_real_positions(None if visible is None else visible[..., -x.size(1) :].any(1)):
            return super().forward(x, visible, memory, cache)


class MaskedEncoder(_Encoder, TransformerEncoder):
    """An encoder with such parts."""


class MaskedDecoder(_Decoder, TransformerDecoder):
    """A decoder with such parts."""


class MaskedUniversalEncoder(_Encoder, UniversalTransformerEncoder):
    """An encoder with such parts whose layers are applied several times."""


class MaskedUniversalDecoder(_Decoder, UniversalTransformerDecoder):
    """A decoder with such parts whose layers are applied several times."""
