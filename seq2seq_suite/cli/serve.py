"""The verb `serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2seq_suite.cli.arguments import texts_and_overrides
from seq2seq_suite.cli.completion import runs_and_keys
from seq2seq_suite.cli.parameters import TrustCode


def serve(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            show_default=False,
            autocompletion=runs_and_keys,
            help=("Directories that `run` wrote, and changes such as search.beam_size=4."),
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="Port on 127.0.0.1 (0: any free).")] = 8000,
    max_text: Annotated[int, typer.Option(min=1, max=10**6, metavar="N", help="Most characters of a text.")] = 20_000,
    max_megabytes: Annotated[
        float, typer.Option(min=0.01, max=1000, metavar="N", help=("Largest sound file or picture, in megabytes."))
    ] = 16.0,
    seconds: Annotated[float, typer.Option(min=0.1, max=3600, metavar="N", help="Timeout of a request.")] = 30.0,
    queue: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Most waiting requests.")] = 32,
    rate: Annotated[float, typer.Option(min=0.1, max=10**6, metavar="N", help="Most requests a second.")] = 200.0,
    trust_code: TrustCode = False,
) -> None:
    """Try runs in a browser: type, speak or drop a picture.

    The page and its JSON interface are on 127.0.0.1 alone; /docs describes the interface.

    \b
    Examples:
      python -m seq2seq_suite serve runs/translation runs/translation-nat runs/parsing
      python -m seq2seq_suite serve runs/detection --port 8080
    """
    from seq2seq_suite.serve.limits import Limits
    from seq2seq_suite.serve.server import serve as start

    directories, changes = texts_and_overrides(runs)
    start(
        [Path(one) for one in directories],
        changes,
        port=port,
        trust_code=trust_code,
        limits=Limits(text=max_text, megabytes=max_megabytes, seconds=seconds, queue=queue, rate=rate),
    )
