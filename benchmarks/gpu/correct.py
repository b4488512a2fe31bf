"""Whether the device computes what a CPU does: losses, gradients, outputs, resumed runs, weights that move."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.place import Notes, Place, Row, allow_tf32

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
_DRAWS = {"mask_predict", "dag", "blocks"}  # their losses depend on what is drawn, which devices do differently
_FLOAT32, _LOWER = 1e-5, 1e-2
Jobs = dict[str, tuple[Any, ...]]  # by name, a function of the place and its other arguments, which gives rows
_PROCESSES = 10  # beside each other, on a GPU
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
    beside: Jobs = {}
    first: Jobs = {}
    if place.device != "pretended":  # whose runs are no process's own
        beside["resume after kill -9"] = (_resume, folder)
        first["trained on a CPU"] = (_train_on_cpu, *TRAINED["translation"], folder / "cpu")
    for name, (preset, settings) in trained.items():
        exact = name not in _DRAWS and preset != "multitask"
        first[f"train {name}"] = (_train_and_compare, name, preset, settings, folder / name, exact)
    then: Jobs = {"mixed devices": (_mix, folder / "translation")}
    for name, (runs, settings) in searched.items():
        if set(runs) <= set(trained) and all(setting.partition("=./")[2] in ("", *trained) for setting in settings):
            changes = [one.replace("=./", f"={folder}/") for one in settings]
            then[f"search {name}"] = (_compare_outputs, name, [folder / one for one in runs], changes)
    _do(place, notes, beside, first, then)


def _do(place: Place, notes: Notes, beside: Jobs, first: Jobs, then: Jobs) -> None:
    """Do all jobs, on a GPU in processes beside each other: `first`, whose runs `then` has to have, and `beside`."""
    if not place.on_gpu:
        with _device(place):
            for name, (work, *given) in {**beside, **first, **then}.items():
                with notes.attempt(name):
                    notes.add_all(work(place, *given))
        return
    with ProcessPoolExecutor(
        min(_PROCESSES, os.cpu_count() or 1), mp_context=get_context("spawn"), initializer=_begin
    ) as pool:
        longest = _submitted(pool, place, beside)
        for jobs in (first, then):
            _collect(notes, _submitted(pool, place, jobs))
        _collect(notes, longest)


def _submitted(pool: ProcessPoolExecutor, place: Place, jobs: Jobs) -> dict[Future[list[Row]], str]:
    return {pool.submit(work, place, *given): name for name, (work, *given) in jobs.items()}


def _collect(notes: Notes, begun: dict[Future[list[Row]], str]) -> None:
    for future in as_completed(begun):
        with notes.attempt(begun[future]):
            notes.add_all(future.result())


def _begin() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)


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


def _train_and_compare(
    place: Place, name: str, preset: str, settings: Sequence[str], directory: Path, exact: bool
) -> list[Row]:
    """Train, and where devices can be compared, the errors by precision."""
    _train(place, preset, settings, directory)
    return _judged(name, _errors(place, directory)) if exact else [(f"train {name}", "done", "")]


def _train_on_cpu(place: Place, preset: str, settings: Sequence[str], directory: Path) -> list[Row]:
    """A run of a CPU decodes on the device."""
    _train(replace(place, device="cpu"), preset, settings, directory)
    return _compare_outputs(place, "trained on a CPU", [directory], ["search.beam_size=3"])


def _errors(place: Place, directory: Path) -> dict[str, dict[str, float]]:
    """By precision the relative errors of loss, gradient, encoder output and logits: norm of difference by norm."""
    reference = _computed(directory, torch.device("cpu"), double=True)
    device = _torch_device(place)
    allow_tf32(False)  # training on a GPU allows it
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


def _judged(name: str, found: dict[str, dict[str, float]]) -> list[Row]:
    """Twice what a CPU is off is allowed too: gradients of pictures and sound are off by more on a CPU already."""
    rows = []
    for kind in [kind for kind in found if not kind.endswith("CPU")]:
        errors, cpu = found[kind], found.get(f"{kind} on a CPU", {})
        allowed = {part: max(_FLOAT32 if kind == "float32" else _LOWER, 2 * cpu.get(part, 0.0)) for part in errors}
        within = all(errors[part] <= allowed[part] for part in errors)
        told = ", ".join(f"{part} {error:.2g} of {allowed[part]:.2g} allowed" for part, error in errors.items())
        rows.append((f"{name}, {kind}", "within" if within else "beyond", told))
    return rows


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
    return {name: one.detach().cpu().double() for name, one in found.items()}


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
    """Relative, over the positions that both have: a decoder on a GPU may have more padding, to spare it a wait."""
    errors = {}
    for name, other in reference.items():
        one = found[name]
        if one.dim() > 1:
            one, other = (each[:, : min(one.size(1), other.size(1))] for each in (one, other))
        if other.numel():
            errors[name] = float((one - other).norm() / other.norm().clamp(min=1e-12))
    return errors


def _compare_outputs(place: Place, name: str, runs: list[Path], settings: list[str]) -> list[Row]:
    sides = []
    plain = [one for one in settings if one != "search.compile=true"]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for changes, context in (([*settings, *_device_key(place)], nullcontext()), ([*plain, "device=cpu"], _cpu())):
            with context:
                sides.append(_outputs(runs, changes, exact=place.on_gpu))
    said = [str(one.message).splitlines()[0] for one in warned if str(one.message).startswith("search.compile")]
    same = [symbols for symbols, _ in sides[0]] == [symbols for symbols, _ in sides[1]]
    apart = max((abs(one - other) for (_, one), (_, other) in zip(*sides, strict=True)), default=0.0)
    return [
        (f"outputs, {name}", "equal" if same else "different", "; ".join((f"scores at most {apart:.2g} apart", *said)))
    ]


def _outputs(runs: list[Path], changes: list[str], *, exact: bool) -> list[tuple[Any, float]]:
    from seq2seq_suite.prediction import load_run as opening

    run = opening.open_together(runs, changes)
    if exact:  # opening a run on CUDA allows TF32
        allow_tf32(False)
    torch.manual_seed(1)
    found = run.predictor.hypotheses(run.task.encode(run.task.read("validation")[:4]))
    return [(one.symbols, one.score) for hypotheses in found for one in hypotheses]


def _mix(place: Place, directory: Path) -> list[Row]:
    """A batch of the CPU, for a model on the device."""
    from seq2seq_suite.prediction.load_run import open_run

    with _cpu():
        run = open_run(directory, ["device=cpu"])
    batch = _batch(run.task)
    try:
        run.predictor.learner.to(_torch_device(place))(batch)
    except RuntimeError:
        return [("mixed devices", "refused", "")]
    return [("mixed devices", "nothing to mix" if place.device == "cpu" else "wrong: accepted", "")]


def _resume(place: Place, folder: Path) -> list[Row]:
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
        f"device={place.device}",
    ]
    command = [sys.executable, "-m", "seq2seq_suite", "run", *common, "--output"]
    whole, killed = folder / "whole", folder / "killed"
    for run in (killed, folder / "again"):  # the former's checkpoints say when to kill
        shutil.rmtree(run, ignore_errors=True)
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
    alike = _weights(whole) == _weights(killed)
    if not alike:  # is it the resuming, or the device?
        _quiet([*command, str(folder / "again")])
    twice = alike or _weights(whole) == _weights(folder / "again")
    found = "equal to the bit" if alike else "different weights" if twice else "different, as are two whole runs"
    answers = [
        subprocess.run(
            [sys.executable, "-m", "seq2seq_suite", "predict", str(killed), "The dog sees a cat .", f"device={device}"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for device in (place.device, "cpu")
    ]
    same = "equal" if answers[0] == answers[1] != "" else "different"
    return [("resume after kill -9", found, ""), ("predict with these weights on a CPU", same, "")]


def _weights(run: Path) -> bytes:
    return (run / "checkpoints" / "last" / "training.safetensors").read_bytes()


def _quiet(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
