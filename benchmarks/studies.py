"""A study of `tasks/studies`, its table and its picture.

    python -m benchmarks.studies tasks/studies/norms.yaml --jobs 2 --threads 1 --output variants.md --plot norms.png

It runs what `python -m seq2seq_suite sweep` runs, in the same directories; finished runs are kept, so that an
interrupted study resumes.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.command_line import publish
from benchmarks.machine import markdown_table, provenance
from benchmarks.picture import picture
from benchmarks.surface import plot_surface, rows_of_times, timed
from seq2seq_suite.studies import study
from seq2seq_suite.studies.study import Cell


def table(cells: Sequence[Cell]) -> list[str]:
    """The lines of a study's tables for each split: the means, and each variant against the first of its experiment."""
    lines: list[str] = []
    for split in dict.fromkeys(cell.split for cell in cells):
        of_split = [cell for cell in cells if cell.split == split]
        unlike = study.unequal(of_split)
        lines += [*([""] if lines else []), study.TITLES[split], "", *([unlike, ""] if unlike else [])]
        lines += markdown_table(list(study.HEADER), [list(row) for row in study.rows(of_split)])
        if tests := [list(row) for row in study.tests(of_split)]:
            lines += ["", *markdown_table(list(study.TESTS), tests)]
    return [*lines, "", study.NOTE]


def plot(cells: Sequence[Cell], path: Path) -> None:
    """A panel for each experiment, in it a line for each variant: the seeds, their mean and its 95 % interval.

    On the validation split, which is what a study ranks on.
    """
    cells = [cell for cell in cells if cell.split == "validation"]
    experiments = list(dict.fromkeys(cell.experiment for cell in cells))
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    size = 3 * len(experiments) + 2.5, 0.35 * len(variants) + 1.2
    with picture(path, size, panels=len(experiments)) as (_, panels):
        for axes, experiment in zip(panels, experiments, strict=True):
            for cell in (cell for cell in cells if cell.experiment == experiment):
                line, mean = variants.index(cell.variant), statistics.fmean(cell.figures)
                low, high = cell.interval()
                if low == low:
                    axes.plot(
                        [low, high], [line, line], color="tab:blue", alpha=0.4, linewidth=3, solid_capstyle="butt"
                    )
                axes.plot(cell.figures, [line] * len(cell.figures), "o", color="tab:blue", markersize=3, alpha=0.6)
                axes.plot([mean], [line], "|", color="black", markersize=12)
                axes.set_xlabel(
                    f"{cell.metric.replace('_', ' ')} on validation"
                    + ("" if cell.higher_is_better else ", less is better")
                )
            axes.set_title(experiment, fontsize="medium")
            axes.set_xlim(_limits([cell for cell in cells if cell.experiment == experiment]))
            axes.grid(axis="x", alpha=0.3)
        panels[0].set_yticks(range(len(variants)), variants)
        panels[0].invert_yaxis()


def _limits(cells: Sequence[Cell]) -> tuple[float, float]:
    """Room for all figures and for their intervals, unless one of three seeds is far wider than all the figures."""
    figures = [one for cell in cells for one in cell.figures]
    low, high = min(figures), max(figures)
    margin = max(0.08 * (high - low), 0.25)
    ends = [
        min(max(end, low - 4 * margin), high + 4 * margin) for cell in cells for end in cell.interval() if end == end
    ]
    return min([low, *ends]) - margin, max([high, *ends]) + margin


def main(given: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="a file of tasks/studies")
    parser.add_argument("override", nargs="*", help="key=value for every run")
    parser.add_argument(
        "--on",
        type=Path,
        action="append",
        default=[],
        metavar="YAML",
        help="an experiment to study instead of those that the study names; may be repeated",
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="of each job")
    parser.add_argument("--runs", type=Path, help="where the runs lie (default: runs/sweep-STUDY)")
    parser.add_argument("--plot", type=Path, help="PNG")
    parser.add_argument(
        "--times",
        type=int,
        default=0,
        metavar="N",
        help="time N sentences of validation one by one, and four times as many in batches of 64: each search of the "
        "first seed's runs",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="NAME=RUN[:KEY=VALUE]",
        help="time another run, or one of the study's with another search; may be repeated",
    )
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    arguments = parser.parse_intermixed_args(given)
    asked = study.load(arguments.study, yamls=arguments.on, overrides=arguments.override)
    if arguments.beside and (not arguments.times or len(asked.yamls) > 1):
        parser.error("--beside goes with --times and one experiment")
    cells = study.run(
        arguments.study,
        arguments.runs or Path("runs") / f"sweep-{arguments.study.stem}",
        yamls=arguments.on,
        jobs=arguments.jobs,
        overrides=[*arguments.override, f"training.threads={arguments.threads}"],
    )
    torch.set_num_threads(arguments.threads)
    times = timed(cells, arguments.beside, arguments.times) if arguments.times else {}
    if arguments.plot and asked.searches:
        plot_surface(cells, arguments.plot, times)
    elif arguments.plot:
        plot(cells, arguments.plot)
    publish(
        [
            f"## {asked.question}",
            "",
            *table(cells),
            *rows_of_times(times, arguments.times),
            "",
            *provenance(", ".join(map(str, asked.seeds)), arguments.threads),
        ],
        arguments,
    )


if __name__ == "__main__":
    main()
