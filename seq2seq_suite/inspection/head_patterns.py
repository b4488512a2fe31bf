"""What heads of attention regularly look at, found by measuring: a neighbour, an end, the word being written.

Shape suffixes in this module: B sentences, H heads, T queries, S keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from seq2seq_suite.common.types import BEGIN, END, SPECIALS, Batch, Example
from seq2seq_suite.data.batching import collate
from seq2seq_suite.inspection.attention_recorder import DECODING, MOST_WEIGHTS, Attending, attentions
from seq2seq_suite.inspection.rescoring_pass import evaluating
from seq2seq_suite.model.variants.recurrent import RecurrentDecoder
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.strategies.autoregressive import shift_right

MEASURED, LEAST_SHARE = 100, 0.4  # examples, and the least share of a head's weight that is a habit
_TIMES_UNIFORM = 2.0  # and of what it would be if all weights were equal
_FEWEST_SEEN = 3  # keys; of fewer a share says nothing
_SURE, _TIMES = 0.6, 3  # two words belong together if they often occur together, in so many examples

Habit = tuple[str, Tensor]  # its name, and the key (B,T) that it looks at, -1 for none


def habits(predictor: Predictor, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """The heads that give one kind of position at least `LEAST_SHARE` of their weight, on average.

    An autoregressive decoder reads the references, a parallel one writes its own outputs.

    Args:
        predictor: of the run.
        examples: with references; at most `MEASURED` are read.

    Returns:
        for each such head its `part`, `layer` and `head` from 1, its commonest `habit` in words and the `share`.
    """
    heads = sum(module.num_heads for _, module in attentions(predictor.model))
    items = predictor.task.encode(examples[:MEASURED])
    longest = max((max(len(item.source), len(item.target)) for item in items), default=0)
    count = min(len(items), MOST_WEIGHTS // max(1, heads * longest**2))
    if not count or not heads:
        return []
    items = [replace(item, index=place) for place, item in enumerate(items[:count])]
    batch, seen = collate(items, predictor.task.name).to(predictor.device), Attending(predictor.model)
    parallel = predictor.learner.strategy.in_parallel
    with evaluating(predictor.learner), seen.watched():
        _work(predictor, seen, batch)
    mask = seen.passes[-1].mask if parallel else batch.target_mask
    rows = {"encoder": seen.states.mask, "decoder": mask, "cross": mask}
    weights = {"encoder": seen.seen[0]["encoder"], **{part: seen.seen[-1][part] for part in DECODING}}
    if isinstance(predictor.model.decoder, RecurrentDecoder):  # it attended for one symbol at a time
        weights["cross"] = [torch.cat(weights["cross"], 2)]
    found = []
    for part, layers in weights.items():
        if not layers or rows[part] is None or layers[0].size(-1) == 0:
            continue  # slots of objects have no order
        length = rows[part].size(1)
        behind = layers[0].size(3) - length if part == "decoder" else 0  # a decoder-only model's source
        looked = list(
            _cross(predictor, batch, examples[:count], seen.states.mask, length, parallel=parallel) if part == "cross"
            else _own(predictor, examples, rows[part], behind, part=part, parallel=parallel))
        visible = seen.states.mask.sum(1, keepdim=True) if part == "cross" else rows[part].sum(1, keepdim=True)
        if part == "decoder" and not parallel:
            visible = seen.states.mask.sum(1, keepdim=True) * (behind > 0) + torch.arange(
                1, length + 1, device=predictor.device)
        for (layer, weights), head in product(enumerate(layers, 1), range(layers[0].size(1))):
            shares = [(_share(weights[:, head], place, rows[part], visible), name) for name, place in looked]
            share, habit = max(shares, default=(0.0, ""))
            if share >= LEAST_SHARE:
                found.append({"part": part, "layer": layer, "head": head + 1, "habit": habit, "share": round(share, 3)})
    return found


def _work(predictor: Predictor, model: Attending, batch: Batch) -> None:
    """What the decoder does with a batch, once."""
    strategy = predictor.learner.strategy
    if strategy.in_parallel:
        options = predictor.options.changed(beam_size=1, num_hypotheses=1)
        strategy.generate(model, batch, options=options, limit=predictor.limits(batch),
                          constraint=predictor.constraint())
    else:
        strategy._hidden(model, batch, strategy.remember(model, batch), shift_right(batch.target))


def _share(weights_BTS: Tensor, place: Tensor, rows: Tensor, visible: Tensor) -> float:
    """Mean weight at a place (B,T), over queries `rows` (B,T) that have one; 0 if uniform weights had half as much."""
    asked = rows & (place >= 0) & (visible >= _FEWEST_SEEN)
    if not asked.any():
        return 0.0
    share = weights_BTS.gather(2, place.clamp(min=0).unsqueeze(2)).squeeze(2)[asked].mean()
    uniform = (1.0 / visible.clamp(min=1)).expand(asked.shape)[asked].mean()
    return float(share) if share >= _TIMES_UNIFORM * uniform else 0.0


def _own(predictor: Predictor, examples: Sequence[Example], rows: Tensor, behind: int, *, part: str, parallel: bool
         ) -> Iterator[Habit]:
    """Places in the same sequence; before what the decoder reads there may be a source of `behind` positions."""
    here = torch.arange(rows.size(1), device=rows.device).expand(rows.shape)
    last = rows.sum(1, keepdim=True) - 1
    unit, begin, end = predictor.task.source.unit, "first", "last"
    if part == "decoder":
        unit = "symbol"
    elif predictor.task.source.names(examples[0].source, rows.size(1))[:1] == [SPECIALS[BEGIN]]:
        begin, end = "beginning", "end"
    ahead = part == "decoder" and not parallel  # the query that writes a symbol is the symbol before
    names = {0: f"the last {unit} written", -1: f"the {unit} before the last"} if ahead else {
        -1: f"the previous {unit}", 0: f"the {unit} itself", 1: f"the next {unit}"}
    for offset, name in names.items():
        place = here + offset
        yield name, torch.where((place >= 0) & (place <= last), place + behind, -1)
    yield (f"the {begin} {unit}" if begin == "first" else f"the {begin}"), torch.where(here > 0, behind, -1)
    if not ahead:
        yield f"the {end} {unit}" if end == "last" else f"the {end}", torch.where(here < last, last, -1)


def _cross(predictor: Predictor, batch: Batch, examples: Sequence[Example], sources: Tensor, length: int, *,
           parallel: bool) -> Iterator[Habit]:
    """Places in the source."""
    task, unit = predictor.task, predictor.task.source.unit
    count = sources.size(1)
    names = [task.source.names(example.source, count) for example in examples]
    ends = names[0][:1] == [SPECIALS[BEGIN]]
    shape = (len(examples), length)
    lasts = sources.sum(1, keepdim=True) - 1
    yield "the beginning" if ends else f"the first {unit}", torch.zeros(shape, dtype=torch.int64, device=sources.device)
    yield "the end" if ends or names[0][-1:] == [SPECIALS[END]] else f"the last {unit}", lasts.expand(shape)
    if parallel:
        return
    focus = batch.auxiliary.get("focus")
    if focus is not None:
        known = getattr(task.constraint(), "focus_names", ())
        yield from ((name, focus[..., number]) for number, name in enumerate(known))
    elif unit in ("word", "piece"):
        targets = [task.target.names(row[real].tolist())
                   for row, real in zip(batch.target, batch.target_mask, strict=True)]
        place = torch.full(shape, -1)
        for row, found in enumerate(aligned(names, targets)):
            place[row, : len(found)] = torch.tensor(found)
        yield f"the {unit} being written", place.to(sources.device)


def aligned(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[list[int]]:
    """For each target symbol the place of the source's that it belongs to, -1 if that is not plain.

    That is an equal one, or else the one with which it occurs most, by Dice's coefficient; what is in more than half of
    the sentences belongs to nothing.

    Source: Melamed 2000, section 2, for Dice's coefficient of co-occurrence.

    >>> aligned([["a", "dog"], ["the", "dog"], ["dog", "."], ["cat"], ["cat", "."], ["red"], ["a"]],
    ...         [["ein", "Hund"], ["der", "Hund"], ["Hund", "."], ["Katze"], ["Katze", "."], ["rot"], ["ein"]])[1:3]
    [[-1, 1], [0, 1]]
    """
    of_source = Counter(word for words in sources for word in set(words))
    of_target = Counter(word for words in targets for word in set(words))
    both = Counter(pair for source, target in zip(sources, targets, strict=True)
                   for pair in product(set(source), set(target)))
    most = len(sources) / 2
    found = []
    for source, target in zip(sources, targets, strict=True):
        row = []
        for symbol in target:
            dice = [2.0 if word == symbol else (both[word, symbol] >= _TIMES) * 2.0 * both[word, symbol]
                    / (of_source[word] + of_target[symbol]) for word in source]
            best = max(range(len(source)), key=dice.__getitem__, default=-1)
            plain = best >= 0 and dice[best] >= _SURE and source.count(source[best]) == 1
            row.append(best if plain and of_target[symbol] <= most else -1)
        found.append(row)
    return found
