"""How one output came about, step by step, with the time of each step: for a page that replays it.

Shape suffixes in this module: B = 1 sentence, N rows of the decoder, C decoder positions, V symbols.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.types import END, NEVER, PAD, Batch, Hypothesis
from seq2seq_suite.data.batching import in_sorted_batches
from seq2seq_suite.metrics.names import metric_name
from seq2seq_suite.runs.distributed import ALONE
from seq2seq_suite.strategies.parallel.base import Parallel

if TYPE_CHECKING:
    from seq2seq_suite.model.seq2seq import Seq2Seq
    from seq2seq_suite.prediction.load_run import LoadedRun
    from seq2seq_suite.prediction.predictor import Predictor

_DIGITS = 3  # of milliseconds


@dataclass
class Pass:
    """One pass through the decoder: when it began, what it read, its hidden states (N,C,D) and real positions (N,C)."""

    began: float
    memory: Any
    hidden: Tensor
    mask: Tensor | None


@dataclass
class Watched:
    """Stands for a model and notes each pass through its decoder; everything else is the model's own."""

    model: Seq2Seq
    passes: list[Pass] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    @property
    def as_model(self) -> Seq2Seq:
        """Itself, which has all that is asked of a model."""
        return cast("Seq2Seq", self)  # by `__getattr__`, whose names no checker knows

    def decode(self, x: Tensor, visible: Tensor | None, memory: Any, cache: Any = None) -> tuple[Tensor, Any]:
        """The model's."""
        began = time.perf_counter()
        hidden, after = self.model.decode(x, visible, memory, cache)
        real = visible.any(1) if visible is not None and cache is None else None
        self.passes.append(Pass(began, memory, hidden, real))
        return hidden, after


@torch.no_grad()  # the path through a graph is found by derivatives, which inference mode forbids
def trace(loaded: LoadedRun, example: Example) -> dict[str, Any]:
    """Decode an example, and record how.

    Returns:
        `kind` of the strategy and `milliseconds`, the whole time with the encoder's. If the strategy has them:
        `passes`, each with `milliseconds` from the beginning to its end, `symbols` and `written`, which of them are new
        (left to right a pass has the one new symbol; of blocks `symbols` are the output's each time); `frames` of CTC,
        [symbol, p] of the likeliest path that collapses to the output, the blank an empty symbol; `graph` with
        `vertices`, [symbol, p], and the numbers of those on the `path`; `predicted_length`, chosen first. With
        `search.risk` in place of all these `candidates`, see `of_risk`.
    """
    predictor, task = loaded.predictor, loaded.task
    if predictor.options.risk > 1:
        return of_risk(predictor, example)
    learner, strategy = predictor.learner, predictor.learner.strategy
    batch = next(iter(in_sorted_batches(task.encode([example]), task.name, 1))).to(predictor.device)
    model = Watched(learner.model)
    alone = replace(predictor, drafter=None, options=predictor.options.changed(drafter=""))  # symbol by symbol
    began = time.perf_counter()
    found = alone.generate(batch, predictor.constraint(), partial(strategy.generate, model.as_model))[0]
    ended = time.perf_counter()

    def since(moment: float) -> float:
        return round(1000 * (moment - began), _DIGITS)

    result = {"kind": strategy.options.kind, "milliseconds": since(ended)}
    if not found or not model.passes:
        return result
    best, times = found[0], [since(one.began) for one in model.passes[1:]] + [result["milliseconds"]]
    names = task.target.names
    if "passes" in best.details:  # of blocks
        times, symbols = times[-max(best.details["passes"]) :], names([*best.symbols, END])
        return {
            **result,
            "passes": [
                {"milliseconds": at, "symbols": symbols, "written": [one == number for one in best.details["passes"]]}
                for number, at in enumerate(times, 1)
            ],
        }
    if not strategy.in_parallel:
        times = times[bool(batch.given.all()) and batch.given.numel() > 0 :]  # a prompt is read in a pass of its own
        symbols = names([*best.symbols, END])
        return {
            **result,
            "passes": [
                {"milliseconds": at, "symbols": [symbol], "written": [True]}
                for symbol, at in zip(symbols, times, strict=False)
            ],
        }
    last = model.passes[-1]
    if last.mask is None or not isinstance(strategy, Parallel):
        return result
    if strategy.positions_are != "symbols":
        scores, _ = rewritten(strategy, learner.model, model.passes, 0)[-1]
        aligned, _ = strategy.alignment(learner.model, last.memory, with_target(batch, best), last.hidden, last.mask)
        if strategy.positions_are == "frames":
            on_path = functional.one_hot(aligned[0].clamp(min=PAD), scores.size(1)).bool()
            return {**result, "frames": likeliest(names, scores.masked_fill(~on_path, NEVER))}
        path = (aligned[0] >= 0).nonzero().flatten().tolist()
        return {**result, "graph": {"vertices": likeliest(names, scores), "path": path}}
    lengths = last.mask.sum(1).tolist()
    row = lengths.index(len(best.symbols)) if len(best.symbols) in lengths else 0
    passes = [
        (scores.argmax(-1).tolist(), new.tolist())
        for scores, new in rewritten(strategy, learner.model, model.passes, row)
    ]
    if len(passes) == 1:  # after a constraint, or cut at the first END
        passes = [(list(best.symbols), [True] * len(best.symbols))]
    result["passes"] = [
        {"milliseconds": at, "symbols": names(symbols), "written": new}
        for (symbols, new), at in zip(passes, times, strict=True)
    ]
    return {**result, "predicted_length": lengths[row]} if strategy.predicts_length else result


def of_risk(predictor: Predictor, example: Example) -> dict[str, Any]:
    """The candidates of `search.risk`, as `predict` has them for that example alone.

    Returns:
        `kind` of the strategy and `milliseconds`; `candidates`, each different one once, the chosen first: [text, mean
        utility, how often it was found], the text None where it is malformed; `metric`, which the utility is;
        `sampled`.
    """
    task, options = predictor.task, predictor.options
    several = replace(predictor, options=options.changed(num_hypotheses=options.risk), ranks=ALONE)
    began = time.perf_counter()
    (found,) = several.hypotheses(task.encode([example]), [example])
    ended = time.perf_counter()
    read = [task.read_hypothesis(one, example) for one in found]
    texts = [None if one is None else task.to_text(one) for one in read]
    counts = Counter(texts)
    utilities = dict(zip(texts, (one.score for one in found), strict=True))
    return {
        "kind": predictor.learner.strategy.options.kind,
        "milliseconds": round(1000 * (ended - began), _DIGITS),
        "candidates": [[text, round(utility, _DIGITS), counts[text]] for text, utility in utilities.items()],
        "metric": ("" if task.higher_is_better else "100 minus ") + metric_name(task.primary_metric).rstrip(" ↑↓"),
        "sampled": options.samples,
    }


def likeliest(names: Callable[[Sequence[int]], list[str]], scores: Tensor) -> list[list[Any]]:
    """[symbol, p] of the likeliest symbol at each position of (C,V) log-probabilities; the blank is an empty one."""
    gained, symbols = (one.tolist() for one in scores.max(-1))
    return [
        ["" if symbol == PAD else names([symbol])[0], round(math.exp(gain), 5)]
        for symbol, gain in zip(symbols, gained, strict=True)
    ]


def rewritten(strategy: Parallel, model: Any, passes: list[Pass], row: int) -> list[tuple[Tensor, Tensor]]:
    """(C,V) scores after each pass and (C,) which positions it wrote, as `MaskPredict.predict_symbols` chooses them."""
    real = [one.mask[row] for one in passes if one.mask is not None]
    found, known, scores = [], torch.zeros(int(real[0].sum()), dtype=torch.bool), None
    for number, (one, own) in enumerate(zip(passes, real, strict=True), 1):
        new = strategy.output_log_probs(model, one.memory, one.hidden)[row, own]
        known = known.to(new.device)
        scores = new if scores is None else torch.where(known.unsqueeze(1), scores, new)
        found.append((scores, ~known))
        known = scores.amax(-1).argsort().argsort() >= len(scores) * (len(passes) - number) // len(passes)
    return found


def with_target(batch: Batch, best: Hypothesis, length: int = 0) -> Batch:
    """The batch with an output as its target, padded to `length`."""
    symbols = [*best.symbols, END]
    target = batch.target.new_tensor([[*symbols, *[PAD] * (length - len(symbols))]])
    return replace(
        batch,
        target=target,
        target_mask=torch.arange(target.size(1), device=target.device)[None] < len(symbols),
        given=torch.zeros_like(target, dtype=torch.bool),
    )
