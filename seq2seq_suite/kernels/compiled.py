"""Steps of greedy and beam search in C++, see `step.cpp`.

In PyTorch a step is hundreds of calls, which take longer than what they compute for a few rows. Here it is one. Nothing
is copied when beams change places or sentences end: each row keeps where its past lies.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from seq2seq_suite.common.types import Batch, Constraint, PerRow
from seq2seq_suite.kernels import native
from seq2seq_suite.kernels.cache import layers_of
from seq2seq_suite.kernels.candidates import Candidates
from seq2seq_suite.kernels.decoder import FastDecoder, with_parts
from seq2seq_suite.model.attention import KeysValues, RelativePositions
from seq2seq_suite.model.layers import FeedForward
from seq2seq_suite.model.norms import LayerNorm, RMSNorm
from seq2seq_suite.model.positions import RotaryPositions
from seq2seq_suite.model.prefix import PrefixSeq2Seq
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.model.tag import TaggedSeq2Seq
from seq2seq_suite.model.variants.embedding_norm import NormedPositions
from seq2seq_suite.model.variants.swiglu import GatedFeedForward
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.ctc_prefix_scores import Prefixes
from seq2seq_suite.search.logit_processors import EXCLUDED
from seq2seq_suite.search.step import Rows

_ACTIVATIONS = (  # of feed-forward networks, as `step.cpp` counts them
    (FeedForward, torch.nn.functional.relu),
    (FeedForward, torch.nn.functional.gelu),
    (GatedFeedForward, torch.nn.functional.silu),
    (FeedForward, torch.nn.functional.silu),
)


def stepper_for(model: Seq2Seq, constraint: Constraint | None, options: SearchOptions) -> Candidates:
    """The steps of a search, compiled if the options say so."""
    known = isinstance(model, Seq2Seq) and not isinstance(model, PrefixSeq2Seq)
    return (CompiledSteps if options.compile and known else Candidates)(model, constraint, options)


@dataclass(frozen=True)
class Past(PerRow):
    """A cache: where the past of each row lies.

    Args:
        sentences: (N,) int64, that of its source in the memory.
        blocks: for each of T positions keys and values of all layers (rows,L,2,D), which are never overwritten.
        origins: for each of them the rows (int64) behind which those of the next block, or the N, come; None: the same.
    """

    sentences: Tensor
    blocks: list[Tensor]
    origins: list[Tensor | None]

    @property
    def length(self) -> int:
        """T."""
        return len(self.blocks)

    def select(self, rows: Tensor) -> Past:
        """The given rows, (N',) int64, in that order; rows may repeat."""
        origins = self.origins[-1:] and [rows if self.origins[-1] is None else self.origins[-1][rows]]
        return Past(self.sentences[rows], self.blocks, [*self.origins[:-1], *origins])


class CompiledSteps(Candidates):
    """Searches whose decoder is compiled and, if no constraint or mixture applies, the choice of symbols too.

    Models on other devices, in other precisions or with parts that `_fits` does not know are left to PyTorch.
    """

    def start(self, batch: Batch, memory: Memory, limit: Tensor, prefixes: Prefixes | None) -> tuple[Rows, Tensor]:
        """See `Stepper.start`."""
        rows, previous = super().start(batch, memory, limit, prefixes)
        self.compiled = None
        model: Any = self.model
        if not isinstance(model.decoder, FastDecoder) or not _fits(model, memory):
            return rows, previous
        self.compiled = _Compiled(model, rows.memory, limit.new_tensor(EXCLUDED))
        self.chooses = (
            rows.is_stateless
            and type(model) in (Seq2Seq, TaggedSeq2Seq)
            and type(model.embedding) is nn.Embedding
            and type(model.positions) is not NormedPositions
            and model.output.projection is None
            and not self.options.sampling
        )
        self.model = with_parts(model, decoder=self.compiled)
        kept_layers = layers_of(rows.cache)
        blocks = [
            torch.stack([kept.room[:, :, :, at].transpose(0, 1).flatten(2) for kept in kept_layers], 1)
            for at in range(rows.cache.length)
        ]
        past = Past(torch.arange(limit.size(0)), blocks, [None] * len(blocks))
        return replace(rows, memory=replace(rows.memory, cross=None), cache=past), previous

    def candidates(
        self, rows: Rows, previous: Tensor, last_step: Tensor | None, count: int
    ) -> tuple[Tensor, Tensor, Rows]:
        """See `Stepper.candidates`."""
        if self.compiled is None or not self.chooses:
            return super().candidates(rows, previous, last_step, count)
        gains, symbols, cache = self.compiled.step(None, previous.contiguous(), rows.cache, count, last_step)
        return gains, symbols, replace(rows, cache=cache)


def _fits(model: Any, memory: Memory) -> bool:
    """Whether `step.cpp` knows all parts of a decoder of usual layers."""
    layers, values = model.decoder.decoder.layers, memory.states.values
    norms = {type(one) for layer in layers for name, one in layer.named_children() if name.endswith("_norm")}
    dtypes = {values.dtype, model.output.weight.dtype, *(layer.attention.output.weight.dtype for layer in layers)}
    return (
        values.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and dtypes == {torch.float32}
        and norms <= {LayerNorm, RMSNorm}
        and all(
            type(layer.attention.positions) in (RelativePositions, RotaryPositions)
            and (type(layer.feed_forward), layer.feed_forward.activation) in _ACTIVATIONS
            for layer in layers
        )
    )


class _Compiled:
    """A model's decoder and output layer, for the steps of one search."""

    def __init__(self, model: Any, memory: Memory, excluded: Tensor):
        decoder, output, visible = model.decoder.decoder, model.output, memory.states.mask
        first, self.kept = decoder.layers[0], []  # tensors whose addresses are used
        network, norm = first.feed_forward, first.attention_norm
        self.depth, self.width, self.symbols = len(decoder.layers), decoder.shape.width, output.weight.size(0)
        crosses = [None] * self.depth if memory.cross is None else memory.cross.layers
        addresses = [
            self._address(tensor)
            for layer, cross in zip(decoder.layers, crosses, strict=True)
            for tensor in _tensors(layer, cross)
        ]
        self.layers = (ctypes.c_void_p * len(addresses))(*addresses)
        others = map(
            self._address, (*_norm(decoder.norm), output.weight, output.bias, model.embedding.weight, visible, excluded)
        )
        self.decoder = native.Decoder(
            ctypes.addressof(self.layers),
            *others,
            excluded.size(0),
            self.symbols,
            self.depth,
            self.width,
            decoder.shape.num_heads,
            network.outer.weight.size(1),
            visible.size(1),
            first.ends_in_norm,
            _ACTIVATIONS.index((type(network), network.activation)),
            torch.get_num_threads(),
            norm.epsilon,
            model.scale,
        )
        self.function, self.address = native.library().step, ctypes.addressof(self.decoder)
        self.positions, self.nothing = model.positions, torch.zeros(1, 1, self.width)
        self.rotary = first.attention.positions if type(first.attention.positions) is RotaryPositions else None

    def __call__(self, x: Tensor, visible: None, memory: None, past: Past) -> tuple[Tensor, Past]:
        """See `TransformerDecoder.forward`; x is (N,1,D)."""
        hidden = x.clone(memory_format=torch.contiguous_format)
        return hidden, self.step(hidden, None, past, 0)[2]

    def step(
        self, x: Tensor | None, previous: Tensor | None, past: Past, count: int, last_step: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Past]:
        """Log-probabilities and symbols (N,count) of the likeliest behind `previous` (N,), and the cache.

        If `count` is 0, x (N,1,D) becomes the hidden states instead. Where `last_step` (N,), only END remains.
        """
        rows, length, count = past.sentences.size(0), past.length, min(count, self.symbols)
        position = None if previous is None else self.positions(self.nothing, length)
        turn = None if self.rotary is None else torch.cat(self.rotary.factors(1, length))
        block, gains = torch.empty(rows, self.depth, 2, self.width), torch.empty(rows, count)
        symbols = torch.empty(rows, count, dtype=torch.int64)
        blocks, origins = ((ctypes.c_void_p * length)(*map(_pointer, some)) for some in (past.blocks, past.origins))
        self.function(
            self.address,
            rows,
            _pointer(x),
            _pointer(previous),
            _pointer(position),
            _pointer(turn),
            blocks,
            origins,
            length,
            block.data_ptr(),
            past.sentences.data_ptr(),
            _pointer(last_step),
            gains.data_ptr(),
            symbols.data_ptr(),
            count,
        )
        return gains, symbols, Past(past.sentences, [*past.blocks, block], [*past.origins, None])

    def _address(self, tensor: Tensor | None) -> int | None:
        if tensor is None:
            return None
        self.kept.append(tensor.contiguous())
        return self.kept[-1].data_ptr()


def _tensors(layer: Any, cross: KeysValues | None) -> list[Tensor | None]:
    """Those of a layer in the order of `step.cpp`."""
    own, network = layer.attention, layer.feed_forward
    fused = SimpleNamespace(
        **{
            name: torch.cat([getattr(one, name) for one in (own.query, own.key, own.value)])
            for name in ("weight", "bias")
        }
    )
    products = [fused, own.output, None, None, network.inner, network.outer]
    norms, memory = [layer.attention_norm, None, layer.feed_forward_norm], None
    if cross is not None:
        products[2:4] = layer.cross_attention.query, layer.cross_attention.output
        norms[1] = layer.cross_norm
        memory = torch.stack((cross.keys.transpose(1, 2), cross.values.transpose(1, 2)), 2)
    return [
        *(getattr(one, name, None) for one in products for name in ("weight", "bias")),
        *(one for norm in norms for one in _norm(norm)),
        memory,
    ]


def _norm(norm: nn.Module | None) -> tuple[Tensor | None, Tensor | None]:
    return getattr(norm, "gain", None), getattr(norm, "bias", None)


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
