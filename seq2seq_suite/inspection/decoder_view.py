"""Outputs as their decoder saw them: symbols, log-probabilities and attention at each of its positions.

Shape suffixes in this module: T decoder positions, S encoder positions, V symbols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.common.shapes import GROUP
from seq2seq_suite.common.types import BLANK, END, Batch, Hypothesis
from seq2seq_suite.data.batching import collate
from seq2seq_suite.inspection.attention_recorder import MOST_WEIGHTS, AttentionRecorder, attentions
from seq2seq_suite.inspection.decoding_trace import rewritten, with_target
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.search.ctc_prefix_scores import Prefixes
from seq2seq_suite.search.step import Stepper
from seq2seq_suite.strategies.autoregressive import Autoregressive, shift_right
from seq2seq_suite.strategies.parallel.base import Parallel

Piece = tuple[int, int, Tensor]


@dataclass(frozen=True)
class DecoderView:
    """One output as the decoder sees it.

    Args:
        symbols: at the decoder's T positions.
        sources: S.
        weights: part -> (layers,H,T,S) attention; in the decoder of a decoder-only model S + T for the last.
        pieces: of each symbol of the output its position, itself and (V,) log-probabilities of what may stand there;
            none where the strategy has none of its own.
        frames: (S,V) log-probabilities of the encoder's own CTC head; None where it has none.
    """

    symbols: tuple[int, ...]
    sources: int
    weights: Mapping[str, Tensor]
    pieces: tuple[Piece, ...] = ()
    frames: Tensor | None = None


def read(predictor: Predictor, item: Encoded, best: Hypothesis) -> DecoderView:
    """How the decoder, in evaluation mode, sees an item's best hypothesis; without weights if there are too many."""
    strategy, options, model = predictor.learner.strategy, predictor.options, AttentionRecorder(predictor.model)
    batch = collate([item], predictor.task.name).to(predictor.device)
    output: Sequence[int] = ()
    pieces: Sequence[Piece] = ()
    heads = sum(module.num_heads for _, module in attentions(predictor.model))
    longest = max(len(item.source), len(item.target), len(best.symbols))
    with model.watched() if heads * longest**2 <= MOST_WEIGHTS else nullcontext():
        if strategy.in_parallel or "objects" in strategy.writes:
            strategy.generate(
                model.as_model, batch, options=options, limit=predictor.limits(batch), constraint=predictor.constraint()
            )
        elif options.ctc_weight == 1.0:  # the decoder is not used
            strategy.encode_source(model.as_model, batch)
        elif isinstance(strategy, Autoregressive) and "continuations" in strategy.writes and not batch.given.all():
            output, pieces = _read_text(strategy, model.as_model, batch)
        else:
            output, pieces = _read_steps(predictor, model.as_model, batch, best)
    row, length = 0, None
    if isinstance(strategy, Parallel) and (real := model.passes[-1].mask) is not None:
        row, length, output, pieces = _read_parallel(strategy, model, real, batch, best)
    elif "objects" in strategy.writes:  # of each slot the class
        output = best.symbols[GROUP - 1 :: GROUP] if strategy.in_parallel else best.symbols
    sources, heads = int(model.states.mask.sum()), strategy.auxiliaries
    frames = heads["ctc"].head(model.states)[0, :sources] if "ctc" in heads else None
    return DecoderView(
        tuple(output),
        sources,
        model.of_sentence(last=strategy.in_parallel, row=row, length=length),
        tuple(pieces),
        frames,
    )


def _read_text(strategy: Autoregressive, model: Seq2Seq, batch: Batch) -> tuple[Sequence[int], Sequence[Piece]]:
    """A text that a language model has judged, in one pass."""
    memory = strategy.encode_source(model, batch)
    scores = model.logits(strategy._hidden(model, batch, memory, shift_right(batch.target)), memory)[0]
    symbols = batch.target[0].tolist()
    return symbols, [
        (place, symbol, one)
        for place, (symbol, one, given) in enumerate(
            zip(symbols, scores.float().log_softmax(-1), batch.given[0].tolist(), strict=True)
        )
        if not given
    ]


def _read_steps(
    predictor: Predictor, model: Seq2Seq, batch: Batch, best: Hypothesis
) -> tuple[Sequence[int], Sequence[Piece]]:
    """What the search wrote, step by step as it went, a prompt before it."""
    strategy, options = predictor.learner.strategy, predictor.options
    memory = strategy.encode_source(model, batch)
    prefixes = Prefixes.empty(strategy.auxiliaries["ctc"].head(memory.states)) if options.ctc_weight else None
    stepper = Stepper(model, predictor.constraint(), options)
    rows, previous = stepper.start(batch, memory, predictor.limits(batch), prefixes)
    given, pieces = batch.target[0, batch.given[0]].tolist(), []
    symbols = [*given, *best.symbols, END]
    for place, symbol in list(enumerate(symbols))[len(given) :]:
        cut = previous.new_full((1,), place == len(symbols) - 1 and not best.complete, dtype=torch.bool)
        scores, rows = stepper.log_probabilities(rows, previous, cut)
        pieces.append((place, symbol, scores[0]))
        previous = torch.full_like(previous, symbol)
        rows = stepper.advance(rows, previous) if symbol != END else rows
    return symbols, pieces


def _read_parallel(
    strategy: Parallel, model: AttentionRecorder, mask: Tensor, batch: Batch, best: Hypothesis
) -> tuple[int, int, Sequence[int], Sequence[Piece]]:
    """Of several lengths that were tried, with real positions `mask`, the row of the one that won, its positions,
    symbols and pieces.

    CTC and graphs have the output on its likeliest path.
    """
    last, lengths = model.passes[-1], mask.sum(1).tolist()
    row = lengths.index(len(best.symbols)) if len(best.symbols) in lengths else 0
    length = lengths[row]
    scores, _ = rewritten(strategy, model.model, model.passes, row)[-1]
    own = slice(row, row + 1)
    path, _ = strategy.alignment(
        model.model, last.memory, with_target(batch, best, length), last.hidden[own, :length], mask[own, :length]
    )
    places = list(enumerate(path[0].tolist()))
    symbols = [
        symbol if symbol >= 0 else likeliest
        for (_, symbol), likeliest in zip(places, scores.argmax(1).tolist(), strict=True)
    ]
    output = [(place, symbol) for place, symbol in places if symbol >= 0]
    if strategy.positions_are == "frames":  # of each run of one symbol the most probable place
        runs = [(symbol, list(run)) for symbol, run in groupby(output, key=lambda one: one[1]) if symbol != BLANK]
        output = [max(run, key=lambda one: float(scores[one[0], one[1]])) for _, run in runs]
    return row, length, symbols, [(place, symbol, scores[place]) for place, symbol in output]
