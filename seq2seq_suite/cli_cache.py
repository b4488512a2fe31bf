"""The verb `cache`."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.report.tables import print_table


def cache(
    folder: Annotated[Path | None, typer.Option(metavar="DIR", show_default=False, help=(
        "The folder that `data.cache` names, if not the usual one."))] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete all of it. Speech runs that train now need theirs.")
                     ] = False,
) -> None:
    """Show what is kept for later runs: encoded corpora, their vocabularies, embedded texts, and features of sound.

    Whatever is missing is made again.

    \b
    Example:
      python -m seq2seq_suite cache --clear
    """
    from seq2seq_suite.data import cache

    corpora = folder or cache.root() / cache.CORPORA
    kept = cache.entries(corpora)
    rows = [(one.path.name, f"{one.size / 1e6:,.1f} MB", f"{datetime.fromtimestamp(one.used):%Y-%m-%d %H:%M}")
            for one in kept]
    total = sum(one.size for one in kept)
    features = cache.root() / cache.FEATURES
    if folder is None and features.is_dir():
        total += (size := cache.size_of(features))
        rows.append((str(features), f"{size / 1e6:,.1f} MB", ""))
    print_table((str(corpora), "size", "last used"), [*rows, ("all", f"{total / 1e6:,.1f} MB", "")])
    if clear:
        cache.clear(corpora)
        if folder is None:
            shutil.rmtree(features, ignore_errors=True)
        print("deleted")
