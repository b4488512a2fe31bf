"""Studies: named variants of several experiments, each with several seeds, compared in one table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from seq2seq_suite import config_file
from seq2seq_suite.config_section import NotNegative, Section
from seq2seq_suite.experiments.cluster import Cluster
from seq2seq_suite.experiments.sweep import run_all, slug
from seq2seq_suite.metrics.significance import t_interval
from seq2seq_suite.report.tables import NONE
from seq2seq_suite.training.records import read_summary
from seq2seq_suite.types import COMMAND_LINE, ConfigError, DataError

HEADER = ("experiment", "variant", "metric", "seeds", "mean", "95 % interval", "worst", "updates", "minutes")


class Study(Section):
    """The keys of a study's file."""

    question: str  # that the study answers
    yamls: Annotated[tuple[str, ...], Field(min_length=1)]  # experiments, relative to this file, or presets
    seeds: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (1, 2, 3)
    settings: dict[str, Any] = {}  # for all: key -> value
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]  # name -> what it changes


@dataclass(frozen=True)
class Cell:
    """One variant of one experiment, over the seeds: the primary metric on test, updates and minutes of training."""

    experiment: str
    variant: str
    metric: str
    higher_is_better: bool
    figures: tuple[float, ...]
    updates: float
    minutes: float

    def interval(self) -> tuple[float, float]:
        """The mean's 95 % interval by Student's t; NaN with one seed."""
        return t_interval(self.figures)

    def worst(self) -> float:
        """The worst seed's metric."""
        return min(self.figures) if self.higher_is_better else max(self.figures)


def is_study(path: Path) -> bool:
    """Whether a YAML file is a study: it has the key `variants`, or `yamls` in case the former is misspelt."""
    return not {"variants", "yamls"}.isdisjoint(config_file.parse(path))


def load(path: Path, *, yamls: Sequence[Path] = (), overrides: Sequence[str] = ()) -> Study:
    """A study's file.

    Args:
        path: the file.
        yamls: experiments to study instead of the file's.
        overrides: see `run`.

    Raises:
        ConfigError: it is no study, an experiment does not take one of its variants, two have one name, or an override
            would have no effect.
    """
    given = config_file.parse(path)
    try:
        study = Study.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = {"missing": "the key is missing", "extra_forbidden": "unknown key"}.get(first["type"], "wrong value")
        raise ConfigError(f"{key}: {problem}", file=str(path), expected=f"a study has {', '.join(Study.model_fields)}",
                          remedy="see tasks/studies for examples") from None
    if yamls:
        study = study.model_copy(update={"yamls": tuple(str(yaml.absolute()) for yaml in yamls)})
    names = [Path(yaml).stem for yaml in study.yamls]
    if len(set(names)) < len(names):
        raise ConfigError(f"two experiments have the same name: {', '.join(study.yamls)}", file=str(path),
                          expected="files of different names, which also name their directories and rows",
                          remedy="rename one, or study them separately with another --output")
    decided = {"seed"}.union(set.intersection(*map(set, study.variants.values())))
    for override in overrides:
        if (key := override.partition("=")[0]) in decided:
            raise ConfigError(f"{override}: it would have no effect", file=COMMAND_LINE,
                              expected=f"keys that the study does not vary; it compares values of {key}",
                              remedy=f"change it in a copy of {path}")
    for name, yaml, own in _cells(study, path, overrides):
        try:
            config_file.load(yaml, own)
        except ConfigError as error:
            raise ConfigError(f"variant '{name}' of {yaml.name}: {error}", file=str(path)) from None
    return study


def run(path: Path, output: Path, *, yamls: Sequence[Path] = (), overrides: Sequence[str] = (),
        jobs: int = 1, cluster: Cluster | None = None) -> list[Cell]:
    """Run what is missing of a study, in `output/EXPERIMENT/VARIANT-SEED`.

    Args:
        path: the study's file.
        output: the runs' folder.
        yamls: experiments to study instead of the file's.
        overrides: `key=value` for all runs; they override the study's settings, but not a variant's.
        jobs, cluster: see `run_all`.

    Raises:
        ConfigError: see `load` and `run_all`.
        RunError: some runs failed; the others are finished.
    """
    study = load(path, yamls=yamls, overrides=overrides)
    places: dict[tuple[str, str], list[Path]] = {}
    runs: dict[Path, tuple[Path, Sequence[str]]] = {}
    for name, yaml, own in _cells(study, path, overrides):
        for seed in study.seeds:
            directory = output / yaml.stem / f"{slug(name)}-{seed}"
            runs[directory] = yaml, [*own, f"seed={seed}"]
            places.setdefault((yaml.stem, name), []).append(directory)
    run_all(runs, jobs=jobs, cluster=cluster)
    return [_cell(experiment, name, found) for (experiment, name), found in places.items()]


def rows(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """The table under `HEADER`."""
    table = []
    for cell in cells:
        low, high = cell.interval()
        table.append((cell.experiment, cell.variant, cell.metric, str(len(cell.figures)),
                      f"{statistics.fmean(cell.figures):.2f}", NONE if low != low else f"{low:.2f} to {high:.2f}",
                      f"{cell.worst():.2f}", f"{cell.updates:,.0f}", f"{cell.minutes:.1f}"))
    return table


def _cells(study: Study, path: Path, overrides: Sequence[str]) -> list[tuple[str, Path, list[str]]]:
    """Variant, experiment and overrides of each cell."""
    common = [*config_file.as_overrides(study.settings), *overrides]
    return [(name, config_file.find(yaml, path.parent), [*common, *config_file.as_overrides(changes)])
            for yaml in study.yamls for name, changes in study.variants.items()]


def _cell(experiment: str, name: str, directories: Sequence[Path]) -> Cell:
    found = [read_summary(directory) for directory in directories]
    figures = [one.primary("test") for one in found]
    if None in figures:
        raise DataError("the run was not evaluated on 'test'", file=str(directories[figures.index(None)]),
                        expected="a metric of the study's table", remedy="add it to data.test_splits")
    return Cell(experiment, name, found[0].primary_metric, found[0].higher_is_better, tuple(figures),
                statistics.fmean(one.updates for one in found), statistics.fmean(one.seconds for one in found) / 60)
