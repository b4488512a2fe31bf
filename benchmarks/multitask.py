"""What one set of weights costs or gives: each task alone, jointly, and jointly and then by itself.

    python -m seq2seq_suite run tasks/multitask.yaml
    python -m benchmarks.multitask runs/multitask --jobs 2 --threads 1 --output multitask.md --plot multitask.png

A task alone has the joint run's sizes and settings and as many updates as the joint run has read batches of it; the
tuned one begins with the joint weights and learns a part of that number more. Both lie in `runs/multitask-parts`;
finished ones are kept, so that an interrupted study goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.picture import picture
from seq2seq_suite import config_file
from seq2seq_suite.report.comparison import chance
from seq2seq_suite.training.comparison import Comparison, Row, compare_runs
from seq2seq_suite.training.joint import parts_of
from seq2seq_suite.training.sweep import run_all

ALONE, TOGETHER, TUNED = "alone", "together", "then tuned"
Runs = Mapping[str, Mapping[str, Path]]  # task -> kind -> directory


def planned(joint: Path, output: Path, *, share: float, rate: float, overrides: Sequence[str] = ()
            ) -> tuple[Runs, dict[Path, tuple[Path, list[str]]]]:
    """Where each task's runs lie, and how those besides the joint one are trained.

    Args:
        joint: a finished joint run.
        output: where the others' directories lie.
        share: of the updates, for tuning.
        rate: of the joint run's learning rate, for tuning.
        overrides: `key=value` for all.
    """
    peak = config_file.load(joint / "config.yaml").training.learning_rate
    places: dict[str, dict[str, Path]] = {}
    runs: dict[Path, tuple[Path, list[str]]] = {}
    for part in parts_of(joint):
        updates = _batches(part)
        places[part.name] = {ALONE: output / f"{part.name}-alone", TOGETHER: part,
                             TUNED: output / f"{part.name}-tuned"}
        tuned = max(round(share * updates), 1)
        common = ["training.accumulate=1", "training.max_minutes=100000", *overrides]
        runs[places[part.name][ALONE]] = part / "config.yaml", [
            *common, *_updates(updates), "backbone.source_tag=false"]
        runs[places[part.name][TUNED]] = part / "config.yaml", [
            *common, *_updates(tuned), f"training.learning_rate={rate * peak:g}", f"init_from={part.resolve()}",
            "init_parts=[all]"]
    return places, runs


def _updates(number: int) -> list[str]:
    """So many updates, with four looks at the validation split."""
    return [f"training.max_updates={number}", f"training.validate_every={max(number // 4, 1)}"]


def _batches(part: Path) -> int:
    """That the joint run has read of a task."""
    return json.loads((part / "summary.json").read_text(encoding="utf-8"))["batches"]


def table(places: Runs, found: Comparison) -> list[str]:
    """A line for each task: its figures with bootstrap intervals, differences from the run alone and their chance."""
    pairs = {(pair.first, pair.second): pair for pair in found.pairs}
    lines = []
    for task, of_kind in _rows(places, found).items():
        changes = []
        for kind in (TOGETHER, TUNED):
            pair = pairs.get((of_kind[ALONE].run, of_kind[kind].run))
            difference = of_kind[kind].figure - of_kind[ALONE].figure
            changes.append(f"{difference:+.2f}" + (f" (p {chance(pair.bootstrap_p)})" if pair else ""))
        metric = of_kind[ALONE].metric + ("" if _sign(places[task]) > 0 else ", less is better")
        lines.append([task, metric, f"{_batches(places[task][TOGETHER]):,}", *map(_with_interval, of_kind.values()),
                      *changes])
    header = ["task", "metric", "updates", ALONE, TOGETHER, TUNED, f"{TOGETHER} - {ALONE}", f"{TUNED} - {ALONE}"]
    return markdown_table(header, lines)


def _with_interval(row: Row) -> str:
    return f"{row.figure:.2f}" + (f" ({row.low:.2f} to {row.high:.2f})" if row.low == row.low else "")


def _rows(places: Runs, found: Comparison) -> dict[str, dict[str, Row]]:
    """Task -> kind -> its row."""
    rows = iter(found.rows)
    return {task: {kind: next(rows) for kind in runs} for task, runs in places.items()}


def _sign(runs: Mapping[str, Path]) -> int:
    """1 where more of the task's metric is better, else -1."""
    return 1 if json.loads((runs[TOGETHER] / "summary.json").read_text(encoding="utf-8"))["higher_is_better"] else -1


def plot(places: Runs, found: Comparison, path: Path) -> None:
    """For each task, by how many points the joint run and the tuned one are better than the run alone."""
    rows = _rows(places, found)
    with picture(path, (1.5 * len(places) + 1, 4.5)) as (figure, (axes,)):
        for place, kind in enumerate((TOGETHER, TUNED)):
            gains = [_sign(places[task]) * (of_kind[kind].figure - of_kind[ALONE].figure)
                     for task, of_kind in rows.items()]
            middles = [index + 0.38 * (place - 0.5) for index in range(len(gains))]
            bars = axes.bar(middles, gains, width=0.36, label=kind)
            axes.bar_label(bars, [f"{round(gain, 1) + 0.0:+.1f}" for gain in gains], padding=2, fontsize="small")
        axes.axhline(0.0, color="black", linewidth=0.8)
        axes.axhline(-1.0, color="grey", linewidth=0.8, linestyle="--")
        axes.set_xticks(range(len(places)), [
            f"{task.replace('_', ' ')}\n{of_kind[ALONE].metric.replace('_', ' ')} {of_kind[ALONE].figure:.1f}"
            for task, of_kind in rows.items()])
        axes.set(ylabel="points better than alone, on test", xlabel="below each task the metric and its figure alone")
        axes.margins(y=0.12)
        axes.spines["bottom"].set_visible(False)
        figure.legend(loc="outside upper center", ncols=2, frameon=False)


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, draw what was gained."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("joint", type=Path, help="a finished joint run")
    parser.add_argument("override", nargs="*", help="key=value for every run")
    parser.add_argument("--tuned", type=float, default=0.25, help="of a task's updates, for tuning")
    parser.add_argument("--rate", type=float, default=0.3, help="of the joint learning rate, for tuning")
    parser.add_argument("--split", default="test")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--runs", type=Path, help="where the runs lie (default: beside the joint run, JOINT-parts)")
    parser.add_argument("--plot", type=Path, help="PNG")
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_args(given)
    output = arguments.runs or arguments.joint.with_name(f"{arguments.joint.name}-parts")
    places, runs = planned(arguments.joint, output, share=arguments.tuned, rate=arguments.rate,
                              overrides=[*arguments.override, f"training.threads={arguments.threads}"])
    run_all(runs, jobs=arguments.jobs)
    found = compare_runs([path for of_task in places.values() for path in of_task.values()], split=arguments.split,
                         measure=False)
    if arguments.plot:
        plot(places, found, arguments.plot)
    publish([f"## Alone, together, together and then tuned: `{arguments.joint.name}`, {arguments.split}", "",
             *table(places, found), "",
             *provenance(found.rows[0].seed, arguments.threads)], arguments)


if __name__ == "__main__":
    main()
