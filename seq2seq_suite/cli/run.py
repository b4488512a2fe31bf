"""The verb `run`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.cli.arguments import PROGRAM, directories_of, muted, yamls_and_overrides
from seq2seq_suite.cli.compare import compare_and_print
from seq2seq_suite.cli.completion import experiments_and_keys
from seq2seq_suite.cli.parameters import TrustCode, Yaml
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.terminal.progress import preparing
from seq2seq_suite.terminal.tables import print_summary, print_table


def run(
    yaml: Yaml,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            show_default=False,
            autocompletion=experiments_and_keys,
            help="Changes to the configuration, such as search.beam_size=4.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default=False, help=("Where to write; by default runs/<name of the YAML file>.")
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the directory.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run in the directory first.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only; log.txt has all messages.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also print all keys and the time of each phase.")] = False,
    trust_code: TrustCode = False,
) -> None:
    """Train, keep the best checkpoint, score it on the test split.

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
            with config_file.locating(path, changes):
                summary = verbs.run(config, directory, resume=resume, overwrite=overwrite, command=command)
            print_summary(summary)
            if verbose and "phase_seconds" in summary:  # a run that was finished earlier may have none
                print_table((), [(name, f"{seconds:.1f} s") for name, seconds in summary["phase_seconds"].items()])
            place = shlex.quote(str(directory))
            task = "".join(f" --task {name}" for name in [*config.tasks][:1])
            print(
                f"the run is in {directory}\n  report: {directory / 'report.html'}\n"
                f"  next:   {PROGRAM} predict {place}{task}",
                flush=True,
            )
        if len(paths) > 1 and distributed.ranks().is_first:
            print()
            with trusting(any(config.code for config in configs)):  # copied into the runs
                compare_and_print(directories, split=None, measure=True)
