"""Autoregressive decoding with help: speculative drafts, and a CTC head."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq_suite.common.shapes import TargetShape
from seq2seq_suite.common.types import Batch, Constraint, Hypothesis
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.search import Search as SearchOptions
from seq2seq_suite.options.strategies import AutoregressiveOptions
from seq2seq_suite.search.ctc_prefix_scores import Prefixes, ctc_greedy
from seq2seq_suite.search.speculative import drafted_greedy, drafts_of
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.auxiliary import Auxiliaries


class Assisted(Autoregressive):
    """`Autoregressive`, whose search may check drafts or weigh the prefix scores of a CTC head."""

    uses = (*Autoregressive.uses, "drafter", "ctc_weight")

    def __init__(self, options: AutoregressiveOptions, target: TargetShape, width: int, auxiliaries: Auxiliaries):
        super().__init__(options, target, width, auxiliaries)
        self.drafted = drafted_greedy

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
        drafts, drafted = drafts_of(batch), options.drafter == "ctc" and options.beam_size == 1
        if not (options.ctc_weight or drafted or (drafts is not None and options.beam_size == 1)):
            return super().generate(model, batch, options=options, limit=limit, constraint=constraint)
        memory = self.encode_source(model, batch)
        if drafted:
            drafts = [one for one, _ in ctc_greedy(self.auxiliaries["ctc"].head(memory.states))]
        if drafts is not None and options.beam_size == 1:
            found = self.drafted(model, batch, memory, drafts, options=options, limit=limit, constraint=constraint)
            return self.auxiliaries.annotated(found, memory.states)
        scores = self.auxiliaries["ctc"].head(memory.states)
        if options.ctc_weight == 1.0 and options.beam_size == 1 and constraint is None:  # CTC's best path alone
            none = {"passes": ()}  # through the decoder
            return [[Hypothesis(tuple(symbols), score, details=none)] for symbols, score in ctc_greedy(scores)]
        search = self.beam if options.beam_size > 1 and not options.sampling else self.greedy
        found = search(
            model, batch, memory, options=options, limit=limit, constraint=constraint, prefixes=Prefixes.empty(scores)
        )
        return self.auxiliaries.annotated(found, memory.states)
