"""The suite as a library: train, load, predict, evaluate, check, compare. The command line is a thin layer over it.

>>> import tempfile
>>> import seq2seq_suite as s2s
>>> small = {"width": 32, "feed_forward_width": 32, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
>>> config = {"task": "multilabel", "device": "cpu", "data": {"size": 40}, "backbone": small}
>>> with tempfile.TemporaryDirectory() as folder:  # doctest: +ELLIPSIS
...     settings = {"training.max_updates": 2, "training.warmup_updates": 1, "data.test_splits": []}
...     run = s2s.train(config, output=f"{folder}/run", settings=settings)
...     answers = run.predict(["the cat sees a dog"], n_best=2, settings={"search.beam_size": 3})
training on 40 examples, ...
update 1/2 ...
validation at update 2: micro_f1 ...
training ends at update 2: training.max_updates=2 is reached
>>> len(answers[0]), answers[0][0].score >= answers[0][1].score
(2, True)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote

from seq2seq_suite.common.errors import ConfigError, DataError, repr_short
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.config.unused_keys import why_unused
from seq2seq_suite.experiments import verbs
from seq2seq_suite.experiments.check import examine
from seq2seq_suite.export.ctranslate2_engine import with_engine
from seq2seq_suite.export.hub import HUB, fetched
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.runs.callbacks import Callback
from seq2seq_suite.runs.records import read_summary
from seq2seq_suite.studies.compare import Comparison, compare_runs
from seq2seq_suite.terminal.tables import figure

if TYPE_CHECKING:
    from seq2seq_suite.model.seq2seq import Seq2Seq
    from seq2seq_suite.strategies.base import Strategy
    from seq2seq_suite.tasks.base import Task

Input = str | Path | Example
Settings = Mapping[str, Any] | Sequence[str]  # dotted key -> value, or `key=value` as on the command line


@dataclass(frozen=True)
class Prediction:
    """One output for one input.

    Args:
        text: on one line, as `predict` prints it.
        value: in the task's own type, a tree or a set of labels, say; None where the output was malformed.
        score: what it was ranked by, higher is better.
    """

    text: str
    value: Any
    score: float

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """For notebooks: drawn where the value can be, and its score."""
        draw = getattr(self.value, "_repr_html_", lambda: f"<pre>{escape(self.text)}</pre>")
        return f"<div>{draw()}<small>score {self.score:.4g}</small></div>"


class Run:
    """A trained model in its directory. Weights are read when they are first needed.

    Args:
        path: the directory.
        others: of runs that predict together with this one.
        settings: changes to the run's configuration.
        trust_code, engine: see `load`.
    """

    def __init__(
        self,
        path: str | Path,
        *others: str | Path,
        settings: Settings = (),
        trust_code: bool = False,
        engine: str = "pytorch",
    ):
        self.path, self._others, self._engine = Path(path), tuple(map(Path, others)), engine
        self._settings, self._trust_code = overrides(settings), trust_code

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the figures of a finished run, and a link to its report."""
        try:
            splits = self.summary["splits"]
        except DataError:
            return f"<code>{escape(repr(self))}</code>, not finished"
        names = dict.fromkeys(name for figures in splits.values() for name in figures)
        rows = [("", *splits), *((name, *(figure(figures.get(name)) for figures in splits.values())) for name in names)]
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        report = escape(quote(f"{self.path}/report.html"))
        return f'<code>{escape(repr(self))}</code>, <a href="{report}">report</a><table>{cells}</table>'

    @cached_property
    def opened(self) -> opening.LoadedRun:
        """Configuration, task, model and search, ready to decode."""
        with trusting(self._trust_code):
            opened = opening.open_together([self.path, *self._others], self._settings)
            return with_engine(opened, self.path, self._engine)

    @cached_property
    def config(self) -> Config:
        """The run's configuration, with the changes asked for."""
        with trusting(self._trust_code):
            return opening.config_of(self.path, self._settings)

    @property
    def summary(self) -> dict[str, Any]:
        """Figures by split, failures, cost and size, as in `summary.json`."""
        return read_summary(self.path).model_dump(exclude_unset=True)

    @property
    def task(self) -> Task:
        """The task, with its vocabularies."""
        return self.opened.task

    @property
    def model(self) -> Seq2Seq:
        """The model with its best weights, in evaluation mode."""
        return self.opened.predictor.model

    @property
    def strategy(self) -> Strategy:
        """How the model learns targets and writes them."""
        return self.opened.predictor.learner.strategy

    @overload
    def predict(
        self,
        inputs: Input | Iterable[Input],
        *,
        n_best: None = None,
        threshold: float | None = None,
        settings: Settings = (),
    ) -> list[Prediction]: ...

    @overload
    def predict(
        self, inputs: Input | Iterable[Input], *, n_best: int, threshold: float | None = None, settings: Settings = ()
    ) -> list[list[Prediction]]: ...

    def predict(
        self,
        inputs: Input | Iterable[Input],
        *,
        n_best: int | None = None,
        threshold: float | None = None,
        settings: Settings = (),
    ) -> list[Prediction] | list[list[Prediction]]:
        """Predict, `search.batch_sentences` inputs at a time.

        Args:
            inputs: as for `predict` on the command line: sentences, `question ||| context`, names of pictures or
                of files of sound. A string is one input, and gives a list of one.
            n_best: None for the best prediction of each input; a number for a list of so many, best first.
            threshold: leave out objects, or labels of a run that scores each, of a lower probability; None for 0.5 of
                objects, and of labels for what was tuned on validation.
            settings: changes for this call alone, such as `{"search.beam_size": 4}`.

        Raises:
            DataError: an input is none for the task.
            ConfigError: a setting is wrong, or the task has no probabilities for a threshold.
        """
        run = (
            Run(
                self.path,
                *self._others,
                settings=[*self._settings, *overrides(settings)],
                trust_code=self._trust_code,
                engine=self._engine,
            )
            if settings
            else self
        )
        found = list(run.predictions(inputs, n_best=n_best or 1, threshold=threshold))
        return [hypotheses[0] for hypotheses in found] if n_best is None else found

    def predictions(
        self, inputs: Input | Iterable[Input], *, n_best: int = 1, threshold: float | None = None
    ) -> Iterator[list[Prediction]]:
        """`predict` as an iterator, which holds few inputs at a time: for each its `n_best` predictions, best first."""
        several: Iterable[Any] = [inputs] if isinstance(inputs, Input | Mapping) else inputs
        examples = (
            one if isinstance(one, Example) else self.example(one, line=number) for number, one in enumerate(several, 1)
        )
        check_n_best(self.config, n_best)
        self.task.leave_out_below(threshold)
        return (
            [Prediction(self.task.to_text(value), value, score) for value, score in hypotheses[:n_best]]
            for hypotheses in self.opened.predict(examples, num_hypotheses=n_best)
        )

    def example(self, text: str | Path, *, file: str = "inputs", line: int = 0, begin: str = "") -> Example:
        """The example that a line of text describes; raises DataError with file and line if it is no input.

        `begin` is the beginning of the output; only for free text that is decoded autoregressively.
        """
        if not isinstance(text, str | Path):
            raise DataError(
                f"the input is {repr_short(text)}",
                file=file,
                line=line,
                remedy="put it into one text",
                expected="a text, such as a sentence or 'question ||| context'",
            )
        text = str(text)
        if not text.strip():
            raise DataError(
                "the input is empty",
                file=file,
                line=line,
                expected="an input on each line",
                remedy="remove the line or fill it",
            )
        try:
            text.encode()
        except UnicodeEncodeError:  # a command line that is not UTF-8, or a lone surrogate
            raise DataError(
                "the input is not UTF-8",
                file=file,
                line=line,
                expected="text",
                remedy="check the terminal's encoding, or use --input with a file in UTF-8",
            ) from None
        formed = text if self.task.source.of_file else self.task.in_form(text)
        example, begin = self.task.from_text(formed, origin=f"{file}:{line}"), self.task.in_form(begin)
        if not begin.strip():
            return example
        if self.config.in_parallel:
            raise ConfigError(
                f"the beginning of an output, but strategy.kind {self.config.strategy.kind} writes all "
                "symbols in parallel",
                expected="a run that writes from left to right",
                remedy="leave it out",
            )
        self.task.target.beginning(begin, {"file": file, "line": line})
        return replace(example, begin=begin)

    def evaluate(self, split: str = "test", *, data: str | Path | None = None) -> dict[str, float]:
        """Decode and score a split; predictions go to the run's directory.

        Args:
            split: its name.
            data: other data than the run's own, as `data.path` takes it.

        Returns:
            The task's figures; of a joint run `task/metric`.
        """
        with trusting(self._trust_code):
            found = verbs.evaluate(
                self.path,
                *self._others,
                split=split,
                data=None if data is None else str(data),
                overrides=self._settings,
            )
        return {metric: value for figures in found["splits"].values() for metric, value in figures.items()}


def load(
    path: str | Path,
    *others: str | Path,
    task: str | None = None,
    settings: Settings = (),
    trust_code: bool = False,
    engine: str = "pytorch",
) -> Run:
    """A finished run, or several of one vocabulary that predict by the mean of their probabilities.

    Args:
        path: the directory that `train` or `run` wrote, a folder that `export` wrote, or `hf://owner/name` of the
            Hub, which needs huggingface_hub and, the first time, a network.
        others: the same, of other runs of the same task and vocabulary.
        task: one task of a joint run.
        settings: changes to its configuration, such as `{"search.beam_size": 4, "device": "cpu"}`.
        trust_code: run code that the run names, such as another user's task, wherever it lies.
        engine: what searches for predictions: pytorch, or ctranslate2 or ctranslate2-int8, which are faster and express
            a Transformer from text to text (extra `ctranslate2`).

    Raises:
        DataError: the directory is no run.
        ConfigError: a setting is wrong, or the engine cannot express the run.
    """
    chosen = [
        opening.choose_task(Path(fetched(str(one)) if str(one).startswith(HUB) else one), task)
        for one in (path, *others)
    ]
    run = Run(*chosen, settings=settings, trust_code=trust_code, engine=engine)
    _ = run.config
    return run


def train(
    config: Config | Mapping[str, Any] | str | Path,
    *,
    output: str | Path,
    settings: Settings = (),
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    overwrite: bool = False,
    trust_code: bool = False,
) -> Run:
    """Train, evaluate the best checkpoint on the test splits, and write a run directory.

    Args:
        config: a YAML file, the name of a preset, a dictionary of the same keys, or a configuration.
        output: the run's directory.
        settings: changes to the configuration.
        callbacks: each is called with every row of `metrics.jsonl`; its method `end`, if any, at the end of the run;
            see `runs.callbacks`.
        resume: continue the run in the directory.
        overwrite: delete the run in the directory first.
        trust_code: also run code of other runs that the configuration names, not only its own.

    Raises:
        ConfigError, DataError: something that the caller can correct.
        RunError: the loss is no longer finite, or a file cannot be written.
    """
    with trusting(trust_code):
        chosen = _read_config(config, settings, own=True)
        verbs.run(chosen, Path(output), resume=resume, overwrite=overwrite, command=list(sys.argv), callbacks=callbacks)
    return Run(output, trust_code=trust_code or bool(chosen.code))


def check(
    config: Config | Mapping[str, Any] | str | Path, *, settings: Settings = (), trust_code: bool = False
) -> list[tuple[str, str]]:
    """Examine a configuration and its data without training.

    Returns:
        (what, finding) rows: sizes, lengths, the share of unknown symbols, a sample, memory; `warning` rows last.
    """
    with trusting(trust_code):
        return examine(_read_config(config, settings, own=True))


def compare(*runs: Run | str | Path, split: str = "test", speed: bool = False, trust_code: bool = False) -> Comparison:
    """Compare runs: metrics with intervals, failures, cost, and the significance of differences.

    Args:
        runs: two or more.
        split: on which they were evaluated.
        speed: measure decoding speed.
        trust_code: run code that the runs name, which measuring needs.
    """
    with trusting(trust_code):
        return compare_runs(
            [run.path if isinstance(run, Run) else Path(run) for run in runs], split=split, measure=speed
        )


def read_config(
    config: Config | Mapping[str, Any] | str | Path, settings: Settings = (), *, trust_code: bool = False
) -> Config:
    """A checked configuration, from a YAML file, a dictionary of the same keys, or one that was checked before.

    >>> read_config({"task": "parsing"}, {"search.beam_size": 4}).search.beam_size
    4
    """
    with trusting(trust_code):
        return _read_config(config, settings, own=False)


def _read_config(config: Config | Mapping[str, Any] | str | Path, settings: Settings, *, own: bool) -> Config:
    if isinstance(config, Config):
        config = config.model_dump()
    if isinstance(config, Mapping):
        return config_file.from_mapping(config, overrides(settings), own=own)
    return config_file.load(config_file.find(config), overrides(settings), own=own)


def overrides(settings: Settings) -> list[str]:
    """Settings as the command line writes them.

    >>> overrides({"seed": 3, "data.test_splits": ["test"], "data.path": "no"})
    ['seed=3', 'data.test_splits=[test]', "data.path='no'"]
    """
    if isinstance(settings, str):
        raise DataError(
            f"settings are one string: {settings}",
            expected='{"key.sub": value} or ["key.sub=value"]',
            remedy="put it into a list",
        )
    return config_file.as_overrides(settings) if isinstance(settings, Mapping) else list(settings)


def check_n_best(config: Config, n_best: int) -> None:
    """Raises ConfigError if `n_best` is above 1 for a run that gives one output."""
    cause = why_unused(config, "search.num_hypotheses") if n_best > 1 else ""
    if cause:
        raise ConfigError(
            f"the {n_best} best predictions are asked for, but with {cause} there is only one",
            expected="a run that searches for several outputs",
            remedy="ask for one",
        )
