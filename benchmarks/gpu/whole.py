"""Whole runs on the device, to their ends, as a user starts them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.gpu.correct import TASKS
from benchmarks.gpu.place import Notes, Place

# Preset -> updates of a run on a CPU, and what it came to, by benchmarks/results/embedded.md and translation.md.
CPU = {
    "parsing": (250, "EVALB's F1 96.26, 1:09 minutes of CPU time"),
    "translation": (1_900, "BLEU 79.68, 4:11 minutes of CPU time"),
    "asr": (898, "WER 24.10"),
    "translation-nat": (1_900, "not measured"),
    "translation-multi30k": (9_000, "BLEU 41.33, some 50 minutes alone on a core"),
}


def runs(place: Place, notes: Notes) -> None:
    """Embedded presets, as many updates as on a CPU: seconds and figures."""
    few = ["training.max_updates=4", "training.validate_examples=8", "data.size=64", "data.test_splits=[]"]
    for preset in ("parsing",) if place.smoke else ("parsing", "translation", "asr", "translation-nat"):
        teacher = place.work / "whole" / "translation"
        first = [f"init_from={teacher}", "init_parts=[all]"] if preset == "translation-nat" else []
        if not place.over():
            with notes.attempt(f"tasks/{preset}.yaml"):
                _run(place, notes, preset, few if place.smoke else [*_updates(preset), *first])


def _updates(preset: str) -> list[str]:
    return [f"training.max_updates={CPU[preset][0]}", "training.max_minutes=60"]


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
        settings = few if place.smoke else _updates("translation-multi30k")
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
