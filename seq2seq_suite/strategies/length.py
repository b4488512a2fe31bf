"""Parallel decoders with a symbol at each position: of a predicted length, or long and cut at END."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.model.seq2seq import Prompt, Seq2Seq
from seq2seq_suite.strategies.auxiliary import Auxiliaries
from seq2seq_suite.strategies.parallel import (
    Glancing,
    Parallel,
    random_part,
    read,
    read_under,
    spread,
    symbols_before_end,
)
from seq2seq_suite.strategies.search import SearchOptions
from seq2seq_suite.types import END, Batch, Constraint, ExactConstraint, Hypothesis, Loss, States


class LengthFirst(Parallel):
    """p(y | x) = p(T | x) prod_t p(y_t | x, T): the length, then all symbols.

    In decoding the `beam_size` likeliest lengths are tried, and the output of the highest mean log-probability wins.

    Args:
        label_smoothing: share of probability spread over all symbols.
        length_weight: of the length's loss.
        glancing, auxiliaries: see `Parallel`.

    Source: Gu et al. 2018; Lee et al. 2018 (length prediction); Ghazvininejad et al. 2019 (several lengths).
    """

    def __init__(self, *, label_smoothing: float = 0.0, length_weight: float = 0.1, glancing: Glancing | None = None,
                 auxiliaries: Auxiliaries | None = None):
        super().__init__(glancing=glancing, auxiliaries=auxiliaries)
        self.label_smoothing, self.length_weight = label_smoothing, length_weight

    def own_counts(self, batch: Batch) -> dict[str, int]:
        """Symbols without END, revealed ones too, and rows."""
        return {"cross_entropy": max(1, int(symbols_before_end(batch).sum())), "length": batch.target.size(0)}

    def canvas(self, states: States, batch: Batch) -> Tensor:
        """The target's own length; an empty one has a position that counts for nothing."""
        return symbols_before_end(batch).clamp(min=1)

    def own_loss(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor,
                 revealed: Tensor) -> Loss:
        """Cross-entropy of the symbols that were not revealed, and of the length."""
        asked = (_by_place(batch, mask) >= 0) & ~revealed
        target = batch.target[:, : hidden.size(1)]
        sums = {"cross_entropy": model.cross_entropy(hidden, prompt, target, asked, self.label_smoothing),
                "length": model.length_head.loss(prompt.states, symbols_before_end(batch))}
        return Loss(sums, self.own_counts(batch), {"cross_entropy": 1.0, "length": self.length_weight})

    def alignment(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor
                  ) -> tuple[Tensor, Tensor]:
        """Position t has symbol t."""
        return _by_place(batch, mask), _likeliest(model, prompt, batch, hidden, mask)

    def write(self, model: Seq2Seq, batch: Batch, states: States, prompt: Prompt, *, options: SearchOptions,
              limit: Tensor, constraint: Constraint | None) -> list[list[Hypothesis]]:
        """One output for each of the likeliest lengths, the best by mean log-probability first."""
        if isinstance(constraint, ExactConstraint):
            lengths = constraint.lengths(batch).unsqueeze(1)
        else:
            lengths, _ = model.length_head.likeliest(states, max(options.beam_size, options.num_hypotheses))
            lengths = torch.minimum(lengths, (limit - 1).clamp(min=1).unsqueeze(1))
        vectors, mask = spread(states, lengths.flatten())
        scores = self.fill(model, prompt, vectors, mask, options)
        candidates = []
        for place, length in enumerate(lengths.unbind(1)):
            own = scores[place :: lengths.size(1)]
            found = read(own, length) if constraint is None else read_under(constraint, batch, own, length, limit)
            # A length is met by itself; only an automaton can fail to end.
            candidates.append([
                Hypothesis(symbols[: most - 1], score / max(1, len(symbols)), ended or constraint is None)
                for (symbols, score, ended), most in zip(found, limit.tolist(), strict=True)])
        return [sorted(found, key=lambda one: -one.score)[: options.num_hypotheses]
                for found in zip(*candidates, strict=True)]

    def fill(self, model: Seq2Seq, prompt: Prompt, vectors: Tensor, mask: Tensor, options: SearchOptions) -> Tensor:
        """(N,C,V) log-probabilities at each position, END unlikely at all."""
        hidden = self.hidden(model, prompt, vectors, mask, None, torch.zeros_like(mask))
        return self.writing(model, prompt, hidden, end=False)


class MaskPredict(LengthFirst):
    """The same, learned with a random part of the target in the input, and written in several passes.

    Of T symbols n are hidden in training, n uniform in 1 to T. In decoding all are hidden at first; pass i of I writes
    the hidden ones, then hides the T (I - i) / I least likely of all again.

    Source: Ghazvininejad et al. 2019, sections 2.2 and 3.
    Differs: a hidden position's input is the copied source, not the embedding of a mask symbol.
    """

    def reveal(self, model: Seq2Seq, prompt: Prompt, batch: Batch, vectors: Tensor, mask: Tensor
               ) -> tuple[Tensor | None, Tensor]:
        """All but a random number of symbols; in evaluation half of them, always the same."""
        symbols = _by_place(batch, mask)
        asked = symbols >= 0
        count = asked.sum(1)
        if not self.training:
            return symbols, asked & (torch.arange(mask.size(1), device=mask.device) % 2 == 1)
        hidden = (torch.rand(count.shape, device=count.device) * count).floor() + 1
        return symbols, asked & ~random_part(asked, hidden)

    def fill(self, model: Seq2Seq, prompt: Prompt, vectors: Tensor, mask: Tensor, options: SearchOptions) -> Tensor:
        """Written and rewritten in `iterations` passes: the scores with which each position was written last."""
        known, lengths = torch.zeros_like(mask), mask.sum(1)
        symbols, scores = torch.zeros_like(mask, dtype=torch.int64), vectors.new_zeros(())
        for step in range(1, options.iterations + 1):
            hidden = self.hidden(model, prompt, vectors, mask, symbols, known)
            found = self.writing(model, prompt, hidden, end=False)
            scores = torch.where(known.unsqueeze(2), scores, found)
            gained, symbols = scores.max(-1)
            again = (lengths * (options.iterations - step) / options.iterations).floor()
            order = gained.masked_fill(~mask, 1.0).argsort(1).argsort(1)  # padding, above any log-probability, last
            known = mask & (order >= again.unsqueeze(1))
        return scores


class CutAtEnd(Parallel):
    """A long canvas, of which all that follows the first END is ignored.

    Nothing aligns the symbols: one too many or too few near the beginning, and all later positions are wrong. That is
    the multi-modality problem at its plainest, and the reason for the other strategies.

    Args:
        factor, extra: C = factor * S' + extra positions; of a longer target the rest is not learned.
        end_weight: of END at the positions after the first.
        label_smoothing, glancing, auxiliaries: see `LengthFirst`.
    """

    def __init__(self, *, factor: float, extra: int, end_weight: float = 0.1, label_smoothing: float = 0.0,
                 glancing: Glancing | None = None, auxiliaries: Auxiliaries | None = None):
        super().__init__(glancing=glancing, auxiliaries=auxiliaries)
        self.factor, self.extra, self.end_weight = factor, extra, end_weight
        self.label_smoothing = label_smoothing

    def own_counts(self, batch: Batch) -> dict[str, int]:
        """Symbols with END; what comes after counts as much as they."""
        count = int(batch.target_mask.sum())
        return {"cross_entropy": count, "after_end": count}

    def canvas(self, states: States, batch: Batch) -> Tensor:
        """C of each row."""
        return self._positions(states)

    def own_loss(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor,
                 revealed: Tensor) -> Loss:
        """Cross-entropy of symbols and the first END that were not revealed; of END after it."""
        target = _with_ends(batch, mask)
        place = torch.arange(mask.size(1), device=mask.device)
        inside = mask & (place < batch.target_mask.sum(1, keepdim=True))
        symbols = target.clamp(min=0)
        sums = {"cross_entropy": model.cross_entropy(hidden, prompt, symbols, inside & ~revealed, self.label_smoothing),
                "after_end": model.cross_entropy(hidden, prompt, symbols, mask & ~inside & ~revealed)}
        return Loss(sums, self.own_counts(batch), {"cross_entropy": 1.0, "after_end": self.end_weight})

    def alignment(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor
                  ) -> tuple[Tensor, Tensor]:
        """Position t has symbol t, END from the end on."""
        return _with_ends(batch, mask), _likeliest(model, prompt, batch, hidden, mask)

    def write(self, model: Seq2Seq, batch: Batch, states: States, prompt: Prompt, *, options: SearchOptions,
              limit: Tensor, constraint: Constraint | None) -> list[list[Hypothesis]]:
        """The likeliest symbol of each position, up to END; no END is an output cut short."""
        vectors, mask = spread(states, torch.minimum(self._positions(states), limit))
        hidden = self.hidden(model, prompt, vectors, mask, None, torch.zeros_like(mask))
        scores, lengths = self.writing(model, prompt, hidden), mask.sum(1)
        found = read(scores, lengths) if constraint is None else read_under(constraint, batch, scores, lengths, limit)
        return [[Hypothesis(symbols[: most - 1], score, complete)]
                for (symbols, score, complete), most in zip(found, limit.tolist(), strict=True)]

    def _positions(self, states: States) -> Tensor:
        return (states.mask.sum(1) * self.factor).long() + self.extra


def _by_place(batch: Batch, mask: Tensor) -> Tensor:
    """(B,C) the target without END, -1 behind it; mask (B,C)."""
    place = torch.arange(mask.size(1), device=mask.device)
    return batch.target[:, : mask.size(1)].masked_fill(place >= symbols_before_end(batch).unsqueeze(1), -1)


def _with_ends(batch: Batch, mask: Tensor) -> Tensor:
    """(B,C) the target, END up to the last real position, then -1; mask (B,C)."""
    target = functional.pad(batch.target.masked_fill(~batch.target_mask, END),
                            (0, max(0, mask.size(1) - batch.target.size(1))), value=END)
    return target[:, : mask.size(1)].masked_fill(~mask, -1)


def _likeliest(model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor) -> Tensor:
    """(B,C) int64."""
    return model.choose(hidden, prompt, batch.target[:, :1], mask)[1]
