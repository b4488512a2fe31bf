"""Examines a run before it starts: data, vocabularies, model and memory, with warnings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from seq2seq_suite.common.examples import Encoded, Example
from seq2seq_suite.common.text import has_unspaced, split_blanks
from seq2seq_suite.common.types import BEGIN, END, SPECIALS, UNKNOWN, Batch, Constraint
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import Bucketed, collate, lengths
from seq2seq_suite.experiments.prepare import adapt_and_freeze, encode, epoch_encoder, fit, read_splits, with_own_splits
from seq2seq_suite.experiments.room import refuse_all, without_room
from seq2seq_suite.options.training import Training
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.prediction.predictor import Predictor, in_mode
from seq2seq_suite.tasks import trivial
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.terminal.progress import preparing
from seq2seq_suite.terminal.tables import figure
from seq2seq_suite.training.trainer import peak_memory

_ROWS = 1024  # gold outputs that the automaton reads at a time
_SHOWN = 3  # origins named in a finding
_MEASURED = 4e10  # weights times target symbols of the forward pass that measures memory: seconds on one core
_MANY_UNKNOWN = 0.1
_SAMPLE_SYMBOLS = 60

Rows = list[tuple[str, str]]


def examine(config: Config) -> Rows:
    """Examine configuration and data as a run would, without training.

    Returns:
        (what, finding) rows: sizes, lengths, unknown symbols, a sample and an estimate of memory; warnings come last.
    """
    with trusting(config.code.values()):
        if config.task != "multitask":
            return _examine(with_own_splits(config))
        parts = {name: _learning_all(part) for name, part in config.tasks.items()}
        return [(f"{name}: {what}", found) for name, part in parts.items() for what, found in examine(part)]


def _learning_all(config: Config) -> Config:
    """The same without `training.freeze`, which may name parts of a joint run's other tasks."""
    return config.model_copy(update={"training": config.training.model_copy(update={"freeze": ()})})


def _examine(config: Config) -> Rows:
    task = open_task(config.task, config)
    read = read_splits(config, task)
    train = read["train"]
    with preparing("building vocabularies and encoding the examples"):
        fit(task, train)
        encoded = {split: encode(config.backbone, task, examples) for split, examples in read.items()}
    splits = {split: list(examples) for split, examples in read.items()}
    whole, (sources, targets) = encoded["train"], lengths(encoded["train"])
    predictor = build_predictor(config, task, device=torch.device("cpu"))
    said = adapt_and_freeze(config, predictor.learner)
    order = Bucketed(whole, task.name, batch_tokens=config.training.batch_tokens, seed=config.seed).epoch(0)
    rows_of_largest = max(order, key=lambda rows: len(rows) * targets[rows].max())
    largest = [whole[row] for row in rows_of_largest]
    if not isinstance(train, list):  # those that vocabularies come from are examined
        encoded["train"] = task.encode(splits["train"])
    elif (draw := epoch_encoder(config.backbone, task, [train[row] for row in rows_of_largest])) is not None:
        largest = draw(0)
    rows = [("your code", f"{code} is run for {key}") for key, code in config.code.items()]
    warnings = [said] if said else []
    for split, items in encoded.items():
        rows.append((split, _describe_lengths(items)))
        if figures := predictor.task.figures(splits[split]):
            rows.append((f"{split} {predictor.task.item}s", figures))
        if split != "train" and (known := trivial.limits(predictor.task, splits["train"], splits[split])):
            rows.append(
                (
                    f"{split} without learning, {predictor.task.primary_metric}",
                    ", ".join(f"{name} {figure(value)}" for name, value in known.items()),
                )
            )
    rows += _unknown(encoded, warnings)
    rows += _overlap(splits, warnings)
    rows += _unspaced(splits, predictor.task)
    if predictor.model.frontend is not None:  # a language model's texts have no limit
        rows += _gold_outputs(splits, encoded, predictor, warnings)
    rows += _plan(config.training, order, sources, targets, warnings)
    rows += _limits(encoded, predictor)
    rows += _costs(config.training, largest, predictor)
    rows += _sample(splits["train"][0], encoded["train"][0], predictor)
    warnings += [f"{split}: {text}" for split, items in splits.items() for text in predictor.task.inspect(split, items)]
    return rows + [("warning", text) for text in warnings]


def _describe_lengths(items: Sequence[Encoded]) -> str:
    sources, targets = (
        _quantiles([len(array) for array in arrays])
        for arrays in ([item.source for item in items], [item.target for item in items])
    )
    return (
        f"{len(items):,} examples; source length median {sources[0]}, 95 % up to {sources[1]}, longest "
        f"{sources[2]}; target {targets[0]}, {targets[1]}, {targets[2]}"
    )


def _quantiles(lengths: Sequence[int]) -> tuple[int, int, int]:
    """Median, 95th percentile and maximum.

    >>> _quantiles(range(1, 101))
    (50, 95, 100)
    """
    median, most, longest = (int(np.quantile(lengths, share, method="inverted_cdf")) for share in (0.5, 0.95, 1.0))
    return median, most, longest


def _unknown(encoded: Mapping[str, Sequence[Encoded]], warnings: list[str]) -> Rows:
    """Shares of symbols that are not in the vocabularies, which are built from the training split."""
    rows = []
    for what, of in (("source", _source_ids), ("target", lambda item: item.target[item.target != END])):
        rates = {split: _unknown_rate(items, of) for split, items in encoded.items()}
        known = {split: rate for split, rate in rates.items() if rate is not None}
        if known:
            rows.append(
                (f"unknown {what} symbols", ", ".join(f"{split} {100 * rate:.2f} %" for split, rate in known.items()))
            )
        for split, rate in known.items():
            if what == "target" and rate > 0:
                warnings.append(f"{split} has target symbols that are not in train: they can never be predicted")
            elif rate > _MANY_UNKNOWN:
                warnings.append(
                    f"{100 * rate:.0f} % of the source symbols of {split} are unknown: more training data, "
                    "a smaller min_count or smaller pieces would help"
                )
    return rows


def _source_ids(item: Encoded) -> np.ndarray | None:
    """(S,) ids without the sentinels at the ends; None for other sources."""
    if not np.issubdtype(item.source.dtype, np.integer):
        return None
    ids = item.source[:, 0] if item.source.ndim > 1 else item.source
    return ids[(ids != BEGIN) & (ids != END)]


def _unknown_rate(items: Sequence[Encoded], of: Callable[[Encoded], np.ndarray | None]) -> float | None:
    symbols = [ids for ids in map(of, items) if ids is not None]
    total = sum(len(ids) for ids in symbols)
    return sum(int((ids == UNKNOWN).sum()) for ids in symbols) / total if total else None


def _unspaced(splits: dict[str, list[Example]], task: Task) -> Rows:
    """How many texts use a script without spaces between words."""
    if task.tokenised or task.source.of_file:
        return []
    found = {
        split: sum(has_unspaced(f"{task.source.to_text(one.source)} {task.to_text(one.reference)}") for one in examples)
        for split, examples in splits.items()
    }
    counts = ", ".join(f"{split} {_share(count, len(splits[split]))}" for split, count in found.items() if count)
    return [("scripts without blanks", f"{counts}: each sign counts as a word")] if counts else []


def _overlap(splits: dict[str, list[Example]], warnings: list[str]) -> Rows:
    """Sources that occur twice in train, and sources of other splits that occur in train."""
    keys = {split: [_key(example.source) for example in examples] for split, examples in splits.items()}
    train = set(keys["train"])
    repeated = len(keys["train"]) - len(train)
    rows = [("repeated in train", f"{_share(repeated, len(keys['train']))} sources occurred before")]
    for split in [name for name in splits if name != "train"]:
        found = [place for place, key in enumerate(keys[split]) if key in train]
        rows.append(
            (
                f"{split} also in train",
                f"{_share(len(found), len(keys[split]))} sources" + _named([splits[split][place] for place in found]),
            )
        )
        if found:
            whole = len(found) == len(keys[split])
            warnings.append(
                f"{split} shares sources with train ({len(found)}): its metrics will be too good"
                + "; data.split cuts splits off one file, e.g. {validation: 0.1, test: 0.1}" * whole
            )
    return rows


def _key(source: object) -> Hashable:
    return (
        source.tobytes() if isinstance(source, np.ndarray) else source if isinstance(source, Hashable) else repr(source)
    )


def _positions(
    splits: dict[str, list[Example]],
    encoded: Mapping[str, Sequence[Encoded]],
    predictor: Predictor,
    found: dict[str, tuple[list[int], list[int]]],
    warnings: list[str],
) -> Rows:
    """Targets that need more positions than a parallel decoder has; removed from those beyond the search's limit."""
    options = predictor.learner.strategy.options
    if options.room(torch.ones(1, dtype=torch.int64)) is None:
        return []
    crowded = {}
    for split, items in encoded.items():
        crowded[split], why = without_room(options, predictor.options, predictor.task, items)
        if len(places := crowded[split]):
            refuse_all(options, split, len(places) == len(items), why, splits[split][places[0]].origin)
            too_long, forbidden = found[split]
            found[split] = sorted(set(too_long) - set(places.tolist())), forbidden
            warnings.append(f"targets of {split} are {why}")
    return [("targets longer than the positions", _by_split(splits, crowded))]


def _by_split(splits: dict[str, list[Example]], found: Mapping[str, Sequence[int]]) -> str:
    """How many examples of each split were found, and the first few."""
    return (
        "; ".join(
            f"{split} {_share(len(places), len(splits[split]))}{_named([splits[split][at] for at in places])}"
            for split, places in found.items()
            if len(places)
        )
        or "none"
    )


def _gold_outputs(
    splits: dict[str, list[Example]],
    encoded: Mapping[str, Sequence[Encoded]],
    predictor: Predictor,
    warnings: list[str],
) -> Rows:
    """Targets that no search can produce: too long, or rejected by the automaton."""
    constraint = predictor.task.constraint() if predictor.options.constraint else None
    kinds = {"longer than the limit": "raise search.max_length_factor or max_length_extra"}
    if constraint is not None:
        kinds["against the constraint"] = "raise the task's limits, or set search.constraint=false"
    found = {split: _impossible(items, predictor, constraint) for split, items in encoded.items()}
    rows = _positions(splits, encoded, predictor, found, warnings)
    for number, (kind, remedy) in enumerate(kinds.items()):
        places = {split: found[split][number] for split in splits}
        rows.append((f"targets {kind}", _by_split(splits, places)))
        warnings += [
            f"targets of {split} are {kind}, so no search can produce them: {remedy}"
            for split in splits
            if places[split]
        ]
    return rows


def _impossible(
    items: Sequence[Encoded], predictor: Predictor, constraint: Constraint | None
) -> tuple[list[int], list[int]]:
    """Places of the examples whose gold output is too long, and of those whose gold output is not allowed."""
    too_long, forbidden = [], []
    order = sorted(
        (place for place, item in enumerate(items) if len(item.target)), key=lambda place: len(items[place].target)
    )
    for first in range(0, len(order), _ROWS):
        places = order[first : first + _ROWS]
        batch = collate([items[place] for place in places], predictor.task.name)
        lengths, limits = batch.target_mask.sum(1), predictor.limits(batch)
        too_long += [places[row] for row in (lengths > limits).nonzero().flatten().tolist()]
        if constraint is not None:
            allowed = _follows(constraint, batch, torch.maximum(lengths, limits))
            forbidden += [places[row] for row in (~allowed).nonzero().flatten().tolist()]
    return sorted(too_long), sorted(forbidden)


def _follows(constraint: Constraint, batch: Batch, limits: Tensor) -> Tensor:
    """(B,) bool: whether the automaton allows every symbol of a row's target."""
    state = constraint.start(batch, limits)
    fine = torch.ones(len(batch.target), dtype=torch.bool)
    for column in range(batch.target.size(1)):
        symbols = batch.target[:, column]
        allowed = constraint.allowed(state).gather(1, symbols.unsqueeze(1)).squeeze(1)
        fine &= allowed | ~batch.target_mask[:, column]
        state = constraint.advance(state, symbols)
    return fine


def _plan(
    training: Training, order: Sequence[np.ndarray], sources: np.ndarray, targets: np.ndarray, warnings: list[str]
) -> Rows:
    """Batches and epochs of the training data, of these lengths."""
    padded = sum(len(rows) * int(targets[rows].max()) for rows in order)
    epochs = training.max_updates * training.accumulate / len(order)
    minutes = f", or {training.max_minutes:g} minutes" if training.max_minutes < float("inf") else ""
    widest = max(int(targets.max()), int(sources.max()))
    if widest > training.batch_tokens:
        warnings.append(
            f"the longest example has {widest} symbols, training.batch_tokens is {training.batch_tokens}: "
            "it makes a batch larger than that"
        )
    if epochs < 1 and not minutes:
        warnings.append(f"training.max_updates={training.max_updates} ends before every example was seen once")
    warnings += training.warnings()
    if training.validate_every > training.max_updates:
        warnings.append("training.validate_every exceeds max_updates: the run validates only at the end")
    return [
        (
            "batches an epoch",
            f"{len(order):,} of at most {training.batch_tokens:,} padded target symbols, "
            f"{100 * (1 - targets.sum() / padded):.1f} % of them padding",
        ),
        (
            "planned",
            f"{training.max_updates:,} updates of {training.accumulate} "
            f"{'batch' if training.accumulate == 1 else 'batches'}, {epochs:,.1f} epochs{minutes}",
        ),
    ]


def _limits(encoded: Mapping[str, Sequence[Encoded]], predictor: Predictor) -> Rows:
    """The search's length limit for the longest source."""
    longest = max((item for items in encoded.values() for item in items), key=lambda item: len(item.source))
    limit = int(predictor.limits(collate([longest], predictor.task.name))[0])
    factor, extra = predictor.options.max_length_factor, predictor.options.max_length_extra
    return [("search limit", f"{factor:g} * source length + {extra} symbols, at most {limit} here")]


def _costs(options: Training, largest: Sequence[Encoded], predictor: Predictor) -> Rows:
    """Parameters, and the memory of a training step."""
    groups = {"front-end": 0, "encoder": 0, "decoder": 0, "output and its embedding": 0, "heads": 0}
    names = {
        "frontend": "front-end",
        "encoder": "encoder",
        "embedding": "output and its embedding",
        "output": "output and its embedding",
    }
    embedding, heads = (set(part.parameters()) for part in (predictor.model.embedding, predictor.learner.strategy))
    for name, parameter in predictor.learner.named_parameters():
        # A shared embedding is listed under its name in the front-end first.
        part = "embedding" if parameter in embedding else name.split(".")[1]
        groups["heads" if parameter in heads else names.get(part, "decoder")] += parameter.numel()
    total = sum(groups.values())
    shares = ", ".join(
        f"{group} {100 * size / total:.0f} %" for group, size in groups.items() if size or group != "heads"
    )
    weights, learning = (
        sum(one.numel() * one.element_size() for one in predictor.learner.parameters() if one.requires_grad or frozen)
        for frozen in (True, False)
    )
    parts = {
        "weights": weights,
        "gradients": learning,
        "optimiser": 2 * learning,
        "average": learning if options.ema_decay else 0,
        "activations": _activations(largest, predictor, total),
    }
    listed = ", ".join(f"{name} {_megabytes(size)}" for name, size in parts.items() if size)
    return [
        ("parameters", f"{total:,}: {shares}"),
        (
            "memory of a step",
            f"about {_megabytes(sum(parts.values()))} in float32 ({listed}), plus "
            f"{_megabytes(peak_memory(torch.device('cpu')))} for Python, PyTorch and these data",
        ),
        ("largest batch", f"{len(largest)} examples, {_width(largest)} target symbols wide"),
    ]


def _width(items: Sequence[Encoded]) -> int:
    return max(len(item.target) for item in items)


def _activations(largest: Sequence[Encoded], predictor: Predictor, parameters: int) -> int:
    """Bytes that a forward pass over the largest batch keeps for the backward pass.

    For a large model, a part of the batch is measured and scaled up.
    """
    rows = min(len(largest), max(1, int(_MEASURED / (parameters * _width(largest)))))
    part = collate(largest[:rows], predictor.task.name)
    weights = {parameter.untyped_storage().data_ptr() for parameter in predictor.learner.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with in_mode(predictor.learner, training=True), torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
        loss = predictor.learner(part)
    del loss  # it kept all storage alive, so that none was reused and counted twice
    return sum(kept.values()) * len(largest) // rows


def _sample(example: Example, item: Encoded, predictor: Predictor) -> Rows:
    """An example before and after encoding."""
    words, ids = split_blanks(predictor.task.source.to_text(example.source)), _source_ids(item)
    rows = [("sample source", _cut(words))]
    if isinstance(example.source, tuple) and ids is not None and len(ids) == len(words):
        seen = [SPECIALS[UNKNOWN] if number == UNKNOWN else word for word, number in zip(words, ids, strict=True)]
        rows.append(("as the model sees it", _cut(seen)))
    rows.append(("what it learns to predict", _cut(predictor.task.target.symbols(example.reference))))
    return rows


def _cut(symbols: Sequence[str]) -> str:
    return " ".join(symbols[:_SAMPLE_SYMBOLS]) + (" ..." if len(symbols) > _SAMPLE_SYMBOLS else "")


def _named(examples: Sequence[Example]) -> str:
    """The first few origins, at the end of a finding."""
    names = ", ".join(example.origin for example in examples[:_SHOWN])
    return f": {names}{', ...' * (len(examples) > _SHOWN)}" if names else ""


def _share(part: int, whole: int) -> str:
    """A count with its share.

    >>> _share(3, 1200), _share(0, 5)
    ('3 of 1,200 (0.25 %)', '0 of 5')
    """
    return f"{part:,} of {whole:,}" + (f" ({100 * part / whole:.2f} %)" if part else "")


def _megabytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB" if size >= 2**20 else f"{size / 2**10:,.0f} KiB"
