"""Carries out the cases in a process of its own: what failed, what was counted and what was found, as JSON.

PYTHONPATH=. python tests/devices/device_worker.py FOLDER
"""

from __future__ import annotations

import io
import json
import sys
import time
import traceback
import warnings
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

if __name__ == "__main__":  # doctests import this file, and what this registers cannot be taken back
    # First of all: it replaces torch.inference_mode, with which searches are decorated when they are imported.
    from benchmarks.pretended_device import DEVICE, NAME, MixedDevices, captured, on_the_device  # isort: skip
    from benchmarks.launches import SMALLER, counted_search, searched, trained
    from seq2seq_suite.kernels import graphs
    from tests.support.small_run import few_rows

from tests.devices.device_cases import SEARCHED, TRAINED


def main(folder: Path) -> dict[str, dict[str, Any]]:
    """What each run and each search came to."""
    found: dict[str, dict[str, Any]] = {}
    for name, (preset, settings) in TRAINED.items():
        found[name] = attempt(run, folder / name, preset, settings)
    found["device"] = attempt(device)
    found["resumed"] = attempt(resume, folder)
    for name, (runs, settings) in SEARCHED.items():
        found[name] = attempt(search, folder, runs, settings)
    return found


def attempt(work: Any, *arguments: Any) -> dict[str, Any]:
    """The work's result, or where and why it failed."""
    began = time.process_time()
    try:
        with redirect_stdout(io.StringIO()):
            return {"error": "", **work(*arguments), "seconds": time.process_time() - began}
    except Exception:
        return {"error": traceback.format_exc(limit=-4)}


def run(directory: Path, preset: str, settings: list[str], *, resume: bool = False) -> dict[str, Any]:
    """What an update and a step of search count."""
    parts = trained(preset, [*SMALLER, *settings], directory, resume=resume)
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [value for row in rows if row["split"] == "train" for name, value in row.items() if "loss_" in name]
    return {"losses": losses, **{name: part and asdict(part) for name, part in parts.items()}}


def resume(folder: Path) -> dict[str, Any]:
    """The weights of three updates in one go and with a stop, the same to the bit."""
    preset, settings = TRAINED["translation"]
    run(folder / "whole", preset, [*settings, "training.max_updates=3"])
    run(folder / "translation", preset, [*settings, "training.max_updates=3"], resume=True)
    whole, parts = (
        (folder / name / "checkpoints/last/training.safetensors").read_bytes() for name in ("whole", "translation")
    )
    return {"equal": whole == parts}


def search(folder: Path, runs: list[str], settings: list[str]) -> dict[str, Any]:
    """Outputs on the device and on the CPU, and what a step of search counts."""
    changed = [setting.replace("=./", f"={folder}/") for setting in settings]
    directories = [folder / name for name in runs]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ours, step, waits, replays = counted_search(directories, changed)
    reasons = [str(one.message) for one in said if "CUDA graph" in str(one.message)]
    plain = [setting for setting in changed if setting != "search.compile=true"]
    theirs = searched(directories, plain, torch.device("cpu"))
    return {
        "ours": ours,
        "theirs": theirs,
        "step": step and asdict(step),
        "waits": waits,
        "replays": replays,
        "reasons": reasons,
    }


def device() -> dict[str, Any]:
    """What the device counts and refuses: waits of a few calls, and what autocast makes of a product."""
    found: dict[str, Any] = {"mixed": False}
    with on_the_device() as counts:
        ours, theirs = torch.ones(2, 3, device=DEVICE), torch.ones(2, 3)
        try:
            ours + theirs
        except MixedDevices:
            found["mixed"] = True
        for name, call in {
            "item": lambda: float(ours.sum()),
            "nonzero": ours.nonzero,
            "mask": lambda: ours[ours > 0],
            "list": lambda: ours[[0, 1]],
            "pinned": lambda: theirs.pin_memory().to(DEVICE, non_blocking=True),
            "pageable": lambda: theirs.to(DEVICE, non_blocking=True),
            "view": lambda: ours.t()[1:],
        }.items():
            before = counts.waits.total()
            call()
            found[name] = counts.waits.total() - before
        with torch.autocast(DEVICE.type, torch.bfloat16):
            found["product"], found["softmax"] = str((ours @ ours.t()).dtype), str(ours.bfloat16().softmax(1).dtype)
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    graphs.CAPTURES[NAME] = captured
    with few_rows(8):  # of which 4 are decoded
        print(json.dumps(main(Path(sys.argv[1]))))
