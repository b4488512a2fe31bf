"""How a model came to its outputs, for a few examples of a split: attention, probabilities, n-best lists, passes."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import atomic_write_text, read_json, read_rows, to_json
from seq2seq_suite.common.types import BEGIN, SPECIALS, Hypothesis
from seq2seq_suite.inspection.decoder_view import DecoderView, read
from seq2seq_suite.inspection.decoding_trace import likeliest, trace
from seq2seq_suite.prediction.predictor import in_mode
from seq2seq_suite.runs.distributed import ALONE
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.tasks.base import Task

if TYPE_CHECKING:
    from seq2seq_suite.prediction.load_run import LoadedRun

NUM_HYPOTHESES, NUM_OTHERS = 5, 4
MOST_EXAMPLES, MOST_POSITIONS, MOST_BYTES = 12, 60, 500_000  # of a split's; bytes of attention in base64
_WRONG = 8  # of the examples


def inspect(loaded: LoadedRun, examples: Sequence[Example]) -> list[dict[str, Any]]:
    """How a model came to its outputs.

    Args:
        loaded: a run.
        examples: few.

    Returns:
        for each of them, as far as its model has it:
        `source`: names of the encoder's positions; `target`: of the decoder's.
        `output`: as text. `hypotheses`: [text, score] of up to five, best first, where the strategy searches.
        `pieces`: [symbol, p, [[other, p], ...]] of the output, with the four likeliest others; `places`: their numbers
        in `target`. `reference`: as text.
        `attention`: part -> `layers`, `heads`, `rows`, `columns` with the columns' names in `names` where these are
        not the source, and `values`, base64 of a byte for each weight: 255 is 1.
        `ctc`: what the encoder's own CTC head reads, as `frames` of `tracing.trace`.
        `trace`: see `tracing.trace`; with the `true` length beside the predicted one.
    """
    predictor = replace(loaded.predictor, ranks=ALONE)
    task, strategy, options = predictor.task, predictor.learner.strategy, predictor.options
    items = [replace(item, index=place) for place, item in enumerate(task.encode(examples))]
    found = []
    # Paths are found by derivatives, which inference mode forbids.
    with in_mode(predictor.learner, training=False), torch.no_grad():
        best = several = (
            [predictor.hypotheses([item], [one])[0] for item, one in zip(items, examples, strict=True)]
            if options.risk > 1  # samples depend on the batch, and the trace has one of each example
            else predictor.hypotheses(items, examples)
        )
        if "num_hypotheses" in strategy.uses and options.ctc_weight < 1.0 and options.risk < 2:
            several = replace(
                predictor,
                options=options.changed(
                    num_hypotheses=NUM_HYPOTHESES, beam_size=max(NUM_HYPOTHESES, options.beam_size)
                ),
            ).hypotheses(items)
        for example, item, first, others in zip(examples, items, best, several, strict=True):
            reading = read(predictor, item, first[0] if first else Hypothesis((), 0.0))
            source = task.source.names(example.source, reading.sources) if reading.sources else []
            said = partial(_text, task, example)
            target = task.target.names(reading.symbols)
            one: dict[str, Any] = {
                "source": source,
                "target": target,
                "output": said(task.read_hypothesis(first[0], example) if first else None),
                "hypotheses": [[said(task.read_hypothesis(other, example)), other.score] for other in others],
                "pieces": _pieces(task.target.names, reading),
                "places": [place for place, _, _ in reading.pieces],
                "attention": {
                    part: _packed(weights, part, source, target, ahead=not strategy.in_parallel)
                    for part, weights in reading.weights.items()
                },
            }
            if example.reference is not None and "continuations" not in strategy.writes:
                one["reference"] = said(example.reference)
            if reading.frames is not None:
                one["ctc"] = likeliest(getattr(task, "transcript", task.target).names, reading.frames)
            if "continuations" not in strategy.writes:
                one["trace"] = trace(loaded, example)
            if "predicted_length" in one.get("trace", {}) and len(item.target):
                one["trace"]["true"] = len(item.target) - 1
            found.append(one)
    return found


def inspect_split(run: RunDirectory, loaded: LoadedRun, name: str, examples: Sequence[Example]) -> None:
    """Write `inspection/NAME.json` for some of the examples that `predictions/NAME.shown.json` has.

    Attention is left out once there are `MOST_BYTES` of it. A part of a user's own that cannot be watched does not stop
    a run: the log says why there is no file.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            found = inspected(run, loaded, name, examples)
    except Exception as error:
        run.log(f"inspection of {name} failed: {type(error).__name__}: {error}")
        return
    folder = run.path / "inspection"
    folder.mkdir(exist_ok=True)
    atomic_write_text(folder / f"{name}.json", to_json(found))


def inspected(run: RunDirectory, loaded: LoadedRun, name: str, examples: Sequence[Example]) -> dict[str, Any]:
    """What `inspect_split` writes."""
    rows = [row or {} for _, row in read_rows(run.predictions / f"{name}.jsonl")]
    pool = [int(row) for row in read_json(run.predictions / f"{name}.shown.json")]
    step = getattr(loaded.task.shape().source, "subsampling", 1)  # frames become positions
    lengths = {
        row: -(-len(item.source) // step) or len(item.target)
        for row, item in zip(pool, loaded.task.encode([examples[row] for row in pool]), strict=True)
    }
    sign = 1.0 if loaded.task.higher_is_better else -1.0
    chosen = rows_to_inspect(
        lengths,
        {row: rows[row]["equal"] for row in pool},
        {row: sign * (next(iter(rows[row]["figures"].values()), None) or 0.0) for row in pool},
    )
    found, room = inspect(loaded, [examples[row] for row in chosen]), MOST_BYTES
    for row, one in zip(chosen, found, strict=True):
        one["row"] = row
        size = sum(len(part["values"]) for part in one["attention"].values())
        if size > room:
            one["attention"] = {}
        else:
            room -= size
    return {"examples": found}


def rows_to_inspect(lengths: Mapping[int, int], equal: Mapping[int, bool], figures: Mapping[int, float]) -> list[int]:
    """Some rows to show: the worst ones, others that are wrong, and right ones, the longest of each first.

    None is too long to read if that can be.

    Args:
        lengths, equal: of each row.
        figures: higher is better.

    >>> equal = {1: True, 2: False, 3: True, 4: False}
    >>> rows_to_inspect({1: 5, 2: 90, 3: 7, 4: 6}, equal, dict.fromkeys(range(1, 5), 0.0))
    [4, 3, 1]
    """
    readable = [row for row in lengths if lengths[row] <= MOST_POSITIONS]
    readable = readable or sorted(lengths, key=lengths.__getitem__)[:MOST_EXAMPLES]
    random.Random(0).shuffle(readable)
    wrong = [row for row in readable if not equal[row]]
    wrong = list(dict.fromkeys([*sorted(wrong, key=figures.__getitem__)[: _WRONG // 2], *wrong]))[:_WRONG]
    right = [row for row in readable if equal[row]][: MOST_EXAMPLES - len(wrong)]
    return [row for rows in (wrong, right) for row in sorted(rows, key=lambda row: -lengths[row])]


def _text(task: Task, example: Example, output: Any | None) -> str:
    """As pages show it, of a transcript the words that count."""
    return task.presentation.output_data(example, output).get("text", task.to_text(output))


def _pieces(names: Callable[[Sequence[int]], list[str]], reading: DecoderView) -> list[list[Any]]:
    """[symbol, p, [[other, p], ...]] of each symbol of the output."""
    found = []
    for _, symbol, scores in reading.pieces:
        shares = scores.exp()
        largest, others = shares.topk(min(NUM_OTHERS + 1, shares.numel()))
        rest = [
            (other, share)
            for other, share in zip(others.tolist(), largest.tolist(), strict=True)
            if other != symbol and share > 0.0
        ][:NUM_OTHERS]
        text, *texts = names([symbol, *(other for other, _ in rest)])
        found.append(
            [
                text,
                round(float(shares[symbol]), 5),
                [[other, round(share, 5)] for other, (_, share) in zip(texts, rest, strict=True)],
            ]
        )
    return found


def _packed(weights: Tensor, part: str, source: list[str], target: list[str], *, ahead: bool) -> dict[str, Any]:
    """Attention (layers,H,T,S) as bytes; with `ahead` the decoder reads BEGIN and all symbols but the last."""
    layers, heads, rows, columns = weights.shape
    read = [SPECIALS[BEGIN], *target[:-1]] if ahead else target
    return {
        "layers": layers,
        "heads": heads,
        "rows": rows,
        "columns": columns,
        "values": base64.b64encode((weights * 255.0).round().byte().cpu().numpy().tobytes()).decode("ascii"),
        **({"names": [*source, *read][-columns:]} if part == "decoder" else {}),
    }
