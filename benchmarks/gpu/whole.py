"""Whole runs on the device, to their ends, as a user starts them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.at_vs_nat import judge, measure, opened, throughput
from benchmarks.gpu.correct import TASKS
from benchmarks.gpu.place import Notes, Place

# Preset -> updates of a run on a CPU, and what it came to, by benchmarks/results/embedded.md and translation.md.
CPU = {
    "parsing": (250, "EVALB's F1 96.26, 1:09 minutes of CPU time"),
    "translation": (1_900, "BLEU 79.68, 4:11 minutes of CPU time"),
    "asr": (898, "WER 24.10"),
    "translation-nat": (1_900, "not measured"),
    "translation-blocks": (1_900, "see dial.md"),
    "translation-multi30k": (9_000, "BLEU 41.33, some 50 minutes alone on a core"),
}


def runs(place: Place, notes: Notes) -> None:
    """Embedded presets, as many updates as on a CPU: seconds and figures."""
    for preset in ("parsing", "translation") if place.smoke else ("parsing", "translation", "asr", "translation-nat"):
        teacher = place.work / "whole" / "translation"
        first = [f"init_from={teacher}", "init_parts=[all]"] if preset == "translation-nat" else []
        if not place.over():
            with notes.attempt(f"tasks/{preset}.yaml"):
                _run(place, notes, preset, [*_updates(place, preset), *first])


def _updates(place: Place, preset: str) -> list[str]:
    if place.smoke:
        return ["training.max_updates=4", "training.validate_examples=8", "data.size=64", "data.test_splits=[]"]
    return [f"training.max_updates={CPU[preset][0]}", "training.max_minutes=60"]


# What a pass costs: a search of the stage `passes`, its run, and the changes to its settings.
_SEARCHES = {
    "left to right, greedy": ("translation", []),
    "the same, search.compile": ("translation", ["search.compile=true"]),
    "blocks of 4, verified, drafts of 2": ("translation-blocks", ["search.block=2"]),
    "blocks of 4, verified, drafts of 4": ("translation-blocks", []),
    "blocks of 4, from the left, threshold 0.9": ("translation-blocks", ["search.order=left", "search.threshold=0.9"]),
    "blocks of 4, threshold 0": ("translation-blocks", ["search.order=left", "search.threshold=0"]),
    "CTC, best path": ("translation-nat", []),
}


def passes(place: Place, notes: Notes) -> None:
    """Passes a symbol, quality and time of what the stage `runs` has trained, and of blocks begun from its weights."""
    whole = place.work / "whole"
    if not (whole / "translation" / "summary.json").exists():
        notes.add("passes", "not run", "the stage `runs` comes before it")
        return
    if not (whole / "translation-blocks" / "summary.json").exists():
        start = f"init_from={whole / 'translation'}"
        with notes.attempt("tasks/translation-blocks.yaml"):
            _run(place, notes, "translation-blocks", [*_updates(place, "translation-blocks"), start])
    found = []
    for name, (run, changes) in _SEARCHES.items():
        if (whole / run / "summary.json").exists() and not place.over():
            with notes.attempt(name):
                one = opened(name, whole / run, [*changes, f"device={place.device}"], "validation")
                judge(one)
                found.append(one)
    measure(found, rounds=2, sentences=10)
    for one in found:
        largest = 1e3 / throughput(one, 512, 512)
        notes.add(
            one.name,
            f"{one.passes:.2f} passes a symbol, {one.predictor.task.primary_metric} {one.figure:.2f}",
            f"{one.alone:.2f} ms one at a time, {one.in_batches:.3f} in batches of 64, {largest:.3f} of 512",
        )


def multi30k(place: Place, notes: Notes) -> None:
    """Multi30k's preset, until the time is over: its validations stay."""
    data = place.folder / "data" / "multi30k-en-de"
    few = [
        "training.max_updates=2",
        "training.validate_examples=4",
        "data.share=0.01",
        "data.test_splits=[]",
        "backbone.width=32",
        "backbone.feed_forward_width=32",
    ]
    if not data.is_dir():
        notes.add("tasks/translation-multi30k.yaml", "not run", "the folder has no data: see prepare")
        return
    with notes.attempt("tasks/translation-multi30k.yaml"):
        settings = few if place.smoke else _updates(place, "translation-multi30k")
        _run(place, notes, "translation-multi30k", [f"data.path={data}", *settings])


def _run(place: Place, notes: Notes, preset: str, settings: list[str]) -> None:
    directory = place.work / "whole" / preset
    command = [
        sys.executable,
        "-m",
        "seq2seq_suite",
        "run",
        str(TASKS / f"{preset}.yaml"),
        *settings,
        f"device={place.device}",
        "--output",
        str(directory),
        "--overwrite",
    ]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text, _ = child.communicate(timeout=max(1.0, place.end - time.monotonic()))
    except subprocess.TimeoutExpired:
        child.terminate()  # saves where it was
        child.communicate()
        notes.add(f"tasks/{preset}.yaml", "not finished", _validations(directory))
        return
    if child.returncode:
        raise RuntimeError(next((line for line in reversed(text.splitlines()) if line.strip()), str(child.returncode)))
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    figures = ", ".join(
        f"{split} {summary['primary_metric']} {figures[summary['primary_metric']]:.2f}"
        for split, figures in summary["splits"].items()
    )
    notes.add(
        f"tasks/{preset}.yaml",
        f"{time.monotonic() - began:.0f} s",
        f"{figures or _validations(directory)}; on a CPU {CPU[preset][1]}",
    )


def _validations(directory: Path) -> str:
    file = directory / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    last = next((row for row in reversed(rows) if row["split"] == "validation"), {})
    return ", ".join(f"{name} {value:.4g}" for name, value in last.items() if isinstance(value, int | float))
