"""What a GPU is asked in a quarter of an hour, without a network.

    python -m benchmarks.gpu prepare gpu                                 # any machine with PyPI
    bash gpu/setup.sh && gpu/venv/bin/python -m benchmarks.gpu run gpu --output OUT   # the machine with the GPU
    python -m benchmarks.gpu run gpu --device cpu --smoke --output OUT   # all of it here, tiny, in two minutes

A stage is a process of its own with a bound of time. It writes each figure when it has it, to OUT/STAGE.json, and
OUT/gpu.md shows them all. A stage that fails is named, and the next begins. `--resume` leaves out stages that are done.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from benchmarks.gpu.prepare import prepare
from benchmarks.gpu.run import STAGES, run, stage
from seq2seq_suite.common.errors import UserError


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 with one line that says what is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="command", required=True)
    one = parts.add_parser("prepare", help="wheels, data and a set-up script for a machine without a network")
    one.add_argument("folder", type=Path)
    one.add_argument("--data", type=Path, help="folder of multi30k-en-de, genia-const and an4; by default S2S_SHARED's")
    other = parts.add_parser("run", help="the stages, in order of worth")
    other.add_argument("folder", type=Path)
    other.add_argument("--output", type=Path, required=True, help="folder for the results")
    other.add_argument("--minutes", type=float, default=8.5, help="for all stages together")
    other.add_argument("--device", default="cuda", help="cuda, cpu or pretended")
    other.add_argument(
        "--stages", type=lambda text: text.split(","), default=list(STAGES), help=f"some of {','.join(STAGES)}"
    )
    other.add_argument("--smoke", action="store_true", help="tiny models, a second for each figure")
    other.add_argument("--resume", action="store_true", help="leave out stages that are done")
    other.add_argument("--stage", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args(arguments)
    try:
        if options.command == "prepare":
            prepare(options.folder, options.data)
        elif options.stage:
            stage(options)
        else:
            run(options)
    except UserError as error:
        print(str(error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the stage as well
    sys.exit(main())
