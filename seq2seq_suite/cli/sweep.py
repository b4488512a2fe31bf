"""The verb `sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2seq_suite.cli.arguments import find_yaml, only_overrides
from seq2seq_suite.cli.compare import compare_and_print
from seq2seq_suite.cli.completion import keys
from seq2seq_suite.cli.parameters import TrustCode, Yaml
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError


def sweep(
    yaml: Yaml,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=A,B,C",
            show_default=False,
            autocompletion=keys,
            help=(
                "Values to combine, such as backbone.norm=layer,rms seed=1,2,3; for a study, key=value for all runs."
            ),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default=False,
            help=("Where to write the runs; by default runs/sweep-<the file's name>."),
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", show_default=False, help=("Runs at a time: one by default, on a cluster all.")
        ),
    ] = None,
    executor: Annotated[
        Literal["here", "submitit"],
        typer.Option(
            help=("submitit sends the runs to SLURM, or without SLURM to processes on this machine (extra `cluster`).")
        ),
    ] = "here",
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="YAML",
            show_default=False,
            help=("For submitit: partition, time, memory and GPUs of each job (seq2seq_suite/training/README.md)."),
        ),
    ] = None,
    on: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="YAML",
            show_default=False,
            help=("An experiment to study instead of the study's own; may be repeated."),
        ),
    ] = None,
    trust_code: TrustCode = False,
) -> None:
    """Run every combination of some settings and compare them.

    They are compared on the validation split. Called again, it resumes.
    Prints means over the seeds, and writes them beside the runs: means.md, .tex and .csv, and without a study the runs
    themselves, too: comparison.html and .csv.
    A study (listed by `tasks`) names experiments, variants and seeds.
    The test split is not used for choosing: `evaluate RUN` scores it for the run that you choose; a study with
    `report_test: true` also reports it.

    \b
    Examples:
      python -m seq2seq_suite sweep translation backbone.norm_placement=pre,post seed=1,2,3
      python -m seq2seq_suite sweep norms training.max_minutes=0.5
      python -m seq2seq_suite sweep norms --executor submitit --cluster cluster.yaml
    """
    from seq2seq_suite.config.config_file import is_study, parse
    from seq2seq_suite.studies import study
    from seq2seq_suite.studies.slurm import Cluster
    from seq2seq_suite.studies.sweep import sweep as run_all

    path, given = find_yaml(yaml), only_overrides(settings or [])
    folder = output or Path("runs") / f"sweep-{path.stem}"
    if cluster and executor != "submitit":
        raise ConfigError("--cluster is for submitit", file=COMMAND_LINE, expected="--executor submitit")
    engine = Cluster(folder / "submitit", cluster, jobs=jobs) if executor == "submitit" else None
    if is_study(parse(path)):
        yamls = [find_yaml(str(one)) for one in on or ()]
        cells = study.run(path, folder, yamls=yamls, overrides=given, jobs=jobs or 1, cluster=engine)
    elif on:
        raise ConfigError(
            "--on is for studies",
            file=COMMAND_LINE,
            expected=f"a study, not the experiment {path}",
            remedy="name a study first, such as norms; `tasks` lists them",
        )
    elif not given:
        raise ConfigError("there is nothing to combine", file=COMMAND_LINE, expected="KEY=A,B,C, such as seed=1,2,3")
    else:
        directories = run_all(path, given, folder, jobs=jobs or 1, cluster=engine)
        print(f"\n{study.TITLES['validation']}")
        compare_and_print(
            directories,
            split="validation",
            measure=False,
            html=folder / "comparison.html",
            table=folder / "comparison.csv",
        )
        print(f"{folder}: comparison.html, comparison.csv")
        cells = study.of_sweep(path, given, folder)
        if all(len(cell.figures) == 1 for cell in cells):  # the comparison says it all
            return
    study.show(cells)
    study.write(cells, folder)
    print(f"{folder}: {', '.join(study.FILES)}")
