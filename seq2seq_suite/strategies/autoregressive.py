"""Left to right: p(y) = prod_t p(y_t | y_<t, x), learned by teacher forcing."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from seq2seq_suite.common.types import BEGIN, Distributions, Loss
from seq2seq_suite.model.layers import causal
from seq2seq_suite.search.beam import beam_search, greedy_or_sample
from seq2seq_suite.strategies.base import Strategy

if TYPE_CHECKING:
    from seq2seq_suite.common.shapes import TargetShape
    from seq2seq_suite.common.types import Batch, Constraint, Hypothesis
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.options.strategies import AutoregressiveOptions
    from seq2seq_suite.strategies.auxiliary import Auxiliaries


class Autoregressive(Strategy):
    """BEGIN y_1 ... y_T-1 goes in, y_1 ... y_T-1 END comes out.

    With `scheduled_sampling` an input symbol is the model's own prediction instead of the true one, with that
    probability. The predictions come from a first pass under teacher forcing, so that training stays parallel; a guide
    still follows the true symbols.

    Source: Sutskever et al. 2014; Szegedy et al. 2016 (smoothing); Bengio et al. 2015 (scheduled sampling) in the
    two-pass form of Mihaylova & Martins 2019.
    """

    options: AutoregressiveOptions
    writes = ("text", "structures")
    in_parallel = False
    uses = (
        "beam_size",
        "num_hypotheses",
        "rescorer",
        "risk",
        "length_penalty",
        "sampling",
        "temperature",
        "top_k",
        "top_p",
        "compile",
        "min_length",
        "no_repeat_ngram",
        "repetition_penalty",
        "suppress",
        "begin_suppress",
        "processors",
    )

    def __init__(self, options: AutoregressiveOptions, target: TargetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.greedy, self.beam = greedy_or_sample, beam_search

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        return {"cross_entropy": batch.loss_positions.numel()}

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Summed cross-entropy of target symbols, and the auxiliary losses."""
        memory = self.encode_source(model, batch)
        return self.auxiliaries.added(self._cross_entropy(model, batch, memory), batch, memory.states)

    def _cross_entropy(self, model: Seq2Seq, batch: Batch, memory: Memory) -> Loss:
        previous = shift_right(batch.target)
        if self.options.scheduled_sampling and self.training:
            previous = self._mix_in_predictions(model, batch, memory, previous)
        hidden = self._hidden(model, batch, memory, previous)
        total = model.cross_entropy(hidden, memory, batch.target, batch.loss_positions, self.options.label_smoothing)
        asked = batch.target_mask & ~batch.given
        judged = Distributions("cross_entropy", partial(model.logits, hidden, memory), asked)
        return Loss({"cross_entropy": total}, self.own_counts(batch), {"cross_entropy": 1.0}, (judged,))

    @torch.inference_mode()
    def generate(
        self,
        model: Seq2Seq,
        batch: Batch,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None = None,
    ) -> list[list[Hypothesis]]:
        memory = self.encode_source(model, batch)
        search = self.beam if options.beam_size > 1 and not options.sampling else self.greedy
        found = search(model, batch, memory, options=options, limit=limit, constraint=constraint)
        return self.auxiliaries.annotated(found, memory.states)

    def _hidden(self, model: Seq2Seq, batch: Batch, memory: Memory, previous: Tensor) -> Tensor:
        x = model.embed(previous, memory, **{name: batch.auxiliary[name] for name in model.reads})
        return model.decode(x, past_and_real(batch.target_mask), memory)[0]

    @torch.no_grad()
    def _mix_in_predictions(self, model: Seq2Seq, batch: Batch, memory: Memory, previous: Tensor) -> Tensor:
        predictions = model.logits(self._hidden(model, batch, memory, previous), memory).argmax(-1)
        replace = torch.rand(previous.shape, device=previous.device) < self.options.scheduled_sampling
        return torch.where(replace, shift_right(predictions), previous)


def past_and_real(mask: Tensor) -> Tensor:
    """(B,T,T) bool: position i sees itself and all before it, and nothing that is padding; mask (B,T)."""
    return causal(mask.size(1), device=mask.device) & mask.unsqueeze(1)


def shift_right(target: Tensor) -> Tensor:
    """(B,T) with BEGIN in front and the last column gone.

    >>> shift_right(torch.tensor([[7, 8, 2]])).tolist()
    [[1, 7, 8]]
    """
    return torch.cat((torch.full_like(target[:, :1], BEGIN), target[:, :-1]), dim=1)
