"""The verb `cache`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.terminal.tables import print_table

_OURS = ("??/*.safetensors", "step-*")  # features and compiled code in their folders


def cache(
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default=False, help=("The folder of `data.cache`, if not the default.")),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Delete everything. Not while a speech run trains.")] = False,
    keep: Annotated[
        float | None,
        typer.Option(
            metavar="GB",
            min=0.001,
            show_default=False,
            help=("Delete encoded corpora and texts, least recently used first, down to this size."),
        ),
    ] = None,
) -> None:
    """Show or clear the cache.

    It holds encoded corpora with their vocabularies, embedded texts, features of sound, and compiled code.
    A run that needs a missing entry makes it again.

    \b
    Example:
      python -m seq2seq_suite cache --clear
      python -m seq2seq_suite cache --keep 20
    """
    from seq2seq_suite.common.files import cache_root
    from seq2seq_suite.data import cache
    from seq2seq_suite.kernels.native import COMPILED

    corpora = folder or cache_root() / cache.CORPORA
    kept = cache.entries(corpora)
    rows = [
        (one.path.name, f"{one.size / 1e6:,.1f} MB", f"{datetime.fromtimestamp(one.used):%Y-%m-%d %H:%M}")
        for one in kept
    ]
    if (clear or keep is not None) and not kept and folder is not None and any(folder.glob("*")):
        raise ConfigError(
            "this folder has no cache of the suite",
            file=str(folder),
            expected="a folder of data.cache",
            remedy="delete it yourself if you want to",
        )
    total = sum(one.size for one in kept)
    others = [cache_root() / name for name in (cache.FEATURES, COMPILED)] if folder is None else []
    for other in filter(Path.is_dir, others):
        total += (size := cache.size_of(other))
        rows.append((str(other), f"{size / 1e6:,.1f} MB", ""))
    print_table((str(corpora), "size", "last used"), [*rows, ("all", f"{total / 1e6:,.1f} MB", "")])
    if keep is not None:
        cache.clear(corpora, keep=int(keep * 1e9))
    if clear:
        cache.clear(corpora)
        for file in (file for other in others for pattern in _OURS for file in other.glob(pattern)):
            file.unlink(missing_ok=True)
        print("deleted")
