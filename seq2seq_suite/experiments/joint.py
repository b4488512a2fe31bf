"""The tasks of a run: one, or several on one encoder and decoder stack (`task: multitask`).

A joint run also has a directory `tasks/NAME` for each task, with the task's weights, vocabulary and metrics.
`evaluate`, `predict`, `compare`, `distill` and `init_from` read it like that of any run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Encoded, Example
from seq2seq_suite.common.files import atomic_write_text
from seq2seq_suite.common.shapes import Shape
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.data.drawn import chained
from seq2seq_suite.data.mixture import Mixture, shares
from seq2seq_suite.experiments.corpus import Corpus
from seq2seq_suite.experiments.prepare import (
    Train,
    adapt_and_freeze,
    encode,
    epoch_encoder,
    initialise_from,
    origins,
    prepare_vocabulary,
    read_splits,
    round_lengths,
    subset,
    write_config,
    write_provenance,
)
from seq2seq_suite.experiments.room import tell_room
from seq2seq_suite.experiments.streaming import Stream
from seq2seq_suite.model.seq2seq import Seq2Seq
from seq2seq_suite.options.training import Mixture as MixtureOptions
from seq2seq_suite.options.training import Training
from seq2seq_suite.prediction.build import build_predictor, choose_device, choose_precision, compile_layers
from seq2seq_suite.prediction.evaluate import evaluate_splits
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.runs.distributed import ALONE, Ranks
from seq2seq_suite.runs.joint_directories import task_directory
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.strategies.learner import JointLearner, Learner
from seq2seq_suite.tasks import trivial
from seq2seq_suite.tasks.base import Task
from seq2seq_suite.terminal.progress import preparing
from seq2seq_suite.training import checkpoint
from seq2seq_suite.training.balance import GradientBalance
from seq2seq_suite.training.choosing import Metric
from seq2seq_suite.training.optimizer import learning
from seq2seq_suite.training.trainer import Trainer

MEAN = "mean"  # of the tasks' primary metrics; error rates count as 100 - rate
BESIDE = ("decoding", "likelihood")  # of a summary, by split: what is no metric
_FEW = 100  # validation examples whose loss is reported, evenly spread: a fraction of the time that decoding them takes


@dataclass
class Part:
    """One task of a run.

    Args:
        name: the task's, or the name in the joint run.
        config: its own.
        run: for its vocabulary, predictions and metrics.
        task: has its vocabularies after `build_trainer`.
        examples: by split.
        prefix: of its splits and figures in a joint run, `name/`; else empty.
        encoded: the same as numbers, of the training and the validation split.
    """

    name: str
    config: Config
    run: RunDirectory
    task: Task
    examples: dict[str, Train]
    prefix: str = ""
    encoded: dict[str, Sequence[Encoded]] = field(default_factory=dict)

    def held_out(self, split: str) -> Sequence[Example]:
        """The examples of another split than the training split, which alone may be a corpus or a stream."""
        found = self.examples[split]
        assert not isinstance(found, Corpus | Stream)
        return found


def read_parts(config: Config, run_directory: RunDirectory) -> list[Part]:
    """The tasks with their examples; raises DataError for data that cannot be read."""
    if config.task != "multitask":
        task = open_task(config.task, config)
        return [Part(task.name, config, run_directory, task, read_splits(config, task))]
    streamed = [name for name, own in config.tasks.items() if own.data.streaming]
    if streamed:
        raise ConfigError(
            f"tasks.{streamed[0]}.data.streaming in a joint run",
            remedy="leave it out",
            expected="tasks whose numbers of examples are known, for their shares",
        )
    tasks = {name: open_task(own.task, own) for name, own in config.tasks.items()}
    return [
        Part(
            name,
            own,
            RunDirectory(task_directory(run_directory.path, name)),
            tasks[name],
            read_splits(own, tasks[name]),
            f"{name}/",
        )
        for name, own in config.tasks.items()
    ]


def build_predictors(
    parts: Sequence[Part], *, ranks: Ranks, device: Any
) -> tuple[Learner | JointLearner, dict[str, Predictor]]:
    """The learner with fresh weights, and predictors; several tasks share what they can."""
    predictors: dict[str, Predictor] = {}
    like: list[tuple[Shape, Seq2Seq]] = []
    for part in parts:
        found = build_predictor(part.config, part.task, device=device, like=like)
        predictors[part.name] = replace(found, ranks=ranks)
        like.append((part.task.shape(), found.model))
    if not parts[0].prefix:
        return predictors[parts[0].name].learner, predictors
    return JointLearner(
        {name: predictor.learner for name, predictor in predictors.items()},
        {part.name: part.config.task_weight for part in parts},
    ), predictors


def build_trainer(
    config: Config,
    run_directory: RunDirectory,
    parts: Sequence[Part],
    ranks: Ranks = ALONE,
    *,
    resume: bool,
    command: list[str],
) -> tuple[Trainer, dict[str, Predictor]]:
    """Prepares vocabularies, data and learner, and writes to the run directory what must be kept."""
    options = config.training
    for part in parts:
        with preparing(f"building vocabularies and encoding the examples of {part.name}"):
            prepare_vocabulary(
                part.config, part.task, part.examples["train"], part.run.vocabulary, ranks, resume=resume
            )
            part.encoded = {
                split: encode(part.config.backbone, part.task, part.examples[split])
                for split in ("train", "validation")
            }
        for split, items in part.encoded.items():
            tell_room(
                part.config.strategy,
                part.config.search,
                part.task,
                part.prefix + split,
                items,
                origins(part.examples[split]),
            )
    device = choose_device(config.device, ranks)
    learner, predictors = build_predictors(parts, ranks=ranks, device=device)
    for part in parts:  # not only when the first validation or test split is decoded
        for split in part.examples if part.config.search.min_length else ():
            if split != "train":
                predictors[part.name].check_least(part.task.encode(part.held_out(split)))
    if (said := adapt_and_freeze(config, learner)) and not resume:
        run_directory.say(said)
    if config.init_from and not resume and ranks.is_first:
        run_directory.say(initialise_from(config, learner))
    if options.compile:
        compile_layers(learner, device)
    # Batches depend on it, so that processes on different machines must agree.
    precision = ranks.first(choose_precision(options.precision, device))
    batches = {
        part.name: Bucketed(
            part.encoded["train"],
            part.name,
            batch_tokens=part.config.training.batch_tokens,
            seed=config.seed,
            round_lengths=round_lengths(options, precision, device),
            encode_epoch=epoch_encoder(part.config.backbone, part.task, part.examples["train"]),
        )
        for part in parts
    }
    stream: Bucketed | Mixture = batches[parts[0].name]
    if config.tasks:
        stream = Mixture(batches, chosen := _shares(config.mixture, options, parts, batches))
        run_directory.say(
            "shares of the batches: " + ", ".join(f"{name} {100 * share:.1f} %" for name, share in chosen.items())
        )
    encoded = {part.prefix + split: items for part in parts for split, items in part.encoded.items()}
    write_provenance(config, run_directory, encoded, ranks, resume=resume, command=command)
    first = parts[0].task
    metric = Metric(MEAN, True) if parts[0].prefix else Metric(first.primary_metric, first.higher_is_better)
    return Trainer(
        run=run_directory,
        options=options,
        learner=learner,
        batches=stream,
        validate=_validation(options.validate_examples, config.seed, parts, predictors),
        metric=metric,
        device=device,
        precision=precision,
        origins=chained([origins(part.examples["train"]) for part in parts]),
        ranks=ranks,
        balance=_balance(config.mixture.balance, learner),
    ), predictors


def _validation(
    most: int, seed: int, parts: Sequence[Part], predictors: Mapping[str, Predictor]
) -> Callable[[Callable[[], None]], dict[str, float]]:
    """A function that returns the metrics on the validation split, and the losses on a part of it as `loss_NAME`.

    It calls its argument before each batch.
    """
    kept = {part.name: subset(len(part.held_out("validation")), most, seed) for part in parts}
    learned = {part.name: _as_learned(part, kept[part.name][:: -(-len(kept[part.name]) // _FEW)]) for part in parts}

    reported = set[str]()

    def validate(between: Callable[[], None]) -> dict[str, float]:
        scores = {
            part.name: predictors[part.name].score(
                [part.held_out("validation")[place] for place in kept[part.name]],
                [part.encoded["validation"][place] for place in kept[part.name]],
                between=between,
            )[0]
            for part in parts
        }
        figures = {name: score.figures for name, score in scores.items()}
        for part in parts if predictors[parts[0].name].ranks.is_first else ():
            for note in (found for found in scores[part.name].notes if found not in reported):
                reported.add(note)
                part.run.say(f"validation: {note}")
        losses = {
            f"loss_{part.prefix}{name}": value
            for part in parts
            for name, value in predictors[part.name].losses(learned[part.name], between=between).items()
        }
        return {
            **(
                joined(figures, {part.name: part.task for part in parts}) if parts[0].prefix else figures[parts[0].name]
            ),
            **losses,
        }

    return validate


def _as_learned(part: Part, places: Sequence[int]) -> Sequence[Encoded]:
    """Validation examples encoded as in training; randomised sources get one fixed draw."""
    draw = epoch_encoder(part.config.backbone, part.task, [part.held_out("validation")[place] for place in places])
    return [part.encoded["validation"][place] for place in places] if draw is None else draw(0)


def joined(figures: Mapping[str, Mapping[str, float]], tasks: Mapping[str, Task]) -> dict[str, float]:
    """The metrics of several tasks as `name/metric`, the mean of the primary ones first."""
    primary = []
    for name, of_task in figures.items():
        figure = of_task[tasks[name].primary_metric]
        primary.append(figure if tasks[name].higher_is_better else 100.0 - figure)
    return {
        MEAN: statistics.fmean(primary),
        **{f"{name}/{metric}": value for name, of_task in figures.items() for metric, value in of_task.items()},
    }


def evaluate_parts(parts: Sequence[Part], predictors: Mapping[str, Predictor], trainer: Trainer) -> dict[str, Any]:
    """The summary after training; each task of a joint run also gets its own."""
    for part in parts if parts[0].prefix else ():
        write_config(part.config, part.run)
        if trainer.ranks.is_first:
            atomic_write_text(part.run.provenance, trainer.run.provenance.read_text(encoding="utf-8"))
            checkpoint.export(part.run.checkpoints, predictors[part.name].learner)
    summaries = {part.name: _evaluate(part, predictors[part.name], trainer) for part in parts}
    if not parts[0].prefix:
        (summary,) = summaries.values()
    else:
        for part in parts:
            summaries[part.name] |= _of_part(part, predictors[part.name], trainer)
            part.run.write_summary(summaries[part.name])
        summary = {
            "task": "multitask",
            "primary_metric": MEAN,
            "higher_is_better": True,
            "splits": _joined_splits(summaries, parts),
            "failures": {},
            **{name: found for name in BESIDE if (found := by_split(summaries, name))},
            "signature": "",
            "formula": "mean",
            **trainer.cost(),
        }
    summary["splits"].setdefault("validation", {trainer.metric.name: trainer.progress.best_figure})
    return summary


def _evaluate(part: Part, predictor: Predictor, trainer: Trainer) -> dict[str, Any]:
    found = part.task.tune(part.held_out("validation"), lambda some: predictor.hypotheses(part.task.encode(some), some))
    if found:
        part.task.save(part.run.vocabulary)
        part.run.log(found)
    tested = {split: part.held_out(split) for split in part.config.data.test_splits}
    found = {split: trivial.figures(part.task, part.examples["train"], some) for split, some in tested.items()}
    best = max if part.task.higher_is_better else min
    return {
        **evaluate_splits(part.run, predictor, tested),
        "baselines": found,
        "baseline": {split: best(figures.values()) for split, figures in found.items() if figures},
        "ceiling": {
            split: figure
            for split, some in tested.items()
            if (figure := trivial.ceiling(part.task, part.examples["train"], some)) is not None
        },
        **trainer.cost(),
    }


def _of_part(part: Part, predictor: Predictor, trainer: Trainer) -> dict[str, Any]:
    """Additions to a task's own summary in a joint run."""
    assert isinstance(trainer.batches, Mixture)
    position = trainer.progress.update * trainer.options.accumulate
    return {
        "batches": trainer.batches.counts(position)[part.name],
        "parameters": predictor.learner.num_parameters(),
        "core_parameters": predictor.learner.num_core_parameters(),
    }


def _joined_splits(summaries: Mapping[str, Mapping[str, Any]], parts: Sequence[Part]) -> dict[str, dict[str, float]]:
    """The metrics by split, with a mean if all tasks have the split; those splits come first."""
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    for part in parts:
        for split in part.config.data.test_splits:
            found.setdefault(split, {})[part.name] = summaries[part.name]["splits"][split]
    tasks = {part.name: part.task for part in parts}
    tables = {split: joined(figures, tasks) for split, figures in found.items()}
    for split, figures in found.items():
        if len(figures) < len(parts):
            del tables[split][MEAN]
    return dict(sorted(tables.items(), key=lambda item: MEAN not in item[1]))


def by_split(summaries: Mapping[str, Mapping[str, Any]], section: str) -> dict[str, dict[str, Any]]:
    """What a section of the tasks' summaries has by split, as `name/figure`.

    >>> by_split({"qa": {"decoding": {"test": {"passes_per_symbol": 1.0}}}, "lm": {}}, "decoding")
    {'test': {'qa/passes_per_symbol': 1.0}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, summary in summaries.items():
        for split, figures in summary.get(section, {}).items():
            found.setdefault(split, {}).update({f"{name}/{figure}": value for figure, value in figures.items()})
    return found


def _shares(
    mixture: MixtureOptions, training: Training, parts: Sequence[Part], batches: Mapping[str, Bucketed]
) -> dict[str, float]:
    """The tasks' shares of the batches, by temperature and maximal epochs."""
    total = training.max_updates * training.accumulate
    most = [mixture.max_epochs * len(part) / total for part in batches.values()]
    found = shares(
        [len(part.items) for part in batches.values()],
        temperature=mixture.temperature,
        factors=[part.config.task_share for part in parts],
        most=most,
    )
    return dict(zip(batches, found, strict=True))


def _balance(exponent: float, learner: Learner | JointLearner) -> GradientBalance | None:
    """None if the tasks' gradients are added unscaled."""
    if not (exponent and isinstance(learner, JointLearner)):
        return None
    shared = [one for one in learner.core_parameters() if one.requires_grad]
    if not shared:
        raise ConfigError(
            "mixture.balance measures gradients of encoder and decoder, all of which training.freeze names",
            expected="shared layers that learn",
            remedy="set mixture.balance to 0",
        )
    return GradientBalance(learning(learner), shared, exponent=exponent, weights=learner.weights)
