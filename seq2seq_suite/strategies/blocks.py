"""Blocks from left to right, the symbols of each in any order: block diffusion, of which left to right is one end.

Letters in shapes: B sentences, T target symbols, L slots of noised blocks, K blocks, W symbols of a block, D width.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import END, Batch, Distributions, Loss, places
from seq2seq_suite.model.layers import causal
from seq2seq_suite.search.blocks import MASK, copied_by_place, slot_inputs, write_blocks
from seq2seq_suite.search.ctc_prefix_scores import Prefixes
from seq2seq_suite.search.verified_blocks import write_verified
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.autoregressive import past_and_real, shift_right
from seq2seq_suite.strategies.parallel.glancing import random_part

if TYPE_CHECKING:
    from seq2seq_suite.common.shapes import TargetShape
    from seq2seq_suite.common.types import Constraint, Hypothesis
    from seq2seq_suite.model.seq2seq import Memory, Seq2Seq
    from seq2seq_suite.options.search import Search as SearchOptions
    from seq2seq_suite.options.strategies import BlocksOptions
    from seq2seq_suite.strategies.auxiliary import Auxiliaries

DRAWS = 16  # of the bound on a target's log-probability


@dataclass(frozen=True)
class Layout:
    """Targets cut into blocks.

    Args:
        target: (B,L) int64, END behind each target.
        asked: (B,L) bool, the symbols that may be hidden and are learned.
        real: (B,L) bool, the slots that there are.
        number: (L,) int64, the block of each slot.
        size: W.
        phase: W minus the symbols of the first block, 0 if it is whole.
    """

    target: Tensor
    asked: Tensor
    real: Tensor
    number: Tensor
    size: int
    phase: int

    @staticmethod
    def of(batch: Batch, size: int, *, phase: int = 0, tail: bool = True) -> Layout:
        """Blocks of `size` symbols; with a `tail` the block in which a target ends is filled with END."""
        length = batch.target.size(1)
        slots = -(-(length + phase) // size) * size - phase
        real, given = (functional.pad(mask, (0, slots - length)) for mask in (batch.target_mask, batch.given))
        target = functional.pad(batch.target, (0, slots - length)).masked_fill(~real, END)
        asked = real & ~given
        number = (torch.arange(slots, device=target.device) + phase) // size
        if tail:
            ends_in = (batch.target_mask.sum(1, keepdim=True) - 1 + phase) // size
            rest = ~real & (number <= ends_in) & asked.any(1, keepdim=True)
            asked, real = asked | rest, real | rest
        return Layout(target, asked, real, number, size, phase)

    def in_blocks(self, slots: Tensor) -> Tensor:
        """(B,L) -> (B,K,W)."""
        return functional.pad(slots, (self.phase, 0)).unflatten(1, (-1, self.size))

    def in_slots(self, blocks: Tensor) -> Tensor:
        """(B,K,W) -> (B,L)."""
        return blocks.flatten(1)[:, self.phase :]

    def draw(self) -> Tensor:
        """(B,L) bool, which symbols are hidden: n of each block's, n uniform from 1 to all of them."""
        asked = self.in_blocks(self.asked)
        most = asked.sum(2)
        counts = (torch.rand(most.shape, device=most.device) * most).floor().long() + 1
        return self.in_slots(random_part(asked.flatten(0, 1), counts.flatten()).view(asked.shape))

    def weights(self, hidden: Tensor, weighting: str) -> Tensor:
        """(B,L) float32 weights of the symbols that are hidden, 0 elsewhere; that of each symbol is 1 on average.

        bound: W / n of n hidden symbols among W. none: that is 2 W / (W + 1) for all n.

        Source: Hoogeboom et al. 2022 (ARDM: any order, here within a block); Sahoo et al. 2024 (MDLM), whose weight
            1 / t of a share t of hidden symbols this is.
        """
        blocks = self.in_blocks(hidden)
        most, count = (self.in_blocks(mask).sum(2, keepdim=True).float() for mask in (self.asked, hidden))
        weight = most / count.clamp(min=1) if weighting == "bound" else 2 * most / (most + 1)
        return self.in_slots(blocks * weight)

    def previous(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(B,L) what the slots hold, and (B,L) bool, before which slots nothing of their block is hidden.

        >>> target = torch.tensor([[5, 6, 7, 8, 9, END]])
        >>> ones = torch.ones_like(target, dtype=torch.bool)
        >>> batch = Batch(target, ones, target, ones, ~ones, "translation")
        >>> hidden = torch.tensor([[False, True, True, False, True, True]])
        >>> held, known = Layout.of(batch, 3).previous(hidden)
        >>> held.tolist(), known.long().tolist()  # 1 is BEGIN, 0 hidden
        ([[1, 5, 0, 7, 8, 0]], [[1, 1, 0, 1, 1, 0]])
        """
        blocks = self.in_blocks(hidden).long()
        behind_hidden = self.in_slots(functional.pad(blocks, (1, 0))[:, :, :-1]).bool()
        known = self.in_slots(blocks.cumsum(2) - blocks) == 0
        return shift_right(self.target).masked_fill(behind_hidden, MASK), known

    def visible(self, target_mask: Tensor) -> Tensor:
        """(B,L + T,L + T) bool of [noised ; clean] slots.

        A noised slot sees its block and the clean slots of the blocks before; clean ones see those before, and
        themselves.

        Source: Arriola et al. 2025 (BD3-LM), the masks M_BD, M_OBC and M_BC.
        Differs: the clean half is causal, so that it is a left-to-right model.
        """
        length = target_mask.size(1)
        number, clean = self.number.unsqueeze(1), self.number[:length]
        noised = torch.cat((number == self.number, number > clean), 1)
        past = causal(length, device=number.device).squeeze(0)
        lower = torch.cat((past.new_zeros(length, number.size(0)), past), 1)
        return torch.cat((noised, lower)) & torch.cat((self.real, target_mask), 1).unsqueeze(1)


class Blocks(Assisted):
    """p(y) = prod_k p(block k | blocks before, x): from left to right over blocks, in any order within one.

    A pass over [noised ; clean] learns all blocks at once. A slot predicts the symbol behind the one that it holds, as
    a left-to-right model does: with blocks of one symbol loss and outputs are those of `Autoregressive`, whose weights
    training may begin from. The clean half is such a model, too, learned by `joint`.

    Source: Arriola et al. 2025 (BD3-LM); Sahoo et al. 2024 (MDLM); Hoogeboom et al. 2022 (any order).
    Differs: slots are shifted, and the number of hidden symbols is uniform.
    """

    options: BlocksOptions
    writes = ("text", "structures", "labels")
    uses = (
        "block",
        "order",
        "threshold",
        "length_penalty",
        "min_length",
        "no_repeat_ngram",
        "repetition_penalty",
        "ctc_weight",
        "processors",
    )

    def __init__(self, options: BlocksOptions, target: TargetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)  # pyright: ignore[reportArgumentType]: its options are ours
        self.write, self.verify = write_blocks, write_verified

    def encode_source(self, model: Seq2Seq, batch: Batch) -> Memory:
        """See `Strategy`; with what hidden slots read of the source."""
        memory = super().encode_source(model, batch)
        if not self.options.copy_ratio:
            return memory
        return replace(
            memory, states=replace(memory.states, copied=copied_by_place(memory.states, self.options.copy_ratio))
        )

    def own_counts(self, batch: Batch) -> dict[str, int | Tensor]:
        """Symbols to predict, those behind END not counted."""
        count = batch.loss_positions.numel()
        return {"cross_entropy": count, **({"left_to_right": count} if self.options.joint else {})}

    def loss(self, model: Seq2Seq, batch: Batch) -> Loss:
        """Weighted cross-entropy of hidden symbols, that of all symbols from left to right, and the auxiliary losses.

        Training draws the blocks' length and where the first one begins.
        """
        memory, layout = self.encode_source(model, batch), self._layout(batch)
        hidden, smoothing = layout.draw(), self.options.label_smoothing
        noised, clean = self.states(model, batch, memory, layout, hidden)
        where, each = places(hidden), layout.weights(hidden, self.options.weighting).flatten()
        sums = {"cross_entropy": model.cross_entropy(noised, memory, layout.target, where, smoothing, each[where])}
        length, asked, weights = batch.target.size(1), batch.target_mask & ~batch.given, {"cross_entropy": 1.0}
        judged = [
            Distributions(
                "cross_entropy",
                partial(model.logits, noised[:, :length], memory),  # another pass may cut the blocks behind otherwise
                asked & hidden[:, :length],
            )
        ]
        if self.options.joint:
            sums["left_to_right"] = (
                sums["cross_entropy"]
                if noised is clean
                else model.cross_entropy(clean, memory, batch.target, batch.loss_positions, smoothing)
            )
            weights["left_to_right"] = self.options.joint
            judged.append(Distributions("left_to_right", partial(model.logits, clean, memory), asked))
        return self.auxiliaries.added(Loss(sums, self.own_counts(batch), weights, tuple(judged)), batch, memory.states)

    def _layout(self, batch: Batch) -> Layout:
        size, phase = self.options.block, 0
        if self.training:
            sizes = self.options.blocks or (size,)
            size = sizes[int(torch.randint(len(sizes), ()))]
            phase = int(torch.randint(size, ()))
        return Layout.of(batch, size, phase=phase, tail=self.options.tail == "end")

    @staticmethod
    def states(model: Seq2Seq, batch: Batch, memory: Memory, layout: Layout, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states of the noised slots (B,L,D) and of the clean ones (B,T,D), by one pass.

        With blocks of one symbol both are the same tensor: nothing that a slot reads is hidden.

        Args:
            model, batch, memory, layout: of the batch.
            hidden: (B,L) bool, the hidden symbols.
        """
        slots, length = layout.target.size(1), batch.target.size(1)
        state = {name: batch.auxiliary[name] for name in model.reads}
        clean = model.embed(shift_right(batch.target), memory, **state)
        if layout.size == 1:
            states, _ = model.decode(clean, past_and_real(batch.target_mask), memory)
            return states, states
        wide = {name: functional.pad(part, (0, 0, 0, slots - length)) for name, part in state.items()}
        held, known = layout.previous(hidden)
        known = known & (torch.arange(slots, device=hidden.device) < length)
        noised = slot_inputs(model, memory, held, wide, known)
        states, _ = model.decode(torch.cat((noised, clean), 1), layout.visible(batch.target_mask), memory)
        return states[:, :slots], states[:, slots:]

    def is_exact(self, options: SearchOptions) -> bool:
        """Whether a search writes, and judges, as the left-to-right model does."""
        return options.order == "verified" or self._size(options) == 1

    @torch.no_grad()
    def bound(self, model: Seq2Seq, batch: Batch, options: SearchOptions, draws: int = DRAWS) -> Tensor:
        """(draws,B,T) float32: what is at least -log p of each target, in terms for its symbols, of each draw.

        What stands behind END in its block is part of the last term. The mean over draws is an unbiased estimate of the
        bound.
        """
        memory, layout = self.encode_source(model, batch), Layout.of(batch, self._size(options))
        length, found = batch.target.size(1), []
        last = batch.target_mask.sum(1, keepdim=True) - 1
        for _ in range(draws):
            hidden = layout.draw()
            states, _ = self.states(model, batch, memory, layout, hidden)
            gains, _, _ = model.gather_log_probs(states, memory, places(hidden), layout.target[hidden].unsqueeze(1))
            each = layout.weights(hidden, "bound") * gains.new_zeros(hidden.shape).masked_scatter(hidden, -gains)
            behind = (each * (torch.arange(each.size(1), device=each.device) > last)).sum(1, keepdim=True)
            found.append(each[:, :length].masked_fill(~batch.target_mask, 0.0).scatter_add(1, last, behind))
        return torch.stack(found)

    def _size(self, options: SearchOptions) -> int:
        return options.block or self.options.block

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
        size = self._size(options)
        if size == 1:
            return super().generate(model, batch, options=options, limit=limit, constraint=constraint)
        memory = self.encode_source(model, batch)
        prefixes = Prefixes.empty(self.auxiliaries["ctc"].head(memory.states)) if options.ctc_weight else None
        search = self.verify if options.order == "verified" else self.write
        found = search(
            model, batch, memory, size=size, options=options, limit=limit, constraint=constraint, prefixes=prefixes
        )
        return self.auxiliaries.annotated(found, memory.states)
