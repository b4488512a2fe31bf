"""The verb `distill`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.cli.arguments import Inputs, only_overrides
from seq2seq_suite.cli.parameters import Overrides, RunPath, TrustCode
from seq2seq_suite.terminal.tables import figure


def distill(
    directory: RunPath,
    output: Annotated[Path, typer.Option(metavar="FOLDER", show_default=False, help="Where to write the data.")],
    sources: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help=("More sources without targets, one on each line; may be repeated."),
        ),
    ] = None,
    overrides: Overrides = None,
    trust_code: TrustCode = False,
) -> None:
    """Write a run's outputs as training data for a parallel decoder.

    All sources of the split train are decoded, whatever data.share is.

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
    more = {
        name: [run.example(text, file=file, line=line) for text, (file, line) in Inputs((), name).look()]
        for name in sources or []
    }
    facts = distill.distill(run.opened, directory, output, command=sys.argv, more=more)
    agreement = ", ".join(f"{name} {figure(value)}" for name, value in facts["against_references"].items())
    print(
        f"{output}: {facts['rows']:,} targets ({facts['empty']:,} empty ones kept as they were)\n"
        f"against the references: {agreement}"
    )
    for name, added in facts["more_sources"].items():
        print(f"{name}: {added['rows']:,} more (left out: {added['known']:,} known, {added['empty']:,} empty outputs)")
