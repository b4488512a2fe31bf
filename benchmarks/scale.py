"""Corpora of 10^5 to 10^7 pairs: time to the first update, memory, and the speed of encoding.

    python -m benchmarks.scale --pairs 100000 1000000 --folder scale --output benchmarks/results/scale.md

The pairs are of invented words, four to twenty a sentence, whose frequencies follow Zipf's law. For each size a run of
a tiny translation model is started on an empty cache, then again, then resumed late in its fourth epoch, each in a new
process; `--in-memory` is the largest size that is also run from lists in memory. Files and cache stay in the folder,
some 250 MB for a million.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import provenance

_WORDS, _LENGTHS, _PART = 8_000, (4, 20), 100_000
_SETTINGS = {
    "backbone": {"size": "tiny"},
    "training": {
        "max_updates": 20,
        "log_every": 1,
        "validate_every": 1000,
        "save_every": 20,
        "batch_tokens": 2000,
        "max_minutes": 60,
        "precision": "float32",
    },
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", nargs="+", type=int, default=[100_000])
    parser.add_argument("--in-memory", type=int, default=0, metavar="PAIRS")
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    parser.add_argument("--stages", nargs="+", default=["empty cache", "cached", "resumed"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown file, to which the table is added")
    parser.add_argument("--measure", help=argparse.SUPPRESS)  # a run in a process of its own
    options = parser.parse_args(arguments)
    if options.measure:
        return measure(json.loads(options.measure))
    rows = [
        (
            "pairs",
            "start",
            "first update after, s",
            "vocabularies, s",
            "encoding, pairs/s",
            "peak memory, MB",
            "own / mapped after 20 updates, MB",
            "cache, MB",
        )
    ]
    for count in options.pairs:
        data = write(options.folder / f"pairs-{count}", count, seed=options.seed)
        stages = list(options.stages) + (["in memory"] if count <= options.in_memory else [])
        rows += [(f"{count:,}", stage, *run(data, options.folder, stage)) for stage in stages]
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    lines.insert(1, "|" + " --- |" * len(rows[0]))
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count()))
    text = "\n".join([*provenance(options.seed, threads), "", *lines, ""])
    print(text)
    if options.output:
        with options.output.open("a", encoding="utf-8") as file:
            file.write(f"\n# Scale\n\n{text}")
    return 0


def write(folder: Path, count: int, *, seed: int) -> Path:
    """Parallel text in a folder, unless it is there."""
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(seed)
    shares = np.cumsum(1.0 / np.arange(10, _WORDS + 10))
    sides = {
        language: np.array(words(random.Random(f"{seed}{language}"), ending), dtype=object)
        for language, ending in (("en", ""), ("de", "n"))
    }
    for split, size in (("validation", 20), ("test", 20), ("train", count)):
        with (folder / f"{split}.en").open("w") as english, (folder / f"{split}.de").open("w") as german:
            for first in range(0, size, _PART):
                ends = draw.integers(*_LENGTHS, min(_PART, size - first), endpoint=True).cumsum().tolist()
                chosen = np.searchsorted(shares, draw.uniform(0.0, shares[-1], ends[-1]))
                for language, file in (("en", english), ("de", german)):
                    spoken = sides[language][chosen].tolist()
                    file.writelines(f"{' '.join(spoken[begin:end])}\n" for begin, end in pairwise([0, *ends]))
    (folder / "done").touch()
    return folder


def words(draw: random.Random, ending: str) -> list[str]:
    """Different words of one to four syllables."""
    found: dict[str, None] = {}
    while len(found) < _WORDS:
        found[
            "".join(draw.choice("bdfgklmnprst") + draw.choice("aeiou") for _ in range(draw.randint(1, 4))) + ending
        ] = None
    return list(found)


def run(data: Path, folder: Path, stage: str) -> tuple[Any, ...]:
    """A run in a process of its own; the cells of its row."""
    cache, output = folder / f"cache-{data.name}", folder / f"run-{data.name}{'-memory' * (stage == 'in memory')}"
    if stage == "empty cache":
        shutil.rmtree(cache, ignore_errors=True)
    settings = {
        **_SETTINGS,
        "data": {
            "path": str(data),
            "cache": str(cache.resolve()),
            "in_memory_megabytes": 10**6 if stage == "in memory" else 0,
        },
    }
    if stage == "resumed":
        settings["training"] = {**settings["training"], "max_updates": 40}
        state = output / "checkpoints" / "step-20" / "state.json"
        if state.exists():  # as if it had trained for three epochs and most of a fourth
            found = json.loads(state.read_text())
            found["progress"] |= {"epoch": 3, "position": int(data.name.partition("-")[2]) // 100}
            state.write_text(json.dumps(found))
    asked = {"settings": settings, "output": str(output), "resume": stage == "resumed", "began": time.time()}
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "--measure", json.dumps(asked)],
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    print(found, file=sys.stderr)
    facts, said = json.loads(found.splitlines()[-1]), dict.fromkeys(("built in", "a second"), "")
    for line in found.splitlines():
        if "vocabularies built in" in line:
            said["built in"] = line.split()[-2]
        if "examples encoded in" in line:
            said["a second"] = line.partition("(")[2].split()[0]
    size = sum(file.stat().st_size for file in cache.rglob("*.arrow")) / 1e6 if stage != "in memory" else 0
    return (
        f"{facts['first']:.1f}",
        said["built in"],
        said["a second"],
        f"{facts['peak']:,.0f}",
        f"{facts['own']:,.0f} / {facts['mapped']:,.0f}",
        f"{size:,.0f}",
    )


def measure(asked: dict[str, Any]) -> int:
    """Train, and print when the first update was done, and the memory in megabytes."""
    import seq2seq_suite as s2s

    facts: dict[str, float] = {}

    def note(row: dict[str, Any]) -> None:
        if row["split"] == "train":
            facts.setdefault("first", time.time() - asked["began"])
            status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
            facts.update(
                {name: int(status[key].split()[0]) / 1e3 for name, key in (("own", "RssAnon"), ("mapped", "RssFile"))}
            )
            facts["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3

    s2s.train(
        {"task": "translation", **asked["settings"]},
        output=asked["output"],
        resume=asked["resume"],
        overwrite=not asked["resume"],
        callbacks=[note],
    )
    print(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
