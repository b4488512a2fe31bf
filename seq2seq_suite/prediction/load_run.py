"""Finished runs, opened to decode with: one, or several together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from seq2seq_suite.common.errors import ConfigError, DataError, UserError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.prediction.build import build_predictor, choose_device, use_threads
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.prediction.predictor import Predictor
from seq2seq_suite.runs import distributed, weights
from seq2seq_suite.runs.joint_directories import task_directories, task_directory
from seq2seq_suite.runs.run_directory import CONFIG
from seq2seq_suite.search.ensemble import Ensemble
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.autoregressive import Autoregressive
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.tasks.base import Task

if TYPE_CHECKING:
    from seq2seq_suite.model.seq2seq import Seq2Seq

_ALONE = ["search.rescorer=", "search.drafter="]  # of a run that helps another
_SAME = "train it on the same data with the same options of task and subwords"
_WINDOW = 8  # batches of inputs that are read and sorted by length at a time


@dataclass(frozen=True)
class LoadedRun:
    """A trained model, ready to predict."""

    config: Config
    predictor: Predictor

    @property
    def task(self) -> Task:
        """The run's task, with its vocabularies."""
        return self.predictor.task

    def predict(self, examples: Iterable[Example], *, num_hypotheses: int = 1) -> Iterator[list[tuple[Any, float]]]:
        """For each example its predictions with their scores, best first, a few batches of examples at a time.

        An error in reading an example comes after the predictions of those before it.
        """
        options = self.predictor.options
        beams = options.beam_size if options.samples else max(num_hypotheses, options.beam_size)
        options = options.changed(num_hypotheses=num_hypotheses, beam_size=beams)
        predictor = replace(self.predictor, options=options)
        for chunk in _windows(examples, _WINDOW * options.batch_sentences):
            found = predictor.hypotheses(self.task.encode_beginnings(chunk), chunk)
            for example, hypotheses in zip(chunk, found, strict=True):
                yield [(self.task.read_hypothesis(hypothesis, example), hypothesis.score) for hypothesis in hypotheses]


def _windows(examples: Iterable[Example], size: int) -> Iterator[list[Example]]:
    """So many examples at a time; those before an error come before it."""
    window: list[Example] = []
    try:
        for example in examples:
            window.append(example)
            if len(window) == size:
                yield window
                window = []
    except UserError:
        yield window
        raise
    if window:
        yield window


def open_run(directory: Path, overrides: list[str]) -> LoadedRun:
    """A run's best checkpoint (its last one if none was validated) with its configuration.

    Raises:
        DataError: the directory is no run, or its checkpoint is broken.
    """
    config = config_of(directory, overrides)
    if config.task == "multitask":
        raise ConfigError(
            "a joint run has several tasks",
            file=str(directory),
            expected=f"one of them: {', '.join(config.tasks)}",
            remedy=f"--task NAME, or the directory {task_directory(directory, 'NAME')}",
        )
    use_threads(config.training.threads)
    task = open_task(config.task, config)
    task.load(directory / "vocabulary")
    predictor = build_predictor(config, task, device=choose_device(config.device, distributed.ranks()), drawn=False)
    weights.load_best(directory, predictor.learner)
    predictor.learner.eval()
    return LoadedRun(config, with_helpers(config, predictor, directory))


def open_together(directories: Sequence[Path], overrides: list[str]) -> LoadedRun:
    """One run, or several whose probabilities are averaged; task, search, device and threads are the first one's.

    What heads beside the decoder say, such as the tags of words, is the first one's, too.

    Raises:
        ConfigError: they differ in task or vocabulary, or do not write from left to right.
    """
    first = open_run(directories[0], overrides)
    opened = [first, *(open_run(directory, [*overrides, *_machine(first.config)]) for directory in directories[1:])]
    if len(opened) == 1:
        return first
    for directory, run in zip(directories, opened, strict=True):
        refusal = partial(ConfigError, file=str(directory), remedy=f"{_SAME}, and another seed or backbone")
        if run.config.task != first.config.task:
            raise refusal(f"its task is {run.config.task}", expected=f"task {first.config.task}, the first run's")
        if type(run.predictor.learner.strategy) is not Assisted:
            raise refusal(
                f"an ensemble of task {run.config.task}, strategy.kind {run.config.strategy.kind}",
                expected="runs that write from left to right, and no language model",
            )
        if _files(directory / "vocabulary") != _files(directories[0] / "vocabulary"):
            raise refusal(f"its vocabulary differs from that of {directories[0]}", expected="the same symbols")
        if run.config.search.ctc_weight:
            raise ConfigError(
                f"an ensemble with search.ctc_weight {run.config.search.ctc_weight:g}",
                file=str(directory),
                expected="the decoders alone",
                remedy="add search.ctc_weight=0",
            )
    together = cast("Seq2Seq", Ensemble([run.predictor.model for run in opened]))  # it has what searches call
    learner = Learner(together, first.predictor.learner.strategy).eval()
    return replace(first, predictor=replace(first.predictor, learner=learner))


def _files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*") if file.is_file()}


def config_of(directory: Path, overrides: list[str]) -> Config:
    """A run's configuration with overrides.

    Raises:
        DataError: the directory is no run, or one of a format that cannot be read.
        ConfigError: it names code that is not trusted (`user_code.trusting`).
    """
    parse_config(directory)
    return config_file.load(directory / CONFIG, overrides, of_run=True)


def parse_config(directory: Path) -> dict[str, Any]:
    """A run's `config.yaml` as plain data; raises DataError if the directory is no run, or has another format."""
    if not (directory / CONFIG).is_file():
        raise DataError(
            f"not a run directory: it has no {CONFIG}",
            file=str(directory),
            expected="a directory that `run` wrote",
            remedy="name it as in `evaluate runs/parsing`",
        )
    return config_file.parse(directory / CONFIG, of_run=True)


def choose_task(directory: Path, name: str | None) -> Path:
    """The directory of one of a joint run's tasks; the run's own without a name.

    Raises:
        DataError: there is no such task, or the run is not finished.
    """
    if name is None:
        return directory
    found = task_directories(directory)
    if task_directory(directory, name) not in found:
        there = f"one of {', '.join(part.name for part in found)}" if found else "a finished joint run"
        raise DataError(
            f"there is no task '{name}' in this run",
            file=str(directory),
            expected=there,
            remedy="choose another"
            if found
            else "finish the run, with `run ... --resume` if it was stopped; for a run of one task remove --task",
        )
    return task_directory(directory, name)


def look_at_helpers(config: Config, vocabulary: Path | None = None) -> None:
    """Refuse runs that cannot rescore or draft the outputs, if possible before training.

    Args:
        config: may name such runs.
        vocabulary: folder of the outputs' vocabulary; None where there is none yet.

    Raises:
        ConfigError, DataError: it names no run, or one for other outputs.
    """
    for key, named in _helpers(config):
        other, key = Path(named), f"search.{key}"
        theirs = config_of(other, _ALONE)
        refusal = partial(ConfigError, file=str(other), remedy=_SAME)
        if theirs.task != config.task:
            raise refusal(f"{key}: its task is {theirs.task}", expected=f"task {config.task}")
        rescores, expected = key == "search.rescorer", "an autoregressive run whose decoder is not guided"
        if rescores and theirs.in_parallel:
            raise refusal(f"{key}: its strategy is {theirs.strategy.kind}", expected=expected)
        if not rescores and theirs.in_parallel and config.search.compile:
            raise ConfigError(
                "search.compile has no effect",
                expected="a drafter that writes left to right",
                file=str(other),
                remedy="remove it, or draft with another run",
            )
        weights.best(other)
        task = open_task(theirs.task, theirs)
        task.load(other / "vocabulary")
        if rescores and task.shape().target.num_focus:
            raise refusal(f"{key}: its decoder is guided, as that of task {task.name} is", expected=expected)
        if vocabulary is not None and _files(vocabulary) != _files(other / "vocabulary"):
            raise refusal(f"{key}: its vocabulary differs", expected="the same symbols")


def with_helpers(config: Config, predictor: Predictor, directory: Path) -> Predictor:
    """The predictor with its rescorer and its drafter, if the configuration names them."""
    look_at_helpers(config, directory / "vocabulary")
    for key, named in _helpers(config):
        helper = open_run(Path(named), [*_ALONE, *_machine(config)]).predictor
        if key == "drafter" and isinstance(helper.learner.strategy, Autoregressive):
            greedy = helper.options.changed(beam_size=1, sampling=False, risk=0, compile=config.search.compile)
            helper = replace(helper, options=greedy)
        predictor = replace(predictor, **{key: helper.learner if key == "rescorer" else helper})
    return predictor


def _machine(config: Config) -> list[str]:
    """What the other runs of a search take from this one."""
    return [f"device={config.device}", f"training.threads={config.training.threads}"]


def _helpers(config: Config) -> list[tuple[str, str]]:
    """The runs that help to search, by their keys in `search`."""
    named = {key: getattr(config.search, key) for key in ("rescorer", "drafter")}
    return [(key, run) for key, run in named.items() if run and (key, run) != ("drafter", "ctc")]
