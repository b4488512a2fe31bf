"""The common part of the speed benchmarks' command lines."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.corpus import Corpus, from_folder, synthetic

SUITE = "suite"


def measuring_options(description: str | None, *, seconds: float) -> argparse.ArgumentParser:
    """A parser with the options that every speed benchmark takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=seconds, help="of a round of one system, about")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file")
    parser.add_argument("--append", action="store_true", help="add to the file instead of replacing it")
    parser.add_argument("--smoke", action="store_true", help="only the suite, on a little synthetic data, in seconds")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser


def common_options(description: str | None, systems: Mapping[str, str], *, seconds: float) -> argparse.ArgumentParser:
    """A parser with the options of the speed benchmarks that compare systems on a corpus."""
    parser = measuring_options(description, seconds=seconds)
    parser.add_argument("--data", help="folder with train and test of rows {src, tgt}; by default synthetic pairs")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "seq2seq_suite-benchmarks",
        help="folder for learned pieces and weights",
    )
    parser.add_argument("--systems", nargs="+", choices=systems, default=list(systems))
    return parser


def chosen_systems(arguments: argparse.Namespace, names: Mapping[str, str], needs: Mapping[str, str]) -> list[str]:
    """The requested systems whose package is installed, the suite first; prints which are skipped."""
    if arguments.smoke:
        return [SUITE]
    others = [system for system in arguments.systems if system != SUITE]
    missing = [system for system in others if importlib.util.find_spec(needs[system]) is None]
    for system in missing:
        print(f"{names[system]} is left out: {needs[system]} is not installed (extra `bench`)", file=sys.stderr)
    return [SUITE, *(system for system in others if system not in missing)]


def chosen_corpus(arguments: argparse.Namespace) -> Corpus:
    """The named data set, or synthetic pairs."""
    if arguments.smoke:
        return synthetic(arguments.seed, train=50, test=4)
    return from_folder(arguments.data, arguments.cache) if arguments.data else synthetic(arguments.seed)


def publish(report: list[str], arguments: argparse.Namespace) -> None:
    """Print the report, and write it to `--output`."""
    text = "\n".join(report) + "\n"
    print(text, end="")
    if arguments.output:
        before = arguments.output.read_text(encoding="utf-8") + "\n" if arguments.append else ""
        arguments.output.write_text(before + text, encoding="utf-8")
