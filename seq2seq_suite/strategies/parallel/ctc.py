"""CTC over the decoder's positions: the source upsampled, symbols and blanks in parallel, repetitions merged."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import (
    BEGIN,
    BLANK,
    END,
    NEVER,
    UNKNOWN,
    Batch,
    Constraint,
    Distributions,
    Hypothesis,
    Loss,
    States,
)
from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import CtcOptions
from seq2seq_suite.search.ctc_beam import ctc_beam
from seq2seq_suite.search.ctc_prefix_scores import collapse
from seq2seq_suite.strategies.auxiliary_losses import Transcript
from seq2seq_suite.strategies.ctc_head import path_symbols, positions_needed
from seq2seq_suite.strategies.parallel.base import Parallel, symbols_before_end, uniform_copy
from seq2seq_suite.strategies.parallel.bigram_loss import agreement_weights, collapsed_disagreement
from seq2seq_suite.strategies.parallel.log_probs import gather_log_probs


class Ctc(Parallel):
    """p(y | x) = sum over all paths of C positions that collapse to y of prod_t p(path_t | x).

    The sum aligns what `CutAtEnd` leaves unaligned, and yields the length. Targets have no END; a target that needs
    more positions than there are has loss 0 and is counted as `too_long`.

    Glancing is over the likeliest alignment of the target.

    Source: Libovicky & Helcl 2018; Graves et al. 2006; with glancing Gu & Kong 2021.
    """

    Options = CtcOptions
    options: CtcOptions
    positions_are = "frames"
    writes = ("text",)
    uses = ("beam_size", "num_hypotheses", "rescorer", "risk", "length_penalty")
    never = (BEGIN, UNKNOWN, END)  # the blank is PAD

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Symbols without END, and rows."""
        rows = batch.target.size(0)
        counts: dict[str, int | Tensor] = {"ctc_target": symbols_before_end(batch).sum().clamp(min=1), "too_long": rows}
        return counts | ({"bigrams": rows} if any(self.options.agreement) else {})

    def decoder_length(self, states: States, batch: Batch) -> Tensor:
        """factor * S'."""
        return self.options.room(states.mask.sum(1))

    def own_loss(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor, revealed: Tensor
    ) -> Loss:
        """-log p(y | x), and the expected disagreement, whatever was revealed."""
        lengths, target = symbols_before_end(batch), _without_end(batch)
        scores, _, _ = gather_log_probs(model, hidden, memory, path_symbols(target), mask)
        paths, weights = (scores, mask.sum(1), target, lengths), {"ctc_target": 1.0}
        sums: dict[str, Tensor] = {}
        transcript = self.auxiliaries["ctc"] if "ctc" in self.auxiliaries and "ctc" in batch.auxiliary else None
        if mask.device.type != "cpu" and isinstance(transcript, Transcript):
            # Together, because PyTorch reads the lengths: one wait in place of two.
            transcripts = transcript.head.paths(memory.states, batch.auxiliary["ctc"])
            sums["ctc_target"], sums["ctc"] = joint_path_losses(paths, transcripts)
        else:
            sums["ctc_target"] = path_loss(*paths)
        sums["too_long"] = (positions_needed(target) > mask.sum(1)).sum().float()
        if any(self.options.agreement):
            weights = agreement_weights(self.options.agreement, "ctc_target", self.fraction_done)
            sums["bigrams"] = collapsed_disagreement(scores, target, lengths, mask).sum()
        judged = Distributions("ctc_target", partial(model.logits, hidden, memory), mask)
        return Loss(sums, self.own_counts(batch), weights, (judged,))

    def alignment(
        self, model: Seq2Seq, memory: Memory, batch: Batch, hidden: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The likeliest path that collapses to the target, blanks among it; -1 where there is none."""
        target = _without_end(batch)
        scores, likeliest, _ = gather_log_probs(model, hidden, memory, path_symbols(target), mask)
        return align(scores, mask.sum(1), target, symbols_before_end(batch)), likeliest

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
        """The best path, collapsed, or a beam over the outputs; no more symbols than the limit allows."""
        vectors, mask = uniform_copy(states, self.decoder_length(states, batch))
        hidden = self.run_decoder(model, memory, vectors, mask)
        width = max(options.beam_size, options.num_hypotheses)
        if width > 1:
            logits = model.logits(hidden, memory).float()
            logits[..., list(self.never)] = NEVER
            return [
                ranked(ctc_beam(row[inside], width, self.language), options, most)
                for row, inside, most in zip(logits.log_softmax(-1), mask, limit.tolist(), strict=True)
            ]
        # After a row's positions comes the blank, symbol 0 with score 0.
        blank = torch.zeros_like(limit).unsqueeze(1)
        _, path, gained = gather_log_probs(model, hidden, memory, blank, mask, never=self.never)
        found = collapse(path, gained)
        return [
            [Hypothesis(tuple(symbols[: most - 1]), score, complete=len(symbols) < most)]
            for (symbols, score), most in zip(found, limit.tolist(), strict=True)
        ]


def ranked(found: list[tuple[tuple[int, ...], float]], options: SearchOptions, limit: int) -> list[Hypothesis]:
    """The hypotheses asked for, best first, by their log-probabilities and the length penalty.

    Args:
        found: outputs without END and their log-probabilities.
        options: the penalty and the number of hypotheses.
        limit: longest output, END included.
    """
    scored = [
        Hypothesis(
            symbols[: limit - 1],
            float(options.normalise(torch.tensor(score), len(symbols) + 1)),
            complete=len(symbols) < limit,
        )
        for symbols, score in found
    ]
    return sorted(scored, key=lambda one: -one.score)[: options.num_hypotheses]


def _without_end(batch: Batch) -> Tensor:
    """(B,T-1) symbols, padded with the blank."""
    place = torch.arange(batch.target.size(1), device=batch.target.device)
    return batch.target.masked_fill(place >= symbols_before_end(batch).unsqueeze(1), BLANK)[:, :-1]


def path_loss(scores: Tensor, positions: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
    """Summed -log p of all paths that collapse to the target, from the scores of the symbols on them alone.

    By Fisher's identity the slope of the loss in the score of a symbol at a position is minus the probability g that
    the path is there, given the target. PyTorch's CTC loss gives exp(score) - g, the slope before a softmax over all
    symbols, out of which g is taken. Targets that need more positions than there are have loss and slope 0.

    Args:
        scores: (B,C,1+U) log-probabilities of the blank and of each symbol of the target, float32.
        positions: (B,) int64, how many of the C are a row's own.
        target: (B,U) int64 without END, padded with the blank.
        lengths: (B,) int64, symbols of each row.

    Source: Graves et al. 2006, eqs. 14 and 15.
    """
    return path_losses(scores, positions, target, lengths).sum()


def joint_path_losses(*parts: tuple[Tensor, Tensor, Tensor, Tensor]) -> list[Tensor]:
    """`path_loss` of several lists of its arguments, their rows together in one call of PyTorch's loss."""
    positions, symbols = (max(part[0].size(axis) for part in parts) for axis in (1, 2))
    scores = [functional.pad(part[0], (0, symbols - part[0].size(2), 0, positions - part[0].size(1))) for part in parts]
    targets = [functional.pad(part[2], (0, symbols - 1 - part[2].size(1)), value=BLANK) for part in parts]
    each = path_losses(
        torch.cat(scores),
        torch.cat([part[1] for part in parts]),
        torch.cat(targets),
        torch.cat([part[3] for part in parts]),
    )
    return [own.sum() for own in each.split([len(part[0]) for part in parts])]


def path_losses(scores: Tensor, positions: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
    """(B,) of which `path_loss` is the sum."""
    place = torch.arange(scores.size(1), device=scores.device)
    if not target.size(1):  # PyTorch's loss wants a symbol: every path has blanks alone
        return -scores[:, :, 0].masked_fill(place >= positions.unsqueeze(1), 0.0).sum(1)
    number = torch.arange(target.size(1), device=target.device)
    same = target.unsqueeze(2) == target.unsqueeze(1)
    first = torch.where(same, number, target.size(1)).amin(2) + 1  # equal symbols in one column: repetitions are seen
    with torch.enable_grad():
        leaf = scores.detach().transpose(0, 1).requires_grad_()
        total = functional.ctc_loss(leaf, first, positions, lengths, blank=0, reduction="none", zero_infinity=True)
        (slope,) = torch.autograd.grad(total.sum(), leaf)
    asked = (place < positions.unsqueeze(1)) & (positions_needed(target) <= positions).unsqueeze(1)
    given = (leaf.detach().exp() - slope).transpose(0, 1).masked_fill(~asked.unsqueeze(2), 0.0)
    return total.detach() - (given * (scores - scores.detach())).sum((1, 2))


def align(scores: Tensor, positions: Tensor, target: Tensor, lengths: Tensor) -> Tensor:
    """The likeliest path of each row that collapses to its target.

    Args:
        scores: (B,C,1+U) log-probabilities of the blank and of each symbol of the target.
        positions: (B,) int64, how many of the C are a row's own.
        target: (B,U) int64 without END, padded with the blank.
        lengths: (B,) int64, symbols of each row.

    Returns:
        (B,C) int64; -1 beyond a row's positions, and everywhere where there are too few of them.

    Source: Graves et al. 2006, section 4.1, with a maximum for the sum.
    """
    rows, count, _ = scores.shape
    spelled = target.new_full((rows, 2 * target.size(1) + 1), BLANK)  # blank y_1 blank y_2 ... blank
    spelled[:, 1::2] = target
    column = torch.zeros_like(spelled[0])
    column[1::2] = torch.arange(1, target.size(1) + 1, device=target.device)
    skips = torch.zeros_like(spelled, dtype=torch.bool)  # where the blank before may be left out
    skips[:, 2:] = (spelled[:, 2:] != BLANK) & (spelled[:, 2:] != spelled[:, :-2])
    last = torch.stack((2 * lengths, (2 * lengths - 1).clamp(min=0)), 1)
    with torch.enable_grad():
        gains = scores.detach().index_select(2, column).requires_grad_()  # (B,C,2U+1)
        reached = torch.full_like(gains[:, 0], NEVER)
        reached[:, :2] = gains[:, 0, :2]
        for step in range(1, count):
            before = functional.pad(reached, (2, 0), value=NEVER)
            options = torch.stack((reached, before[:, 1:-1], before[:, :-2].masked_fill(~skips, NEVER)), 2)
            reached = torch.where((step < positions).unsqueeze(1), options.max(2).values + gains[:, step], reached)
        best = reached.gather(1, last).max(1).values
        (on_path,) = torch.autograd.grad(best.sum(), gains)  # 1 where the maximum comes from, else 0
    real = (torch.arange(count, device=scores.device) < positions.unsqueeze(1)) & (best > NEVER).unsqueeze(1)
    return spelled.gather(1, on_path.argmax(2)).where(real, -1)
