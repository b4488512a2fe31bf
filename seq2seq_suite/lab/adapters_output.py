"""Adapters of positions, outputs, search and speech; see `adapters`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.types import BEGIN, BLANK, END, NEVER, SPECIALS, Hypothesis
from seq2seq_suite.search.beam import starts
from seq2seq_suite.search.step import Stepper

Function = Callable[..., Any]
_GIVEN = 4  # positions that are not shifted from others


def rotate(rotate: Function, _: Function) -> Function:
    """`rotate(x, offset)`."""
    return lambda positions, x, offset=0: rotate(x, offset)


def shifted_positions(shift_matrix: Function, before: Function) -> Function:
    """`shift_matrix(width, distance)`: all positions but the first few are shifted from those before them."""

    def sinusoids(length: int, width: int) -> Tensor:
        table = before(min(length, _GIVEN), width)
        while len(table) < length:
            further = table @ shift_matrix(width, len(table)).to(table).T
            table = torch.cat((table, further))[:length]
        return table

    return sinusoids


def shift_right(shift: Function, _: Function) -> Function:
    """`shift_right(target, begin)`."""
    return lambda target: shift(target, BEGIN)


def mix_inputs(mix: Function, _: Function) -> Function:
    """`mix_inputs(previous, predicted, uniform, rate, begin)`."""

    @torch.no_grad()
    def mixed(strategy: Any, model: Any, batch: Any, memory: Any, previous: Tensor) -> Tensor:
        predicted = model.logits(strategy._hidden(model, batch, memory, previous), memory).argmax(-1)
        return mix(previous, predicted, torch.rand(previous.shape), strategy.options.scheduled_sampling, BEGIN)

    return mixed


def greedy(search: Function, before: Function) -> Function:
    """`greedy(step, state, begin, end, limit) -> (symbols, log-probability)`, a sentence at a time."""

    @torch.inference_mode()
    def found(
        model: Any,
        batch: Any,
        memory: Any,
        *,
        options: Any,
        limit: Tensor,
        constraint: Any = None,
        prefixes: Any = None,
    ) -> list[list[Hypothesis]]:
        if options.sampling:
            return before(model, batch, memory, options=options, limit=limit, constraint=constraint, prefixes=prefixes)
        stepper = Stepper(model, constraint, options)
        outputs = []
        for rows, previous, longest in starts(stepper, batch, memory, limit, prefixes):
            symbols, total = search(_step(stepper, longest), (rows, 0), int(previous), END, longest)
            score = options.normalise(float(total), len(symbols) + 1)
            outputs.append([Hypothesis(tuple(map(int, symbols)), score, len(symbols) + 1 < longest)])
        return outputs

    return found


def beam_search(search: Function, _: Function) -> Function:
    """`beam_search(step, select, state, begin, end, beam, limit, alpha) -> [(symbols, score)]`, one sentence each."""

    @torch.inference_mode()
    def found(
        model: Any,
        batch: Any,
        memory: Any,
        *,
        options: Any,
        limit: Tensor,
        constraint: Any = None,
        prefixes: Any = None,
    ) -> list[list[Hypothesis]]:
        stepper = Stepper(model, constraint, options)
        outputs = []
        for rows, previous, longest in starts(stepper, batch, memory, limit, prefixes):
            best = search(
                _step(stepper, longest),
                _select,
                (rows, 0),
                int(previous),
                END,
                options.beam_size,
                longest,
                options.length_penalty,
            )
            outputs.append(
                [
                    Hypothesis(tuple(map(int, symbols)), float(score), len(symbols) + 1 < longest)
                    for symbols, score in best[: options.num_hypotheses]
                ]
            )
        return outputs

    return found


def _step(stepper: Stepper, longest: int) -> Function:
    """A step of the model: (state, symbols (N,)) -> (log-probabilities (N,V), state); at the last only END is left."""

    def step(state: tuple[Any, int], last: Tensor) -> tuple[Tensor, tuple[Any, int]]:
        rows, steps = state
        if steps:
            rows = stepper.advance(rows, last)
        at_end = torch.full(last.shape, steps >= longest - 1)
        log_p, rows = stepper.log_probabilities(rows, last, at_end)
        return log_p, (rows, steps + 1)

    return step


def _select(state: tuple[Any, int], chosen: Any) -> tuple[Any, int]:
    return state[0].select(torch.as_tensor(chosen)), state[1]


def likeliest_lengths(likeliest: Function, _: Function) -> Function:
    """`likeliest_lengths(log_p, count) -> (lengths, log-probabilities)`, log_p (B,L) of the lengths from 0."""

    def found(head: Any, states: Any, count: int) -> tuple[Tensor, Tensor]:
        scores = head(states)
        expected = (states.mask.sum(1) * head.ratio).round().long().unsqueeze(1)
        lengths = torch.arange(head.num_lengths) - head.middle + expected
        table = scores.new_full((scores.size(0), int(lengths.max()) + 1), NEVER)
        return likeliest(table.scatter(1, lengths.clamp(min=0), scores), count)

    return found


def cut_at_end(cut: Function, _: Function) -> Function:
    """`cut_at_end(symbols, end)`."""
    return lambda symbols: tuple(cut(symbols, END))


def collapse(collapse: Function, _: Function) -> Function:
    """`collapse(path, blank)` of each path."""

    def collapsed(path: Tensor, gained: Tensor) -> list[tuple[list[int], float]]:
        return [
            (list(collapse(row, BLANK)), score)
            for row, score in zip(path.tolist(), gained.sum(1).tolist(), strict=True)
        ]

    return collapsed


def hide(hide: Function, _: Function) -> Function:
    """`hide(confidence, mask, iteration, iterations)`, True where a symbol is to be written again."""

    def predict_symbols(strategy: Any, model: Any, memory: Any, vectors: Tensor, mask: Tensor, options: Any) -> Tensor:
        known, symbols = torch.zeros_like(mask), torch.zeros_like(mask, dtype=torch.int64)
        scores = vectors.new_zeros(())
        for step in range(1, options.iterations + 1):
            hidden = strategy.run_decoder(model, memory, vectors, mask, symbols, known)
            scores = torch.where(known.unsqueeze(2), scores, strategy.output_log_probs(model, memory, hidden))
            gained, symbols = scores.max(-1)
            if step < options.iterations:  # in double: near 1, probabilities that differ would be one in float
                known = mask & ~hide(gained.double().exp(), mask, step, options.iterations)
        return scores

    return predict_symbols


def allowed_labels(allowed: Function, _: Function) -> Function:
    """`allowed_labels(used, end)`, used (N,V) of labels alone."""

    def of_state(automaton: Any, state: Any) -> Tensor:
        used = state.used.clone()
        used[:, : len(SPECIALS)] = False
        found = allowed(used, END).clone()
        found[:, [place for place in range(len(SPECIALS)) if place != END]] = False
        return found

    return of_state


# -- speech ---------------------------------------------------------------------------------------------------------


def log_mel(features: Function, _: Function) -> Function:
    """`log_mel(samples, filters)`."""

    def of_samples(part: Any, samples: Sequence[float]) -> np.ndarray:
        sound = torch.as_tensor(np.asarray(samples))
        sound = functional.pad(sound, (0, max(0, 257 - sound.numel())))  # what mirroring the ends needs
        with torch.inference_mode():
            return features(sound, part._transform.mel_scale.fb).numpy()

    return of_samples


def own_features(_: Function, before: Function) -> Function:
    """Features in a folder of this process: those that are kept for all runs were computed by the suite."""
    own = tempfile.mkdtemp(prefix="lab-features-")
    atexit.register(shutil.rmtree, own, ignore_errors=True)

    def begin(part: Any, bins: int, **options: Any) -> None:
        before(part, bins, **{**options, "folder": own})

    return begin


def spec_augment(augment: Function, _: Function) -> Function:
    """`spec_augment(x, lengths, starts, widths)`, the bars of time; those of frequency are the suite's."""

    def masked(part: Any, x: Tensor, lengths: Tensor) -> Tensor:
        rows, _, bins = x.shape
        widest = x.new_full((rows,), float(min(part.frequency_width, bins)))
        bands = part._bars(part.frequency_bars, bins, widest, x.new_full((rows,), float(bins)))
        widths = (torch.rand(rows, part.time_bars, 1) * ((lengths * part.time_share).view(-1, 1, 1) + 1.0)).floor()
        starts = torch.rand(rows, part.time_bars, 1) * (lengths.view(-1, 1, 1) - widths).clamp(min=0.0)
        x = augment(x, lengths, starts.floor().long().squeeze(2), widths.long().squeeze(2))
        return x.masked_fill(bands.unsqueeze(1), 0.0)

    return masked
