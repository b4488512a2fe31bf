"""The verb `import`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2seq_suite.cli.arguments import PROGRAM, only_overrides
from seq2seq_suite.cli.parameters import Overrides


def import_model(
    model: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            show_default=False,
            help="The model's folder, or its name OWNER/NAME[@REVISION] on the Hub.",
        ),
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", show_default=False, help="The run directory to write.")],
    overrides: Overrides = None,
    task: Annotated[
        str, typer.Option(metavar="TASK", help="Of whisper: asr, or speech_translation into English.")
    ] = "",
    language: Annotated[str, typer.Option(metavar="CODE", help="Of whisper: what is spoken, such as de.")] = "",
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Of the weights in the file: bfloat16 rounds them, and halves the file, not the memory."),
    ] = "float32",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run in the directory first.")] = False,
) -> None:
    """Turn a pretrained Hugging Face encoder-decoder into a run.

    The other verbs then take it as they take a trained run, and `init_from` begins from it; `data.path` names what
    `evaluate`, `compare` and `distill` read. Nothing in the folder is executed. Families: marian (OPUS-MT), t5
    (1.0, 1.1, Flan-T5), whose sources begin with the task, such as "translate English to German: The dog sleeps.", bart
    for summaries, mbart (mBART-50, too), whose languages are chosen as in translation.target_language=fr_XX, and
    whisper for speech, without timestamps. `export --to transformers` is the way back.

    \b
    Examples:
      python -m seq2seq_suite import Helsinki-NLP/opus-mt-en-de --output runs/opus
      python -m seq2seq_suite import models/opus-mt-en-de --output runs/opus data.path=my-data search.beam_size=1
      python -m seq2seq_suite import openai/whisper-tiny --language de --output runs/whisper
      python -m seq2seq_suite predict runs/opus "The dog sleeps."
    """
    changes = only_overrides(overrides or [])
    from seq2seq_suite.imports.run import import_run

    asked = {key: value for key, value in (("task", task), ("language", language)) if value}
    facts = import_run(
        model, output, overrides=changes, asked=asked, overwrite=overwrite, dtype=dtype, command=sys.argv
    )
    print(
        f"{output}: {facts['name']}{' at ' * bool(facts['revision'])}{facts['revision']}, a model of the family "
        f"{facts['family']}, licence {facts['licence'] or 'not named'}\n  next: {PROGRAM} predict {output}"
    )
