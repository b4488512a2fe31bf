"""The parser's automaton: which symbols may come next, and what the decoder should look at.

Whatever the model predicts, outputs under this automaton are one tree over exactly the sentence's words, within
the length limit. All rows run together; the stack is kept only as far as decisions need it: the open brackets
with their labels and left edges, and the node that was finished last.

Source positions: 0 is the sentinel before the sentence, i the i-th word (from 1), N + 1 the sentinel behind it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, UNKNOWN, Batch, Constraint, PerRow

NOTHING, SHIFTED, OPENED, CLOSED = range(4)
MAX_DEPTH = 64


@dataclass(frozen=True)
class ParserState(PerRow):
    """N parsers.

    Args:
        words: (N,) words of the sentence.
        remaining: (N,) symbols that may still follow, END included.
        shifted: (N,) words shifted.
        depth: (N,) open brackets.
        last: (N,) what the last symbol did: NOTHING, SHIFTED, OPENED or CLOSED.
        run: (N,) in-order: nodes with one child in a chain above the last word or wider node; top-down: brackets
            opened in a row.
        top: (N,) symbol that made the node finished last: SHIFT's, or that which opened it; 0 for none.
        top_left: (N,) source position of its first word; 0 for none.
        open_symbols: (N,MAX_DEPTH) symbols of the open brackets, outermost first.
        open_left: (N,MAX_DEPTH) source positions of their first words.
    """

    words: Tensor
    remaining: Tensor
    shifted: Tensor
    depth: Tensor
    last: Tensor
    run: Tensor
    top: Tensor
    top_left: Tensor
    open_symbols: Tensor
    open_left: Tensor


class ParserAutomaton(Constraint):
    """The constraint of both linearisations.

    Args:
        top_down: True for brackets opened before their first child, False for in-order.
        shift: id of the symbol that takes a word.
        close: id of the symbol that closes a bracket.
        opens: ids of the symbols that open one.
        num_symbols: V.
        max_run: in-order: longest chain of nodes with one child; top-down: most brackets opened in a row.
    """

    num_focus = 5
    focus_names = (
        "the next word",
        "the last word shifted",
        "the beginning of the last node",
        "the beginning of the open bracket",
        "the beginning of the bracket around that",
    )
    num_context = 3

    def __init__(self, *, top_down: bool, shift: int, close: int, opens: list[int], num_symbols: int, max_run: int):
        self.top_down, self.shift, self.close, self.max_run = top_down, shift, close, max_run
        self.is_open = torch.zeros(num_symbols, dtype=torch.bool)
        self.is_open[opens] = True
        self.acts_as_open = self.is_open.clone()
        self.acts_as_open[UNKNOWN] = True  # an unseen label opens a bracket, too

    def start(self, batch: Batch, limit: Tensor) -> ParserState:
        """Parsers before the first symbol; the source has a sentinel at each end."""
        self.is_open, self.acts_as_open = self.is_open.to(limit.device), self.acts_as_open.to(limit.device)
        words = batch.source_mask.sum(1) - 2
        zero = torch.zeros_like(words)
        stack = zero.unsqueeze(1).expand(-1, MAX_DEPTH).contiguous()
        return ParserState(
            words=words,
            remaining=limit.clone(),
            shifted=zero,
            depth=zero,
            last=zero,
            run=zero,
            top=zero,
            top_left=zero,
            open_symbols=stack,
            open_left=stack,
        )

    def allowed(self, state: ParserState) -> Tensor:
        """(N,V): the next symbols from which one tree over exactly the words can be completed."""
        left = state.words - state.shifted
        open_ok, close_ok = self._top_down_moves(state, left) if self.top_down else self._in_order_moves(state, left)
        budget = state.remaining - 1
        open_ok &= (state.depth < MAX_DEPTH - 1) & (self._cost(left, state.depth + 1) <= budget)
        close_ok &= self._cost(left, state.depth - 1) <= budget
        shift_ok = (left > 0) & ((state.depth > 0) | ((state.last == NOTHING) & (not self.top_down)))
        end_ok = (left == 0) & (state.depth == 0) & (state.last != NOTHING)
        allowed = open_ok.unsqueeze(1) & self.is_open
        if not self.top_down:
            # With no word left only REDUCE can follow, and X over X alone is not allowed.
            symbols = torch.arange(allowed.size(1), device=allowed.device)
            allowed &= (symbols != state.top.unsqueeze(1)) | (left > 0).unsqueeze(1)
        allowed[:, self.shift] = shift_ok
        allowed[:, self.close] = close_ok
        allowed[:, END] = end_ok | ~allowed.any(1)  # an invalid state may end
        return allowed

    def advance(self, state: ParserState, symbols: Tensor) -> ParserState:
        """Parsers after `symbols`; symbols that are not allowed lead to an invalid state, but do not fail."""
        shifts, closes = symbols == self.shift, symbols == self.close
        opens = self.acts_as_open[symbols]
        shifted = torch.minimum(state.shifted + shifts, state.words)
        bracket, bracket_left = self._open(state)
        top = torch.where(shifts, symbols, torch.where(closes, bracket, state.top))
        top_left = torch.where(shifts, shifted, torch.where(closes, bracket_left, state.top_left))
        depth = (state.depth + opens.long() - closes.long()).clamp(0, MAX_DEPTH - 1)
        slot = state.depth.unsqueeze(1)
        new_left = state.shifted + 1 if self.top_down else state.top_left
        opened = opens.unsqueeze(1)
        open_symbols = state.open_symbols.scatter(
            1, slot, torch.where(opened, symbols.unsqueeze(1), state.open_symbols.gather(1, slot))
        )
        open_left = state.open_left.scatter(
            1, slot, torch.where(opened, new_left.unsqueeze(1), state.open_left.gather(1, slot))
        )
        return replace(
            state,
            remaining=state.remaining - 1,
            shifted=shifted,
            depth=depth,
            top=top,
            top_left=top_left,
            last=shifts * SHIFTED + opens * OPENED + closes * CLOSED,
            run=self._run(state, opens, closes),
            open_symbols=open_symbols,
            open_left=open_left,
        )

    def focus(self, state: ParserState) -> Tensor:
        """(N,5): next word, last word shifted, left edges of the last node and of the two innermost open brackets."""
        (_, inner_left), (_, outer_left) = self._open(state), self._open(state, 2)
        return torch.stack((state.shifted + 1, state.shifted, state.top_left, inner_left, outer_left), 1)

    def context(self, state: ParserState) -> Tensor:
        """(N,3): symbols of the two innermost open brackets and of the last node, 0 for none."""
        (inner, _), (outer, _) = self._open(state), self._open(state, 2)
        return torch.stack((inner, outer, state.top), 1)

    def _in_order_moves(self, state: ParserState, left: Tensor) -> tuple[Tensor, Tensor]:
        has_top = (state.last == SHIFTED) | (state.last == CLOSED)
        # Without words left the new bracket would have one child, so the chain must still have room.
        open_ok = has_top & ((left > 0) | (state.run < self.max_run))
        bracket, _ = self._open(state)
        chain_ok = (state.last != OPENED) | ((state.run < self.max_run) & (bracket != state.top))
        return open_ok, (state.depth > 0) & chain_ok

    def _top_down_moves(self, state: ParserState, left: Tensor) -> tuple[Tensor, Tensor]:
        open_ok = (left > 0) & (state.run < self.max_run) & ((state.depth > 0) | (state.last == NOTHING))
        close_ok = (state.depth > 0) & (state.last != OPENED) & ((state.depth > 1) | (left == 0))
        return open_ok, close_ok

    def _cost(self, left: Tensor, depth: Tensor) -> Tensor:
        """Fewest symbols, END included, that finish a tree from `left` words and `depth` open brackets."""
        outermost = (depth <= 0) & (left > 0)  # in-order: one more bracket must join what is there with the rest
        return left + depth.clamp(min=0) + 2 * outermost + 1

    def _run(self, state: ParserState, opens: Tensor, closes: Tensor) -> Tensor:
        if self.top_down:
            return torch.where(opens, state.run + 1, 0)
        chain = torch.where(state.last == OPENED, state.run + 1, 0)
        return torch.where(closes, chain, torch.where(opens, state.run, 0))

    @staticmethod
    def _open(state: ParserState, number: int = 1) -> tuple[Tensor, Tensor]:
        """(N,) symbol and left edge of an open bracket, 1 for the innermost; 0 for none."""
        slot, there = (state.depth - number).clamp(min=0).unsqueeze(1), state.depth >= number
        symbol, left = (stack.gather(1, slot).squeeze(1) * there for stack in (state.open_symbols, state.open_left))
        return symbol, left
