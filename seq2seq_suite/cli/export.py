"""The verb `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2seq_suite.cli.parameters import RunPath, TrustCode


def export(
    run: RunPath,
    folder: Annotated[Path, typer.Argument(metavar="DIR", show_default=False, help="Where to write.")],
    to: Annotated[
        Literal["hub-folder", "model-card", "transformers", "ctranslate2"],
        typer.Option(
            metavar="KIND",
            help=(
                "hub-folder, as the suite loads it; model-card, its README.md alone; transformers, for Hugging Face's "
                "classes Marian and Pegasus, or that of the model that `import` brought in; ctranslate2, for its "
                "Translator."
            ),
        ),
    ] = "hub-folder",
    trust_code: TrustCode = False,
) -> None:
    """Write a run for the Hugging Face Hub or for another program.

    For the Hub it is a folder with a card, or the card alone.
    Other programs take text-to-text Transformers. transformers also takes what began from an imported T5, BART, mBART
    or Whisper, with the pieces that came with it. What a program cannot express is refused by name, and nothing is
    written.

    \b
    Examples:
      python -m seq2seq_suite export runs/translation --to model-card cards/translation
      python -m seq2seq_suite export runs/translation --to hub-folder hub/translation
      python -m seq2seq_suite export runs/translation --to transformers hf/translation
      python -m seq2seq_suite export runs/whisper-tuned --to transformers hf/whisper-tuned
      python -m seq2seq_suite export runs/translation --to ctranslate2 ct2/translation
    """
    from seq2seq_suite.export.hub import export as write

    for path in write(run, folder, kind=to):
        print(path)
