"""A model watched while it works: the weights of its attention.

Shape suffixes in this module: B sentences, N rows (k for each sentence, side by side), H heads, T and S positions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import Batch, States
from seq2seq_suite.inspection.decoding_trace import Watched
from seq2seq_suite.model.attention import MultiHeadAttention
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.model.variants.recurrent import RecurrentDecoder

DECODING = ("decoder", "cross")
MOST_WEIGHTS = 20_000_000  # of all heads, that are held at a time


@dataclass
class AttentionRecorder(Watched):
    """Stands for a model and, inside `watched`, notes its attention too.

    Args:
        states: the encoder's output.
        seen: part -> weights in each layer, before the first pass through the decoder and in each of them: of the
            encoder (B,H,S,S), of the decoder (N,H,T,earlier + T), across (B,H,k * T,S).
    """

    states: States = field(init=False, repr=False)
    seen: list[dict[str, list[Tensor]]] = field(default_factory=lambda: [defaultdict(list)])

    def encode(self, batch: Batch) -> States:
        """The model's."""
        self.states: States = self.model.encode(batch)
        return self.states

    def decode(self, *given: Any, **named: Any) -> Any:
        """The model's."""
        self.seen.append(defaultdict(list))
        return super().decode(*given, **named)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Collect weights within the block; restores the model on exit, and does not change outputs."""
        with ExitStack() as stack:
            for part, module in attentions(self.model):
                stack.callback(vars(module).update, vars(module).copy())
                stack.callback(vars(module).pop, "_attend")
                module._attend = self._collecting(part, module._attend)
            yield

    def _collecting(self, part: str, plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The weights are the output of attention for the identity matrix as values."""

        def attend(query: Tensor, key: Tensor, value: Tensor, *others: Any) -> Tensor:
            one = torch.eye(key.size(2), dtype=key.dtype, device=key.device)
            self.seen[-1][part].append(plain(query, key, one.expand(*key.shape[:2], -1, -1), *others).float())
            return plain(query, key, value, *others)

        return attend

    def of_sentence(self, *, last: bool, row: int = 0, length: int | None = None) -> dict[str, Tensor]:
        """The weights (layers,H,T,S) of each part, of a batch of one sentence.

        Args:
            last: of the last pass alone; else the passes are steps of one output, one below the other.
            row: of the decoder's.
            length: T, without padding; None: there is none.
        """
        found = {"encoder": [weights[0] for weights in self.seen[0]["encoder"]]}
        passes = self.seen[-1:] if last else self.seen[1:]
        for part in DECODING if len(self.seen) > 1 else ():
            found[part] = []
            for steps in zip(*(one[part] for one in passes), strict=True):  # of one layer
                whole = torch.cat([functional.pad(step, (0, steps[-1].size(3) - step.size(3))) for step in steps], 2)
                if part == "cross":
                    whole = whole[0].unflatten(1, (self.passes[-1].hidden.size(0), -1)).transpose(0, 1)
                    inner = whole.size(3)
                else:  # a decoder-only model's source is before
                    inner = None if length is None else whole.size(3) - whole.size(2) + length
                found[part].append(whole[row, :, :length, :inner])
        return {part: torch.stack(layers) for part, layers in found.items() if layers and layers[0].numel()}


def attentions(model: Seq2Seq) -> Sequence[tuple[str, MultiHeadAttention | RecurrentDecoder]]:
    """(part, module) of all that attends, in the order of the layers."""
    encoder = [] if model.encoder is None else model.encoder.named_modules()
    return [("encoder", module) for _, module in encoder if isinstance(module, MultiHeadAttention)] + [
        ("cross" if name.endswith("cross_attention") or isinstance(module, RecurrentDecoder) else "decoder", module)
        for name, module in model.decoder.named_modules()
        if isinstance(module, MultiHeadAttention | RecurrentDecoder)
    ]
