"""The process in which a submission computes: its first losses once more, and what its weights predict.

`python -m seq2seq_suite.lab.replaying ANSWER` reads a request from standard input and writes the answer, both JSON. It
is given sentences, or files of sound, never what is right for them. It gives up what `sandbox.enter` says: it may read
Python, the suite, a copy of the submission and these files, and write beside the answer, where its caches are too. What
it has started ends with it. What speaks embedded sentences is started before: it is given no more than sentences.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from seq2seq_suite.api import Run
from seq2seq_suite.common.errors import RunError, UserError
from seq2seq_suite.lab import sandbox
from seq2seq_suite.lab.code import Code
from seq2seq_suite.lab.experiment import read_experiment, search_settings
from seq2seq_suite.lab.plug import plugged
from seq2seq_suite.lab.running import beginning, quiet
from seq2seq_suite.miniworld import start_voices

_VOICES = 2  # that speak at a time


def answer(directory: Path, file: Path, name: str, fresh: list[str], own: list[str]) -> dict[str, Any]:
    """Losses and data hashes of a run's first updates, unless it only searches; predictions for sentences; and how
    often each of the student's functions was called for them.
    """
    experiment = read_experiment(directory, file=file)
    plan = experiment.plans[name]
    code = Code(directory)
    functions = code.functions(plan.plug)
    losses, data = ([], {}) if plan.source else beginning(plan.config, functions, plan.also)
    with quiet(functions), plugged(functions, plan.also):
        run = Run(experiment.run_directory(plan.source or name), settings=search_settings(plan), trust_code=True)
        texts = [one.text for one in run.predict([*own, *fresh])] if own else []
    return {
        "losses": losses,
        "data": data,
        "again": texts[: len(own)],
        "fresh": texts[len(own) :],
        "calls": dict(code.calls),
    }


def main() -> None:
    """Answer the request, in a child where there are any."""
    request, file = json.load(sys.stdin), Path(sys.argv[1]).resolve()
    if hasattr(os, "fork"):
        done = sandbox.overseen(lambda: _work(request, file), request["seconds"], file.parent)
        sys.exit(0 if done else sandbox.LATE)
    _work(request, file)


def _work(request: dict[str, Any], file: Path) -> None:
    if request["sounds"]:
        start_voices(_VOICES)
    reads = [request["directory"], request["file"], *filter(None, sys.path), str(Path(__file__).parents[1])]
    sandbox.enter(request["seconds"], folder=str(file.parent), reads=reads)
    try:
        found = answer(
            Path(request["directory"]), Path(request["file"]), request["run"], request["fresh"], request["own"]
        )
    except (UserError, RunError) as error:
        found = {"error": str(error)}
    file.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
