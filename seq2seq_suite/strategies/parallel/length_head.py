"""The length first, then all symbols in parallel."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq_suite.common.types import END, Batch, Distributions, Hypothesis, Loss, places
from seq2seq_suite.strategies.parallel.base import Aligned, symbols_before_end
from seq2seq_suite.strategies.parallel.constrained import constrained_argmax, exact_lengths
from seq2seq_suite.strategies.parallel.log_probs import likeliest

if TYPE_CHECKING:
    from seq2seq_suite.common.shapes import TargetShape
    from seq2seq_suite.common.types import Constraint, States
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.options.strategies import LengthHeadOptions
    from seq2seq_suite.strategies.auxiliary import Auxiliaries


class LengthClassifier(nn.Module):
    """p(T | x): a classifier of T - round(r S') on the mean of the encoder's output, T symbols without END.

    Source: Ghazvininejad et al. 2019 (Mask-Predict), section 3.3, with the relative lengths of Gu & Kong 2021.

    Args:
        width: D.
        ratio: r, about how many target symbols there are per encoder position.
        num_lengths: L, the classes; the expected length is the one in the middle.
    """

    def __init__(self, width: int, ratio: float, num_lengths: int):
        super().__init__()
        self.ratio, self.num_lengths, self.middle = ratio, num_lengths, num_lengths // 2
        self.linear = nn.Linear(width, num_lengths)

    def forward(self, states: States) -> Tensor:
        """(B,L) log-probabilities, float32."""
        weight = states.mask.unsqueeze(2).to(states.values.dtype)
        mean = (states.values * weight).sum(1) / weight.sum(1).clamp(min=1.0)
        return self.linear(mean).float().log_softmax(-1)

    def loss(self, states: States, lengths: Tensor) -> Tensor:
        """Summed cross-entropy, float32, of lengths (B,); those too far from r S' are in the farthest class."""
        classes = (lengths - self._expected(states) + self.middle).clamp(0, self.num_lengths - 1)
        return functional.nll_loss(self(states), classes, reduction="sum")

    def likeliest(self, states: States, count: int) -> tuple[Tensor, Tensor]:
        """The `count` likeliest lengths (B,count) int64, at least 1 each, and their log-probabilities."""
        scores = self(states)
        around = torch.arange(self.num_lengths, device=scores.device) - self.middle
        lengths = around + self._expected(states).unsqueeze(1)
        best, place = scores.masked_fill(lengths < 1, torch.finfo(scores.dtype).min).topk(count, 1)
        return lengths.gather(1, place).clamp(min=1), best

    def _expected(self, states: States) -> Tensor:
        return (states.mask.sum(1) * self.ratio).round().long()


class LengthHead(Aligned):
    """p(y | x) = p(T | x) prod_t p(y_t | x, T): the length, then all symbols.

    Decoding tries the `beam_size` likeliest lengths and takes the output of the highest mean log-probability.

    Source: Gu et al. 2018; Lee et al. 2018 (length prediction); Ghazvininejad et al. 2019 (several lengths).
    """

    options: LengthHeadOptions
    predicts_length = True
    writes = ("text", "structures", "labels")
    uses = ("beam_size", "num_hypotheses", "rescorer", "risk")
    never = (*Aligned.never, END)

    def __init__(self, options: LengthHeadOptions, target: TargetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.head = LengthClassifier(width, options.length_ratio, options.num_lengths)

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Symbols without END, revealed ones too, and rows."""
        return {"cross_entropy": symbols_before_end(batch).sum().clamp(min=1), "length": batch.target.size(0)}

    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """The target's own length; an empty one has one position, which does not count."""
        return symbols_before_end(batch).clamp(min=1)

    def own_loss(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor, revealed: Tensor
    ) -> Loss:
        """Cross-entropy of the symbols that were not revealed, and of the length."""
        asked = (targets_by_position(batch, mask) >= 0) & ~revealed
        target, smoothing = batch.target[:, : hidden.size(1)], self.options.label_smoothing
        sums = {
            "cross_entropy": model.cross_entropy(hidden, memory, target, places(asked), smoothing),
            "length": self.head.loss(memory.states, symbols_before_end(batch)),
        }
        weights = {"cross_entropy": 1.0, "length": self.options.length_weight}
        judged = Distributions("cross_entropy", partial(model.logits, hidden, memory), asked)
        return Loss(sums, self.own_counts(batch), weights, (judged,))

    def alignment(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Position t has symbol t."""
        return targets_by_position(batch, mask), likeliest(model, memory, batch, hidden, mask)

    def predict(
        self,
        model: Seq2Seq,
        batch: Batch,
        states: States,
        memory: Memory,
        *,
        options: SearchOptions,
        limit: Tensor,
        constraint: Constraint | None,
    ) -> list[list[Hypothesis]]:
        """One output for each of the likeliest lengths, the best by mean log-probability first."""
        lengths = exact_lengths(constraint, batch)
        if lengths is None:
            lengths, _ = self.head.likeliest(states, max(options.beam_size, options.num_hypotheses))
            lengths = torch.minimum(lengths, (limit - 1).clamp(min=1).unsqueeze(1))
        vectors, mask = self.decoder_inputs(model, memory, batch, lengths.flatten())
        scores = self.predict_symbols(model, memory, vectors, mask, options)
        candidates = []
        for place, length in enumerate(lengths.unbind(1)):
            own = scores[place :: lengths.size(1)]
            found = constrained_argmax(constraint, batch, own, length, limit)
            # A length is met by itself; only an automaton can fail to end.
            candidates.append(
                [
                    Hypothesis(symbols[: most - 1], score / max(1, len(symbols)), ended or constraint is None)
                    for (symbols, score, ended), most in zip(found, limit.tolist(), strict=True)
                ]
            )
        return [
            sorted(found, key=lambda one: -one.score)[: options.num_hypotheses]
            for found in zip(*candidates, strict=True)
        ]

    def predict_symbols(
        self, model: Seq2Seq, memory: Memory, vectors: Tensor, mask: Tensor, options: SearchOptions
    ) -> Tensor:
        """(N,C,V) log-probabilities at each position, END unlikely at all."""
        return self.output_log_probs(model, memory, self.run_decoder(model, memory, vectors, mask))


def targets_by_position(batch: Batch, mask: Tensor) -> Tensor:
    """(B,C) the target without END, -1 behind it; mask (B,C)."""
    place = torch.arange(mask.size(1), device=mask.device)
    return batch.target[:, : mask.size(1)].masked_fill(place >= symbols_before_end(batch).unsqueeze(1), -1)
