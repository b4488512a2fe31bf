"""The cost and gain of joint training: each task alone, jointly, and fine-tuned after joint training.

    python -m seq2seq_suite run tasks/multitask.yaml
    python -m benchmarks.multitask runs/multitask --jobs 2 --threads 1 --output multitask.md --plot multitask.png

A single-task run has the joint run's sizes and settings and one update for each of the task's batches in the joint run;
the fine-tuned one starts from the joint weights and trains for a part of that number. Both are in
`runs/multitask-parts`; finished ones are kept, so that an interrupted study resumes. Several joint runs that differ in
the seed make one table of their means.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.picture import picture
from seq2seq_suite.config import config_file
from seq2seq_suite.metrics.significance import compare_seeds, holm, t_interval
from seq2seq_suite.runs.joint_directories import task_directories
from seq2seq_suite.studies.compare import Comparison, Row, compare_runs
from seq2seq_suite.studies.sweep import run_all
from seq2seq_suite.terminal.tables import chance

ALONE, TOGETHER, TUNED = "alone", "together", "then tuned"
Places = Mapping[str, Mapping[str, Path]]  # task -> kind -> directory


@dataclass(frozen=True)
class Study:
    """A joint run and the runs that it is compared with.

    Args:
        places: task -> kind -> directory.
        found: what `compare` says of them, in the same order.
    """

    places: Places
    found: Comparison

    @classmethod
    def read(cls, places: Places, *, split: str = "test") -> Study:
        """All of whose runs are finished."""
        directories = [path for of_task in places.values() for path in of_task.values()]
        return cls(places, compare_runs(directories, split=split, measure=False))

    def rows(self) -> dict[str, dict[str, Row]]:
        """Task -> kind -> its row."""
        rows = iter(self.found.rows)
        return {task: {kind: next(rows) for kind in runs} for task, runs in self.places.items()}

    def changes(self) -> dict[str, dict[str, float]]:
        """Task -> kind other than alone -> its metric minus the single-task run's."""
        return {
            task: {kind: row.figure - of_kind[ALONE].figure for kind, row in of_kind.items() if kind != ALONE}
            for task, of_kind in self.rows().items()
        }

    def updates(self, task: str) -> int:
        """Batches that the joint run has read of a task."""
        return _batches(self.places[task][TOGETHER])

    def sign(self, task: str) -> int:
        """1 where more of the task's metric is better, else -1."""
        return 1 if _summary(self.places[task][TOGETHER])["higher_is_better"] else -1

    def kinds(self) -> list[str]:
        """Of runs, that alone among them."""
        return list(next(iter(self.places.values())))


def planned(
    joint: Path, output: Path, *, share: float, rate: float, overrides: Sequence[str] = ()
) -> tuple[Places, dict[Path, tuple[Path, list[str]]]]:
    """Where each task's runs lie, and how those besides the joint one are trained.

    Args:
        joint: a finished joint run.
        output: where the others' directories lie.
        share: of the updates, for tuning; 0 leaves it out.
        rate: of the joint run's learning rate, for tuning.
        overrides: `key=value` for all.
    """
    peak = config_file.load(joint / "config.yaml").training.learning_rate
    places: dict[str, dict[str, Path]] = {}
    runs: dict[Path, tuple[Path, list[str]]] = {}
    common = ["training.accumulate=1", "training.max_minutes=100000", *overrides]
    for part in task_directories(joint):
        updates = _batches(part)
        places[part.name] = {ALONE: output / f"{part.name}-alone", TOGETHER: part}
        runs[places[part.name][ALONE]] = (
            part / "config.yaml",
            [*common, *_updates(updates), "backbone.source_tag=false"],
        )
        if not share:
            continue
        places[part.name][TUNED] = output / f"{part.name}-tuned"
        runs[places[part.name][TUNED]] = (
            part / "config.yaml",
            [
                *common,
                *_updates(max(round(share * updates), 1)),
                f"training.learning_rate={rate * peak:g}",
                f"init_from={part.resolve()}",
                "init_parts=[all]",
            ],
        )
    return places, runs


def _updates(number: int) -> list[str]:
    """A number of updates, with four validations."""
    return [f"training.max_updates={number}", f"training.validate_every={max(number // 4, 1)}"]


def _batches(part: Path) -> int:
    """That the joint run has read of a task."""
    return _summary(part)["batches"]


def _summary(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "summary.json").read_text(encoding="utf-8"))


def table(study: Study) -> list[str]:
    """A line for each task: its figures with bootstrap intervals, and the differences from the run alone.

    Their p-values are Holm's, for all tests of the comparison.
    """
    pairs = {frozenset((pair.first, pair.second)): pair for pair in study.found.pairs}
    changes = study.changes()
    lines = []
    for task, of_kind in study.rows().items():
        differences = []
        for kind, change in changes[task].items():
            pair = pairs.get(frozenset((of_kind[ALONE].run, of_kind[kind].run)))
            differences.append(f"{change:+.2f}" + (f" (p {chance(pair.holm_p)}, {pair.test})" if pair else ""))
        lines.append(
            [
                task,
                _metric(study, task),
                f"{study.updates(task):,}",
                *(_with_interval(row.figure, row.low, row.high) for row in of_kind.values()),
                *differences,
            ]
        )
    return markdown_table(_header(study), lines)


def table_of_seeds(studies: Sequence[Study]) -> list[str]:
    """A line for each task: its mean figures over the seeds, and the mean differences from the run alone.

    The differences are taken seed by seed; their intervals are those of the mean by Student's t, their p-values those
    of the paired t test, corrected by Holm for all of the table.
    """
    first, lines = studies[0], []
    p_values = iter(
        holm(
            [
                compare_seeds(
                    *([study.rows()[task][kind].figure for study in studies] for kind in (ALONE, other))
                ).p_value
                for task in first.places
                for other in first.kinds()
                if other != ALONE
            ]
        )
    )
    for task in first.places:
        rows = [study.rows()[task] for study in studies]
        changes = [study.changes()[task] for study in studies]
        figures = [[of_kind[kind].figure for of_kind in rows] for kind in first.kinds()]
        differences = [[change[kind] for change in changes] for kind in first.kinds() if kind != ALONE]
        lines.append(
            [
                task,
                _metric(first, task),
                f"{statistics.fmean(study.updates(task) for study in studies):,.0f}",
                *(f"{statistics.fmean(of_seeds):.2f}" for of_seeds in figures),
                *(
                    _with_interval(statistics.fmean(of_seeds), *t_interval(of_seeds), sign="+")
                    + f", p {chance(next(p_values))}"
                    for of_seeds in differences
                ),
                *(", ".join(f"{one:+.2f}" for one in of_seeds) for of_seeds in differences),
            ]
        )
    header = _header(first)
    return markdown_table([*header, *(f"{name}, each seed" for name in header[-(len(first.kinds()) - 1) :])], lines)


def _header(study: Study) -> list[str]:
    return [
        "task",
        "metric",
        "updates",
        *study.kinds(),
        *(f"{kind} - {ALONE}" for kind in study.kinds() if kind != ALONE),
    ]


def _metric(study: Study, task: str) -> str:
    return study.rows()[task][ALONE].metric + ("" if study.sign(task) > 0 else ", less is better")


def _with_interval(figure: float, low: float, high: float, *, sign: str = "") -> str:
    """A figure and, where it is known, its interval.

    >>> _with_interval(1.0, 0.5, 1.5), _with_interval(1.0, math.nan, math.nan, sign="+")
    ('1.00 (0.50 to 1.50)', '+1.00')
    """
    ends = "" if math.isnan(low) else f" ({low:{sign}.2f} to {high:{sign}.2f})"
    return f"{figure:{sign}.2f}{ends}"


def plot(studies: Sequence[Study], path: Path) -> None:
    """For each task, the gain of the joint run and of the fine-tuned one over the single-task run.

    Bars are means over the studies, each of which has a point.
    """
    first = studies[0]
    kinds = [kind for kind in first.kinds() if kind != ALONE]
    width = 0.76 / len(kinds)
    with picture(path, (1.5 * len(first.places) + 1, 4.5)) as (figure, (axes,)):
        for place, kind in enumerate(kinds):
            gains = [[first.sign(task) * study.changes()[task][kind] for study in studies] for task in first.places]
            middles = [index + width * (place - (len(kinds) - 1) / 2) for index in range(len(gains))]
            means = [statistics.fmean(of_seeds) for of_seeds in gains]
            seeds = f", mean of {len(studies)} seeds (dots)" if len(studies) > 1 else ""
            axes.bar(middles, means, width=width - 0.02, label=kind + seeds)
            for middle, mean, of_seeds in zip(middles, means, gains, strict=True):
                up = mean >= 0
                axes.annotate(
                    f"{round(mean, 1) + 0.0:+.1f}",
                    (middle, max(of_seeds) if up else min(of_seeds)),
                    (0, 4 if up else -4),
                    textcoords="offset points",
                    ha="center",
                    va="bottom" if up else "top",
                    fontsize="small",
                )
                if len(studies) > 1:
                    axes.plot([middle] * len(of_seeds), of_seeds, "o", color="black", markersize=3, alpha=0.6)
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.axhline(-1.0, color="grey", linewidth=0.8, linestyle="--")
        axes.set_xticks(
            range(len(first.places)),
            [
                f"{task.replace('_', ' ')}\n{_metric(first, task).partition(',')[0].replace('_', ' ')} "
                f"{statistics.fmean(study.rows()[task][ALONE].figure for study in studies):.1f}"
                for task in first.places
            ],
        )
        axes.set(ylabel="points better than alone, on test", xlabel="below each task the metric and its figure alone")
        axes.margins(y=0.12)
        axes.spines["bottom"].set_visible(False)
        figure.legend(loc="outside upper center", ncols=2, frameon=False)


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, plot the gains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("joint", nargs="+", type=Path, help="finished joint runs, of one or of several seeds")
    parser.add_argument("--override", nargs="+", default=[], metavar="KEY=VALUE", help="for every run")
    parser.add_argument("--tuned", type=float, default=0.25, help="of a task's updates, for tuning; 0: no tuning")
    parser.add_argument("--rate", type=float, default=0.3, help="of the joint learning rate, for tuning")
    parser.add_argument("--split", default="test")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--plot", type=Path, help="PNG")
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_intermixed_args(given)
    plans = [
        planned(
            joint,
            joint.with_name(f"{joint.name}-parts"),
            share=arguments.tuned,
            rate=arguments.rate,
            overrides=[*arguments.override, f"training.threads={arguments.threads}"],
        )
        for joint in arguments.joint
    ]
    run_all({path: run for _, runs in plans for path, run in runs.items()}, jobs=arguments.jobs)
    studies = [Study.read(places, split=arguments.split) for places, _ in plans]
    if arguments.plot:
        plot(studies, arguments.plot)
    kinds = studies[0].kinds()
    names = ", ".join(f"`{joint.name}`" for joint in arguments.joint)
    publish(
        [
            f"## {', '.join(kinds).capitalize()}: {names}, {arguments.split}",
            "",
            *(table(studies[0]) if len(studies) == 1 else table_of_seeds(studies)),
            "",
            *provenance(", ".join(str(study.found.rows[0].seed) for study in studies), arguments.threads),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
