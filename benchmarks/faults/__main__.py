"""The command line of the campaign."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.faults import (
    alike,
    classes,
    confinement,
    damage,
    disks,
    kills,
    layouts,
    media,
    pages,
    rows,
    settings,
    trust,
    verbs,
)
from benchmarks.faults.campaign import Case, Found, Kind, Tally, attempt, go_through, repeat_command
from benchmarks.faults.commands import Main
from benchmarks.machine import markdown_table, provenance

_MODULES = (settings, rows, layouts, media, alike, verbs, trust, classes, pages, damage, kills, disks)
KINDS = tuple(kind for module in _MODULES for kind in module.KINDS)
# What verbs import when they first need it; children find it in place.
_PRELOADED = (
    "datasets",
    "soundfile",
    "PIL.Image",
    "sacrebleu",
    "sklearn.svm",
    "sklearn.feature_extraction.text",
    "torch._dynamo",
    "seq2seq_suite.experiments.verbs",
    "seq2seq_suite.studies.study",
    "seq2seq_suite.studies.compare",
    "seq2seq_suite.report.comparison",
)


def options(kinds: Sequence[Kind]) -> argparse.ArgumentParser:
    """The parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=40.0, help="for all kinds together, about")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="KIND",
        choices=[kind.name for kind in kinds],
        help=f"of {', '.join(kind.name for kind in kinds)}",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, metavar="N", help="repeat one case of one kind and show what it said")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--output", type=Path, help="Markdown file")
    return parser


def preload() -> None:
    """Import what the suite's verbs import, so that a forked child begins at once."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import torch

    torch.set_num_threads(1)
    for name in _PRELOADED:
        with suppress(ImportError):
            importlib.import_module(name)
    with suppress(ImportError, OSError):
        from seq2seq_suite.data.torchaudio_import import load_torchaudio

        load_torchaudio()


def campaign(kinds: Sequence[Kind], arguments: argparse.Namespace, place: Path, main: Main) -> dict[str, Tally]:
    """Carry out the kinds one after another; each gets its part of the time that is left."""
    end, tallies = time.monotonic() + 60 * arguments.minutes, {}
    prepared = set()
    for number, kind in enumerate(kinds):
        if reason := kind.why_not():
            print(f"{kind.name}: left out: {reason}")
            continue
        if kind.prepare not in prepared:
            prepared.add(kind.prepare)
            made = Case(kind.name, arguments.seed, 0, place / "shared", place / "shared", main)
            kind.prepare(made)
            if made.complaints:
                raise RuntimeError("what the cases use cannot be made:\n" + "\n".join(made.complaints))
        seconds = (end - time.monotonic()) * kind.share / sum(one.share for one in kinds[number:])
        began = time.monotonic()

        def tell(found: Found, kind: Kind = kind) -> None:
            for complaint in found.complaints:
                print(f"{kind.name} {found.number}: {complaint}", flush=True)
            if found.complaints:
                print(f"    {repeat_command(kind.name, arguments.seed, found.number)}", flush=True)

        tallies[kind.name] = go_through(
            kind, arguments.seed, place, main, seconds=seconds, jobs=arguments.jobs, tell=tell
        )
        counts = ", ".join(f"{count:,} {name}" for name, count in tallies[kind.name].counts.items())
        print(
            f"{kind.name}: {counts}; {len(tallies[kind.name].failures)} failures; {time.monotonic() - began:.0f} s",
            flush=True,
        )
    return tallies


def report(kinds: Sequence[Kind], tallies: dict[str, Tally], arguments: argparse.Namespace) -> list[str]:
    """The page."""
    rows, failures = [], []
    for kind in kinds:
        if kind.name not in tallies:
            rows.append([kind.name, kind.what, "left out", kind.why_not()])
            continue
        tally = tallies[kind.name]
        tries = f"{tally.counts['tries']:,}"
        if kind.counted != "tries":
            tries = f"{tally.counts[kind.counted]:,} {kind.counted} ({tries} cases)"
        rows.append([kind.name, kind.what, tries, str(len(tally.failures))])
        failures += [
            f"- `{repeat_command(kind.name, arguments.seed, number)}`: {complaints[0]}"
            for number, complaints in sorted(tally.failures.items())
        ]
    return [
        "# Faults",
        "",
        *markdown_table(["kind", "what", "tries", "failures"], rows),
        "",
        *(["## Failures", "", *failures, ""] if failures else []),
        *provenance(arguments.seed, arguments.jobs),
    ]


def repeat(kind: Kind, arguments: argparse.Namespace, place: Path, main: Main) -> bool:
    """Carry out one case and show all; whether it failed. Its folder stays."""
    kind.prepare(Case(kind.name, arguments.seed, 0, place / "shared", place / "shared", main))
    found, case = attempt(kind, arguments.seed, arguments.case, place, main, keep=True)
    for end in case.called:
        print(
            f"$ {end.command}\n{end.out[-4000:]}{end.err[-4000:]}[{end.code}, {end.seconds:.1f} s, "
            f"{end.memory / 2**20:,.0f} MiB]"
        )
    print("\n".join(found.complaints) or "no fault")
    print(f"the folder is kept: {case.folder}")
    return bool(found.complaints)


def main(given: Sequence[str] | None = None, *, command: Main | None = None, kinds: Sequence[Kind] = KINDS) -> int:
    """Carry out a campaign.

    Args:
        given: arguments; by default those of this process.
        command: the command line under test; by default the suite's.
        kinds: of faults.

    Returns:
        1 if anything failed.
    """
    parser = options(kinds)
    arguments = parser.parse_args(given)
    chosen = [kind for kind in kinds if kind.name in (arguments.only or [kind.name for kind in kinds])]
    if arguments.case is not None and len(chosen) != 1:
        parser.error("--case repeats a case of one kind: name it with --only")
    if os.geteuid() == 0 and not confinement.is_possible():
        parser.error("root may write everywhere, and this kernel has no Landlock to forbid it: be another user")
    place = Path(tempfile.mkdtemp(prefix="faults-"))
    (place / "shared").mkdir()
    if command is None:
        os.environ |= {"HF_HOME": str(place / "hub"), "XDG_CACHE_HOME": str(place / "cache")}
        preload()
        from seq2seq_suite.cli.app import main as command
    if arguments.case is not None:
        return int(repeat(chosen[0], arguments, place, command))
    try:
        tallies = campaign(chosen, arguments, place, command)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    page = "\n".join(report(chosen, tallies, arguments)) + "\n"
    print(page)
    if arguments.output:
        arguments.output.write_text(page, encoding="utf-8")
    return int(any(tally.failures for tally in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
