"""What has been written rules out what may follow: beginnings, least lengths and repetitions of free text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq_suite.common.types import END, PAD, Batch, PerRow
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.search.ctc_prefix_scores import NEVER


@dataclass(frozen=True)
class Written(PerRow):
    """The partial outputs of N rows.

    Args:
        symbols: (N,t) so far.
        begin: (N,L) what each output must begin with, padded with PAD behind.
    """

    symbols: Tensor
    begin: Tensor

    @staticmethod
    def needed(batch: Batch, options: SearchOptions) -> Written | None:
        """Empty outputs; None where nothing depends on them."""
        begin = batch.auxiliary.get("begin")
        if begin is None and not options.looks_back:
            return None
        nothing = batch.target.new_empty(batch.target.size(0), 0)
        return Written(nothing, nothing if begin is None else begin)

    def advance(self, symbols: Tensor) -> Written:
        """One symbol (N,) longer."""
        return Written(torch.cat((self.symbols, symbols.unsqueeze(1)), 1), self.begin)

    def restrain(self, logits: Tensor, options: SearchOptions) -> Tensor:
        """Logits (N,V) of what follows, without what the options rule out; a beginning that is asked for is exempt.

        Where they rule out all symbols, END is left.

        Source: the penalty is Keskar et al. 2019, section 4.1; blocked n-grams Paulus et al. 2018, section 2.5.
        """
        step, size, found = self.symbols.size(1), options.no_repeat_ngram, logits
        if options.repetition_penalty != 1.0:
            seen = logits.gather(1, self.symbols)
            penalised = torch.where(seen > 0, seen / options.repetition_penalty, seen * options.repetition_penalty)
            found = found.scatter(1, self.symbols, penalised)
        if 0 < size <= step:
            windows = self.symbols.unfold(1, size, 1)  # (N,t-n+1,n)
            again = (windows[..., :-1] == self.symbols[:, step - size + 1 :].unsqueeze(1)).all(-1)
            times = torch.zeros_like(logits).scatter_add(1, windows[..., -1], again.to(logits.dtype))
            found = found.masked_fill(times > 0, NEVER)
        if step < options.min_length:
            others = found.clone()
            others[:, END] = NEVER
            found = torch.where((others > NEVER).any(1, keepdim=True), others, found)
        return found if step >= self.begin.size(1) else torch.where(self._free(step), found, logits)

    def force(self, log_probabilities: Tensor) -> Tensor:
        """Log-probabilities (N,V) where nothing but the next symbol of the beginning is left, where there is one."""
        step = self.symbols.size(1)
        if step >= self.begin.size(1):
            return log_probabilities
        wanted = self.begin[:, step : step + 1]
        lowest = torch.finfo(log_probabilities.dtype).min / 2  # it must be written, however unlikely
        others = torch.arange(log_probabilities.size(1), device=wanted.device) != wanted
        forced = log_probabilities.clamp(min=lowest).masked_fill(others, NEVER)
        return torch.where(self._free(step), log_probabilities, forced)

    def _free(self, step: int) -> Tensor:
        """(N,1) bool, whether the beginning is written."""
        return self.begin[:, step : step + 1] == PAD
