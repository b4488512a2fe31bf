"""Whether the device computes what a CPU does: losses, gradients, outputs, resumed runs, weights that move."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.place import Notes, Place, allow_tf32

TASKS = Path(__file__).parents[2] / "tasks"
_CASES = Path(__file__).parents[2] / "tests" / "devices"
_FEW = [
    "training.max_updates=2",
    "training.max_minutes=60",
    "training.validate_examples=4",
    "training.log_every=1",
    "training.precision=float32",
]
_SMALLER = [
    "backbone.width=32",
    "backbone.feed_forward_width=32",
    "backbone.num_heads=2",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
]
_DRAWS = {"mask_predict", "dag"}  # their losses depend on what is drawn, which devices do differently
_FLOAT32, _LOWER = 1e-5, 1e-2
_REAL = {"translation-multi30k": "multi30k-en-de", "parsing-genia": "genia-const", "asr-an4": "an4"}  # prepared data


def correct(place: Place, notes: Notes) -> None:
    """All presets' losses, gradients and outputs, then what must hold of runs."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(_CASES))
    from device_cases import SEARCHED, TRAINED

    data = place.folder / "data"
    real = {
        preset: (preset, [f"data.path={data / name}", f"data.share={0.5 if name == 'an4' else 0.01}"])
        for preset, name in _REAL.items()
        if (data / name).is_dir()
    }
    trained, searched = TRAINED | real, SEARCHED
    if place.smoke:
        trained = {"translation": TRAINED["translation"]}
        searched = {name: SEARCHED[name] for name in ("beam", "graph", "graph of beams", "graph, one sentence")}
    folder = place.work / "correct"
    if place.device != "pretended":  # whose runs are no process's own
        with notes.attempt("resume after kill -9"):
            _resume(place, notes, folder)
    allow_tf32(False)
    with _device(place):
        for name, (preset, settings) in trained.items():
            with notes.attempt(f"train {name}"):
                _train(place, preset, settings, folder / name)
                if name not in _DRAWS and preset != "multitask":
                    _note_errors(notes, name, _errors(place, folder / name))
        for name, (runs, settings) in searched.items():
            if set(runs) <= set(trained) and all(setting.partition("=./")[2] in ("", *trained) for setting in settings):
                with notes.attempt(f"search {name}"):
                    _compare_outputs(
                        place,
                        notes,
                        name,
                        [folder / one for one in runs],
                        [one.replace("=./", f"={folder}/") for one in settings],
                    )
        with notes.attempt("mixed devices"):
            _mix(place, notes, folder / "translation")
        if place.device != "pretended":
            with notes.attempt("trained on a CPU"):
                _train(replace(place, device="cpu"), *TRAINED["translation"], folder / "cpu")
                _compare_outputs(place, notes, "trained on a CPU", [folder / "cpu"], ["search.beam_size=3"])


@contextmanager
def _device(place: Place) -> Iterator[None]:
    if place.device != "pretended":
        yield
        return
    from benchmarks.launches import chosen_device
    from benchmarks.pretended_device import DEVICE, NAME, captured, on_the_device
    from seq2seq_suite.kernels import graphs

    graphs.CAPTURES[NAME] = captured
    with on_the_device(), chosen_device(DEVICE):
        yield


def _device_key(place: Place) -> list[str]:
    return [] if place.device == "pretended" else [f"device={place.device}"]


def _train(place: Place, preset: str, settings: Sequence[str], directory: Path) -> None:
    from seq2seq_suite.config import config_file
    from seq2seq_suite.experiments import verbs

    few = _FEW if preset == "multitask" else [*_FEW, "data.size=64", "data.test_splits=[]"]
    if preset in _REAL:
        few = [*_FEW, "data.test_splits=[]"]
    config = config_file.load(TASKS / f"{preset}.yaml", [*few, *_SMALLER, *settings, *_device_key(place)])
    with redirect_stdout(io.StringIO()):
        verbs.run(config, directory, resume=False, overwrite=True, command=["run"])


def _errors(place: Place, directory: Path) -> dict[str, dict[str, float]]:
    """By precision the relative errors of loss, gradient, encoder output and logits: norm of difference by norm."""
    reference = _computed(directory, torch.device("cpu"), double=True)
    device = _torch_device(place)
    found = {"float32": _distance(_computed(directory, device), reference)}
    if place.on_gpu:
        allow_tf32(True)
        found["TF32"] = _distance(_computed(directory, device), reference)
        allow_tf32(False)
    if place.device != "pretended":
        found["bfloat16"] = _distance(_computed(directory, device, lower=True), reference)
    if place.on_gpu:
        for kind in ("float32", "bfloat16"):
            own = _computed(directory, torch.device("cpu"), lower=kind == "bfloat16")
            found[f"{kind} on a CPU"] = _distance(own, reference)
    return found


def _note_errors(notes: Notes, name: str, found: dict[str, dict[str, float]]) -> None:
    """Twice what a CPU is off is allowed too: gradients of pictures and sound are off by more on a CPU already."""
    for kind in [kind for kind in found if not kind.endswith("CPU")]:
        errors, cpu = found[kind], found.get(f"{kind} on a CPU", {})
        allowed = {part: max(_FLOAT32 if kind == "float32" else _LOWER, 2 * cpu.get(part, 0.0)) for part in errors}
        notes.add(
            f"{name}, {kind}",
            "within" if all(errors[part] <= allowed[part] for part in errors) else "beyond",
            ", ".join(f"{part} {error:.2g} of {allowed[part]:.2g} allowed" for part, error in errors.items()),
        )


def _torch_device(place: Place) -> torch.device:
    return torch.device(place.device, 0) if place.device == "pretended" else torch.device(place.device)


def _computed(directory: Path, device: torch.device, *, double: bool = False, lower: bool = False) -> dict[str, Tensor]:
    """Loss, gradient, encoder output and, with a decoder, logits of four examples, without dropout."""
    from seq2seq_suite.prediction.load_run import open_run

    with _cpu():
        run = open_run(directory, ["device=cpu", "kernels=plain"] if double else ["device=cpu"])
    learner = run.predictor.learner.to(device)
    learner = learner.double() if double else learner
    batch = _batch(run.task)
    if double and batch.source.is_floating_point():
        batch = type(batch)(
            batch.source.double(),
            *(
                getattr(batch, name)
                for name in ("source_mask", "target", "target_mask", "given", "task", "indices", "auxiliary")
            ),
        )
    batch = batch.to(device)
    learner.eval()
    torch.manual_seed(1)
    model, hidden = learner.model, []
    with torch.autocast(device.type, torch.bfloat16) if lower else nullcontext():
        hook = model.decoder.register_forward_hook(lambda _, given, found: hidden.append(found[0]))
        loss = learner(batch)
        hook.remove()
        states = model.encode(batch)
        logits = [model.output(one) for one in hidden[-1:]]
    total = sum(loss.weights[name] * loss.sums[name] for name in loss.weights)
    total.backward()
    gradient = torch.cat(
        [one.grad.detach().cpu().double().flatten() for one in learner.parameters() if one.grad is not None]
    )
    values = torch.where(states.mask.unsqueeze(-1), states.values, 0.0)  # of padding nothing is promised
    found = {"loss": total.view(1), "gradient": gradient, "encoder": values}
    if logits:
        found["logits"] = logits[0]
    return {name: one.detach().cpu().double().flatten() for name, one in found.items()}


def _batch(task: Any) -> Any:
    """Four examples that a loss can be computed of; boxes have their noise in training alone."""
    from seq2seq_suite.data.batching import collate

    rows = task.read("validation")[:4]
    return collate([*(task.encode_epoch(rows, 0) if task.name == "detection" else task.encode(rows))], task.name)


@contextmanager
def _cpu() -> Iterator[None]:
    """Runs are opened on the CPU, on a pretended device too."""
    from unittest import mock

    from seq2seq_suite.prediction import load_run as opening

    with mock.patch.object(opening, "choose_device", lambda *_: torch.device("cpu")):
        yield


def _distance(found: dict[str, Tensor], reference: dict[str, Tensor]) -> dict[str, float]:
    return {
        name: float((found[name] - other).norm() / other.norm().clamp(min=1e-12))
        for name, other in reference.items()
        if other.numel()
    }


def _compare_outputs(place: Place, notes: Notes, name: str, runs: list[Path], settings: list[str]) -> None:
    sides = []
    plain = [one for one in settings if one != "search.compile=true"]
    for changes, context in (([*settings, *_device_key(place)], nullcontext()), ([*plain, "device=cpu"], _cpu())):
        with context:
            sides.append(_outputs(runs, changes, exact=place.on_gpu))
    same = [symbols for symbols, _ in sides[0]] == [symbols for symbols, _ in sides[1]]
    apart = max((abs(one - other) for (_, one), (_, other) in zip(*sides, strict=True)), default=0.0)
    notes.add(f"outputs, {name}", "equal" if same else "different", f"scores at most {apart:.2g} apart")


def _outputs(runs: list[Path], changes: list[str], *, exact: bool) -> list[tuple[Any, float]]:
    from seq2seq_suite.prediction import load_run as opening

    run = opening.open_together(runs, changes)
    if exact:  # opening a run on CUDA allows TF32
        allow_tf32(False)
    torch.manual_seed(1)
    found = run.predictor.hypotheses(run.task.encode(run.task.read("validation")[:4]))
    return [(one.symbols, one.score) for hypotheses in found for one in hypotheses]


def _mix(place: Place, notes: Notes, directory: Path) -> None:
    """A batch of the CPU, for a model on the device."""
    from seq2seq_suite.prediction.load_run import open_run

    with _cpu():
        run = open_run(directory, ["device=cpu"])
    batch = _batch(run.task)
    try:
        run.predictor.learner.to(_torch_device(place))(batch)
        notes.add("mixed devices", "nothing to mix" if place.device == "cpu" else "wrong: accepted")
    except RuntimeError:
        notes.add("mixed devices", "refused")


def _resume(place: Place, notes: Notes, folder: Path) -> None:
    """A killed run continues to the weights of one that was left alone; then it predicts on a CPU."""
    common = [
        str(TASKS / "parsing.yaml"),
        *_SMALLER,
        "data.size=64",
        "data.test_splits=[]",
        "training.max_updates=80",
        "training.max_minutes=60",
        "training.save_every=10",
        "training.validate_every=80",
        "training.validate_examples=4",
        "training.precision=float32",
        f"device={place.device}",
    ]
    command = [sys.executable, "-m", "seq2seq_suite", "run", *common, "--output"]
    whole, killed = folder / "whole", folder / "killed"
    shutil.rmtree(killed, ignore_errors=True)  # its checkpoints say when to kill
    _quiet([*command, str(whole), "--overwrite"])
    child = subprocess.Popen(
        [*command, str(killed), "--overwrite"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    began = time.monotonic()
    while child.poll() is None and time.monotonic() < began + 60 and not list(killed.glob("checkpoints/step-*")):
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    if child.wait() != -signal.SIGKILL:
        raise RuntimeError("the run had ended before it was killed")
    _quiet([*command, str(killed), "--resume"])
    one, other = ((run / "checkpoints" / "last" / "training.safetensors").read_bytes() for run in (whole, killed))
    notes.add("resume after kill -9", "equal to the bit" if one == other else "different weights")
    answers = [
        subprocess.run(
            [sys.executable, "-m", "seq2seq_suite", "predict", str(killed), "The dog sees a cat .", f"device={device}"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for device in (place.device, "cpu")
    ]
    notes.add("predict with these weights on a CPU", "equal" if answers[0] == answers[1] != "" else "different")


def _quiet(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
