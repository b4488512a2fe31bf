"""The command line: run, evaluate, predict, serve, export, compare, check and score.

Exit codes: 0 done, 2 the user's input is wrong, 1 something failed while running, 130 interrupted. Heavy
modules are imported inside the verbs, so that help and error messages appear without delay.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2seq_suite.cli import presets as cli_presets
from seq2seq_suite.cli.arguments import (
    PROGRAM,
    Inputs,
    check_targets,
    directories_of,
    find_yaml,
    muted,
    only_overrides,
    open_streams,
    refuse_early,
    yamls_and_overrides,
)
from seq2seq_suite.cli.cache import cache
from seq2seq_suite.cli.completion import (
    answer,
    completion,
    experiments,
    experiments_and_keys,
    is_asked,
    keys,
    runs,
    splits,
)
from seq2seq_suite.cli.exit_codes import finish, start
from seq2seq_suite.cli.export import export
from seq2seq_suite.cli.predict import TrustCode, evaluate, predict
from seq2seq_suite.cli.score import Overrides, Tables, score
from seq2seq_suite.cli.serve import serve
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.lab.cli import app as lab
from seq2seq_suite.terminal.progress import preparing
from seq2seq_suite.terminal.tables import check_table, figure, print_summary, print_table

app = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})

Yaml = Annotated[str, typer.Argument(metavar="YAML", show_default=False, autocompletion=experiments,
                                     help="The experiment's file, or a preset.")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", show_default=False, autocompletion=runs,
                                         help="The directory that `run` wrote.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: without the program's name; by default those of this process.

    Returns:
        The exit code. Internal errors are not caught: Python prints their stack trace and exits with 1.
    """
    open_streams()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    processes = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1  # as torchrun sets them

    def work() -> None:
        if is_asked():
            answer(app)
        refuse_early(arguments, processes=processes)
        start(app, arguments, PROGRAM)

    return finish(work, processes=processes)


@app.callback()
def _program(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """One Transformer core, many sequence-to-sequence tasks.

    \b
    A first run, on embedded data:
      python -m seq2seq_suite run parsing
      python -m seq2seq_suite predict runs/parsing "the cat sleeps"

    `VERB --help` explains a verb and gives an example.
    """


@app.command()
def run(
    yaml: Yaml,
    overrides: Annotated[list[str] | None, typer.Argument(
        metavar="KEY=VALUE", show_default=False, autocompletion=experiments_and_keys,
        help="Changes to the configuration, such as search.beam_size=4.")] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", show_default=False, help=(
        "Where to write; by default runs/<name of the YAML file>."))] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the directory.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run in the directory first.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors; log.txt has it all.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print every key, and where the time went.")] = False,
    trust_code: TrustCode = False,
) -> None:
    """Train, keep the best checkpoint and score it on the test split.

    Several YAML files are run one after the other, with the same changes, and then compared.
    Under torchrun several processes share every batch, on the GPUs of one machine or of many.

    \b
    Examples:
      python -m seq2seq_suite run parsing translation backbone.width=128
      python -m seq2seq_suite run parsing training.max_minutes=5 --output runs/quick
      torchrun --nproc_per_node=2 -m seq2seq_suite run parsing
    """
    paths, changes = yamls_and_overrides([yaml, *(overrides or [])])
    if not quiet and os.environ.get("RANK", "0") == "0":  # importing PyTorch takes a second and more
        print(f"reading {', '.join(map(str, paths))} and the data, building the model", flush=True)
    directories = directories_of(paths, output)
    options = [*(["--resume"] if resume else []), *(["--overwrite"] if overwrite else [])]
    with muted(quiet):
        with preparing("loading PyTorch"):
            from seq2seq_suite.config import config_file

            # All configurations are read first: a mistake in the last should not be found out after hours.
            configs = [config_file.load(path, changes, own=True) for path in paths]
            from seq2seq_suite.experiments import verbs
            from seq2seq_suite.runs import distributed

        for path, config, directory in zip(paths, configs, directories, strict=True):
            command = [*PROGRAM.split(), "run", str(path), *changes, "--output", str(directory), *options]
            if verbose and distributed.ranks().is_first:
                print(config_file.dump(config))
            summary = verbs.run(config, directory, resume=resume, overwrite=overwrite, command=command)
            print_summary(summary)
            if verbose and "phase_seconds" in summary:  # a run that was finished earlier may have none
                print_table((), [(name, f"{seconds:.1f} s") for name, seconds in summary["phase_seconds"].items()])
            place = shlex.quote(str(directory))
            task = "".join(f" --task {name}" for name in [*config.tasks][:1])
            print(f"the run is in {directory}\n  report: {directory / 'report.html'}\n"
                  f"  next:   {PROGRAM} predict {place}{task}", flush=True)
        if len(paths) > 1 and distributed.ranks().is_first:
            print()
            with trusting(any(config.code for config in configs)):  # copied into the runs
                _compare(directories, split=None, measure=True)


@app.command()
def sweep(
    yaml: Yaml,
    settings: Annotated[list[str] | None, typer.Argument(metavar="KEY=A,B,C", show_default=False,
                                                         autocompletion=keys, help=(
        "Values to combine, such as backbone.norm=layer,rms seed=1,2,3; for a study, key=value for all runs."))] = None,
    output: Annotated[Path | None, typer.Option(metavar="DIR", show_default=False, help=(
        "Where to write the runs; by default runs/sweep-<the file's name>."))] = None,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", show_default=False, help=(
        "Runs at a time: one by default, on a cluster all."))] = None,
    executor: Annotated[Literal["here", "submitit"], typer.Option(help=(
        "submitit sends the runs to SLURM, or where that is not to processes of this machine "
        "(extra `cluster`)."))] = "here",
    cluster: Annotated[Path | None, typer.Option(metavar="YAML", show_default=False, help=(
        "For submitit: partition, time, memory and GPUs of each job (seq2seq_suite/training/README.md)."))] = None,
    on: Annotated[list[Path] | None, typer.Option(metavar="YAML", show_default=False, help=(
        "An experiment to study instead of the study's own; may be repeated."))] = None,
    trust_code: TrustCode = False,
) -> None:
    """Run every combination of some settings, then compare on the validation split. Called again, it resumes.

    It ends in means over the seeds, where there are several, and writes its tables beside the runs: comparison.html
    and .csv, means.md, .tex and .csv. A study (listed by `tasks`) names experiments, variants and seeds.
    The test split chooses nothing: `evaluate RUN` scores it for the run that you choose; a study with
    `report_test: true` also reports it.

    \b
    Examples:
      python -m seq2seq_suite sweep translation backbone.norm_placement=pre,post seed=1,2,3
      python -m seq2seq_suite sweep norms training.max_minutes=0.5
      python -m seq2seq_suite sweep norms --executor submitit --cluster cluster.yaml
    """
    from seq2seq_suite.studies import study
    from seq2seq_suite.studies.slurm import Cluster
    from seq2seq_suite.studies.sweep import sweep as run_all

    path, given = find_yaml(yaml), only_overrides(settings or [])
    folder = output or Path("runs") / f"sweep-{path.stem}"
    if cluster and executor != "submitit":
        raise ConfigError("--cluster is for submitit", file=COMMAND_LINE, expected="--executor submitit")
    engine = Cluster(folder / "submitit", cluster, jobs=jobs) if executor == "submitit" else None
    if study.is_study(path):
        yamls = [find_yaml(str(one)) for one in on or ()]
        cells = study.run(path, folder, yamls=yamls, overrides=given, jobs=jobs or 1, cluster=engine)
    elif on:
        raise ConfigError("--on is for studies", file=COMMAND_LINE, expected=f"a study, not the experiment {path}",
                          remedy="name a study first, such as norms; `tasks` lists them")
    elif not given:
        raise ConfigError("there is nothing to combine", file=COMMAND_LINE, expected="KEY=A,B,C, such as seed=1,2,3")
    else:
        directories = run_all(path, given, folder, jobs=jobs or 1, cluster=engine)
        print(f"\n{study.TITLES['validation']}")
        _compare(directories, split="validation", measure=False, html=folder / "comparison.html",
                 table=folder / "comparison.csv")
        print(f"{folder}: comparison.html, comparison.csv")
        cells = study.of_sweep(path, given, folder)
        if all(len(cell.figures) == 1 for cell in cells):  # the comparison says it all
            return
    study.show(cells)
    study.write(cells, folder)
    print(f"{folder}: {', '.join(study.FILES)}")


for verb in (evaluate, predict, score, serve, export, cli_presets.tasks, cli_presets.init, cli_presets.schema, cache,
             completion):
    app.command()(verb)


@app.command()
def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="RUN...", show_default=False,
                                                           autocompletion=runs, help=(
        "Runs to compare, and files of other systems' outputs for the same split."))],
    split: Annotated[str, typer.Option(metavar="NAME", autocompletion=splits, help="The split to compare.")] = "test",
    html: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, help="Write a page.")] = None,
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", show_default=False, help="Write rows.")] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False, help="Write it all.")] = None,
    printed: Tables = None,
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure decoding speed.")] = True,
    trust_code: TrustCode = False,
) -> None:
    """Compare runs: metrics with intervals, failures, cost, p-values.

    Runs of one task on the same examples are tested in pairs: by McNemar's exact test where each counts 0 or 1, else by
    approximate randomisation. Variants that share two seeds or more are tested by their seeds instead.

    \b
    Examples:
      python -m seq2seq_suite compare runs/first runs/second --split validation --html comparison.html
      python -m seq2seq_suite compare runs/first dictionary.txt
    """
    check_targets({"--html": html, "--csv": table, "--json": json, "--table": printed})
    check_table(printed)
    _compare(directories, split=split, measure=speed, html=html, table=table, json=json, printed=printed)


@app.command()
def distill(
    directory: RunPath,
    output: Annotated[Path, typer.Option(metavar="FOLDER", show_default=False, help="Where to write the data.")],
    sources: Annotated[list[str] | None, typer.Option(metavar="FILE", show_default=False, help=(
        "More sources without targets, one on each line; may be repeated."))] = None,
    overrides: Overrides = None,
    trust_code: TrustCode = False,
) -> None:
    """Write a run's outputs as training data for a parallel decoder.

    \b
    Examples:
      python -m seq2seq_suite distill runs/translation --output distilled
      python -m seq2seq_suite distill runs/translation --output more --sources more-english.txt
      python -m seq2seq_suite run translation strategy.kind=ctc data.path=distilled --output runs/parallel
    """
    changes = only_overrides(overrides or [])
    from seq2seq_suite import api
    from seq2seq_suite.experiments import distill

    run = api.load(directory, settings=changes, trust_code=trust_code)
    more = {name: [run.example(text, file=file, line=line) for text, (file, line) in Inputs((), name).look()]
            for name in sources or []}
    facts = distill.distill(run.opened, directory, output, command=sys.argv, more=more)
    agreement = ", ".join(f"{name} {figure(value)}" for name, value in facts["against_references"].items())
    print(f"{output}: {facts['rows']:,} targets ({facts['empty']:,} empty ones kept as they were)\n"
          f"against the references: {agreement}")
    for name, added in facts["more_sources"].items():
        print(f"{name}: {added['rows']:,} more (left out: {added['known']:,} known, {added['empty']:,} empty outputs)")


@app.command()
def check(yaml: Yaml, overrides: Overrides = None, trust_code: TrustCode = False) -> None:
    """Examine a configuration and its data without training.

    Prints sizes, lengths, the share of unknown symbols, a sample and an estimate of memory.

    \b
    Example:
      python -m seq2seq_suite check parsing backbone.size=base
    """
    paths, changes = yamls_and_overrides([yaml, *(overrides or [])], most=1)
    from seq2seq_suite import api

    print_table((), api.check(paths[0], settings=changes))


app.add_typer(lab, name="lab")


def _compare(directories: Sequence[Path], *, split: str | None, measure: bool, html: Path | None = None,
             table: Path | None = None, json: Path | None = None, printed: Path | None = None) -> None:
    from seq2seq_suite.report.comparison import print_comparison, write_comparison
    from seq2seq_suite.studies.compare import compare_runs

    found = compare_runs(directories, split=split, measure=measure).plain()
    print_comparison(found["rows"], found["pairs"])
    write_comparison(found["rows"], found["pairs"], html=html, table=table, json=json, printed=printed)
