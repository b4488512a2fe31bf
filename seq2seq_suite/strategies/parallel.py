"""All target positions at once: what the non-autoregressive strategies have in common.

Shape suffixes in this module: B sentences, N rows (a multiple of B, a sentence's rows side by side), S encoder
positions, C decoder positions, T target symbols, D width, V symbols.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.config_section import ShareOrNone
from seq2seq_suite.model.output import UNLIKELY
from seq2seq_suite.model.seq2seq import Prompt, Seq2Seq
from seq2seq_suite.strategies.base import Strategy, WithTranscript
from seq2seq_suite.strategies.search import SearchOptions
from seq2seq_suite.types import (
    BEGIN,
    END,
    PAD,
    UNKNOWN,
    Batch,
    Constraint,
    ExactConstraint,
    Hypothesis,
    Loss,
    States,
)

UNREADABLE = (PAD, BEGIN, UNKNOWN)  # symbols that are never written
NEVER = float("-inf")


Ratios = tuple[ShareOrNone, ShareOrNone]  # at the training's beginning and at its end


class ParallelOptions(WithTranscript):
    """What most parallel decoders' options begin with."""

    glancing: Ratios = (0.0, 0.0)  # times the missed symbols: target symbols that are shown in training


@dataclass(frozen=True)
class Glancing:
    """Show a part of the target in training: the more, the more the model would get wrong.

    Of the symbols on the alignment with the target, `ratio` times as many as the model misses are put into the
    decoder's input, at random places; ratio falls from `start` to `end` over the run.

    Source: Qian et al. 2021 (Glancing Transformer), section 3.1; over CTC's and the graph's best alignment as in
    Gu & Kong 2021 and Huang et al. 2022.
    """

    start: float = 0.5
    end: float = 0.3

    def __bool__(self) -> bool:
        return self.start > 0.0 or self.end > 0.0

    def positions(self, missed: Tensor, asked: Tensor, fraction_done: float) -> Tensor:
        """(B,C) bool: a random part of `asked` (B,C), as large as the `missed` symbols (B,) call for."""
        ratio = self.start + (self.end - self.start) * fraction_done
        return random_part(asked, (ratio * missed).round())


def random_part(asked: Tensor, counts: Tensor) -> Tensor:
    """(B,C) bool, `counts` (B,) random places of each row of `asked` (B,C) bool, all of them where it has fewer.

    >>> random_part(torch.tensor([[True, False, True], [True, True, True]]), torch.tensor([2, 0])).tolist()
    [[True, False, True], [False, False, False]]
    """
    keys = torch.rand(asked.shape, device=asked.device).masked_fill(~asked, 2.0)
    return (keys.argsort(1).argsort(1) < counts.unsqueeze(1)) & asked


def uniform_copy(states: States, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Encoder positions copied uniformly over the decoder's: C position t reads S position round(t (S-1) / (C-1)).

    Args:
        states: the encoder's output, B sentences.
        lengths: (N,) int64, C of each row.

    Returns:
        (N,C,D) and mask (N,C).

    Source: Gu et al. 2018, section 3.1.
    """
    rows, sources = lengths.size(0), states.mask.sum(1)
    repeats = rows // sources.size(0)
    place = torch.arange(int(lengths.max()), device=lengths.device)
    step = (sources.repeat_interleave(repeats) - 1).clamp(min=0) / (lengths - 1).clamp(min=1)
    index = (place * step.unsqueeze(1)).round().long()
    values = states.values.repeat_interleave(repeats, 0) if repeats > 1 else states.values
    mask = place < lengths.unsqueeze(1)
    index = index.masked_fill(~mask, 0)
    return values.gather(1, index.unsqueeze(2).expand(-1, -1, values.size(2))), mask


class Parallel(Strategy):
    """A strategy whose decoder sees all positions of an input that is copied from the source."""

    @abstractmethod
    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """(B,) int64, how many positions the decoder has in training."""

    @abstractmethod
    def own_loss(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor,
                 revealed: Tensor) -> Loss:
        """The loss of hidden states (B,C,D) at real positions `mask` (B,C), some of them `revealed` (B,C)."""

    @abstractmethod
    def alignment(self, model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor
                  ) -> tuple[Tensor, Tensor]:
        """(B,C) int64 each: the target's symbol at each position that has one, -1 elsewhere; the likeliest symbol."""

    @abstractmethod
    def own_counts(self, batch: Batch) -> dict[str, int]:
        """The counts of `own_loss`."""

    @abstractmethod
    def predict(self, model: Seq2Seq, batch: Batch, states: States, prompt: Prompt, *, options: SearchOptions,
                limit: Tensor, constraint: Constraint | None) -> list[list[Hypothesis]]:
        """For each sentence its hypotheses, best first."""

    # -- what a strategy offers ---------------------------------------------------------------------------------

    def counts(self, model: Seq2Seq, batch: Batch) -> dict[str, int]:
        """The counts that `loss` will give."""
        return self.own_counts(batch) | self.auxiliaries.counts(model, batch)

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """The strategy's own loss, and what the encoder learns besides."""
        states = model.encode(batch)
        prompt = model.prepare(states)
        vectors, mask = uniform_copy(states, self.decoder_length(states, batch))
        symbols, revealed = self.glance(model, prompt, batch, vectors, mask)
        hidden = self.hidden(model, prompt, vectors, mask, symbols, revealed)
        own = self.own_loss(model, prompt, batch, hidden, mask, revealed)
        return self.auxiliaries.added(own, model, batch, states)

    @torch.inference_mode()
    def generate(self, model: Seq2Seq, batch: Batch, *, options: SearchOptions, limit: Tensor,
                 constraint: Constraint | None = None) -> list[list[Hypothesis]]:
        """Hypotheses of each item, best first; see `Strategy.generate`."""
        states = model.encode(batch)
        found = self.predict(model, batch, states, model.prepare(states), options=options, limit=limit,
                           constraint=constraint if options.constraint else None)
        return self.auxiliaries.annotated(found, states)

    # -- parts --------------------------------------------------------------------------------------------------

    def glance(self, model: Seq2Seq, prompt: Prompt, batch: Batch, vectors: Tensor, mask: Tensor
               ) -> tuple[Tensor | None, Tensor]:
        """Symbols (B,C) to show in the decoder's input and where (B,C) bool; None and nowhere outside training."""
        glancing = Glancing(*self.options.glancing)
        if not glancing or not self.training:
            return None, torch.zeros_like(mask)
        # The same dropout in both passes: what comes after this block begins with the same random state.
        devices = [vectors.device] if vectors.device.type == "cuda" else []
        with torch.no_grad(), torch.random.fork_rng(devices):
            hidden = self.hidden(model, prompt, vectors, mask, None, torch.zeros_like(mask))
            symbols, likeliest = self.alignment(model, prompt, batch, hidden, mask)
            missed = (likeliest != symbols) & (symbols >= 0)
            return symbols, glancing.positions(missed.sum(1), symbols >= 0, self.fraction_done)

    @staticmethod
    def hidden(model: Seq2Seq, prompt: Prompt, vectors: Tensor, mask: Tensor, symbols: Tensor | None,
               revealed: Tensor) -> Tensor:
        """Hidden states (N,C,D) over vectors (N,C,D), with `symbols` (N,C) in their place where `revealed`."""
        if symbols is not None:
            shown = model.look_up(symbols.clamp(min=0))
            vectors = torch.where(revealed.unsqueeze(2), shown.to(vectors.dtype), vectors)
        return model.decode(model.place(vectors), mask.unsqueeze(1), prompt, mask=mask)[0]

    @staticmethod
    def writing(model: Seq2Seq, prompt: Prompt, hidden: Tensor, *, end: bool = True) -> Tensor:
        """(N,C,V) float32 of symbols that may be written, END only if asked for."""
        logits = model.logits(hidden, prompt).float()
        logits[..., [*UNREADABLE, *([] if end else [END])]] = UNLIKELY
        return logits.log_softmax(-1)


def argmax_until_end(scores: Tensor, lengths: Tensor) -> list[tuple[tuple[int, ...], float, bool]]:
    """The likeliest symbol at each position.

    Args:
        scores: (B,C,V) log-probabilities.
        lengths: (B,) int64, positions of each row.

    Returns:
        of each row the symbols up to END, their summed score with END's, and whether there was an END.
    """
    gained, symbols = scores.max(-1)
    return _up_to_end(symbols, gained, lengths)


def constrained_argmax(constraint: Constraint | None, batch: Batch, scores: Tensor, lengths: Tensor, limit: Tensor
               ) -> list[tuple[tuple[int, ...], float, bool]]:
    """`argmax_until_end`, from left to right, of the symbols that a task's automaton allows.

    The automaton costs no pass of the network: it walks over scores that are there already. Behind a row's positions
    END is what it prefers. One that is exact finds the best output of all instead.

    Args:
        constraint, batch: the automaton, None for none, and the sentences.
        scores, lengths: see `argmax_until_end`.
        limit: (B,) int64, the longest output, END included.
    """
    if constraint is None:
        return argmax_until_end(scores, lengths)
    if isinstance(constraint, ExactConstraint):
        missing = max(0, int(constraint.lengths(batch).max()) - scores.size(1))
        scores = functional.pad(scores, (0, 0, 0, missing))  # behind the positions all symbols are alike
        symbols = constraint.best(scores, batch)
        gained = scores.gather(2, symbols.unsqueeze(2)).squeeze(2).masked_fill(symbols == END, 0.0)
        return [(cut_at_end(row), sum(gains), True)
                for row, gains in zip(symbols.tolist(), gained.tolist(), strict=True)]
    state, steps = constraint.start(batch, limit), []
    behind = torch.full_like(scores[:, 0], UNLIKELY)
    behind[:, END] = 0.0
    ended = torch.zeros_like(lengths, dtype=torch.bool)
    for step in range(int(limit.max())):
        inside = (step < lengths).unsqueeze(1)
        here = torch.where(inside, scores[:, step], behind) if step < scores.size(1) else behind
        steps.append(here.masked_fill(~constraint.allowed(state), NEVER).max(-1))
        ended |= steps[-1].indices == END
        if bool(ended.all()):
            break
        state = constraint.advance(state, steps[-1].indices)
    gained, symbols = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return _up_to_end(symbols, gained, limit)


def _up_to_end(symbols: Tensor, gained: Tensor, lengths: Tensor) -> list[tuple[tuple[int, ...], float, bool]]:
    found = []
    for row, gains, length in zip(symbols.tolist(), gained.tolist(), lengths.tolist(), strict=True):
        written = cut_at_end(row[:length])
        found.append((written, sum(gains[: min(len(written) + 1, length)]), END in row[:length]))
    return found


def likeliest(model: Seq2Seq, prompt: Prompt, batch: Batch, hidden: Tensor, mask: Tensor) -> Tensor:
    """(B,C) int64, the likeliest symbol at each real position `mask` (B,C) of hidden states (B,C,D)."""
    return model.choose(hidden, prompt, batch.target[:, :1], mask)[1]


def symbols_before_end(batch: Batch) -> Tensor:
    """(B,) int64, target symbols of each row without END."""
    return batch.target_mask.sum(1) - 1


def cut_at_end(symbols: list[int]) -> tuple[int, ...]:
    """What comes before the first END.

    >>> cut_at_end([7, 8, END, 9])
    (7, 8)
    """
    return tuple(symbols[: symbols.index(END)] if END in symbols else symbols)
