"""Speed of training and of decoding, beside other systems and beside what the card could do."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.corpus import Corpus, from_folder, synthetic
from benchmarks.gpu.place import Notes, Place, allow_tf32
from benchmarks.systems import SHAPES, DecodingSystem, Shape, TrainingSystem

_TOKENS = {"tiny": 4096, "base": 25_000, "big": 12_000}  # target symbols in an update
SIZES = ("base", "tiny", "big")
_LONGEST = 28  # symbols of an output; random weights seldom end one
_TINIEST = Shape(32, 64, 2, 1, 8000)


def _corpus(place: Place) -> Corpus:
    folder = place.folder / "data" / "multi30k-en-de"
    if place.smoke or not folder.is_dir():
        return synthetic(1, train=60 if place.smoke else 29_000, test=8 if place.smoke else 1_000)
    return from_folder(str(folder), place.work)


def training(place: Place, notes: Notes) -> None:
    """Target symbols a second of each size, precision and system; all have the same batches."""
    from benchmarks.systems import student, suite

    corpus, sizes = _corpus(place), ("tiniest",) if place.smoke else SIZES
    asked = [
        (size, precision, tf32, ["suite", "torch.nn.Transformer", "Marian"] if tf32 else ["suite"])
        for precision, tf32 in (("bfloat16", True), ("float32", True), ("float32", False))
        for size in sizes
    ]
    if place.on_gpu:  # a CPU refuses it
        asked.insert(len(sizes), (sizes[0], "bfloat16", True, ["suite, training.compile"]))
    for size, precision, tf32, systems in asked:
        shape = _TINIEST if place.smoke else SHAPES[size]
        tokens = 512 if place.smoke else _TOKENS[size]
        batches = suite.buckets(corpus, 1, round_lengths=True, batch_tokens=tokens)
        few = 2 if place.smoke else 12
        chosen = batches[:: max(1, len(batches) // few)][:few]
        allow_tf32(tf32)
        for system in systems:
            name = f"{size}, {'TF32' if tf32 and precision == 'float32' else precision}, {system}"
            if place.over():
                return
            with notes.attempt(name):
                if system.startswith("suite"):
                    found = suite.training(shape, precision, corpus, 1, device=place.device, batch_tokens=tokens)
                    if system != "suite":
                        _compile(found, place)
                elif system == "Marian":
                    if importlib.util.find_spec("transformers") is None:
                        notes.add(name, "not installed")
                        continue
                    from benchmarks.systems import marian

                    found = marian.training(shape, precision, corpus, 1, device=place.device)
                else:
                    found = student.training(shape, precision, corpus, 1, device=place.device)
                _time_updates(place, notes, name, found, chosen, shape, precision, tf32)
            if place.on_gpu:
                torch.cuda.empty_cache()


def _compile(system: TrainingSystem, place: Place) -> None:
    from seq2seq_suite.prediction.build import compile_layers

    compile_layers(system.model, torch.device(place.device))


def _time_updates(
    place: Place,
    notes: Notes,
    name: str,
    system: TrainingSystem,
    batches: list,
    shape: Shape,
    precision: str,
    tf32: bool,
) -> None:
    """A few updates of all lengths, again and again."""

    def epoch() -> None:
        for batch in batches:
            system.update(batch)

    start = time.monotonic()
    epoch()
    place.wait()
    first = time.monotonic() - start
    seconds = place.seconds(epoch, most=2.0, least=2)
    symbols = sum(len(target) for batch in batches for _, target in batch)
    operations = sum(shape.operations(len(source), len(target)) for batch in batches for source, target in batch)
    peak = place.ceiling("bfloat16" if precision == "bfloat16" else "tf32" if tf32 else "float32")
    share = f"{100 * operations / seconds / peak:.3g} % of the product peak; " if peak else ""
    busy = _busy(place, name, epoch, len(batches)) if place.on_gpu else ""
    notes.add(
        name,
        f"{symbols / seconds:,.0f} target symbols/s",
        f"{share}{busy}{symbols / len(batches):,.0f} symbols and {1e3 * seconds / len(batches):.2f} ms an "
        f"update; first pass {first:.1f} s",
    )


def _busy(place: Place, name: str, work: Callable[[], Any], updates: int) -> str:
    """The share of time that kernels run, and how many of them an update starts; each kernel's time to a file."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
    events = [one for one in profiler.events() if one.device_type == torch.autograd.DeviceType.CUDA]
    kernels: dict[str, list[float]] = {}
    for one in events:
        kernels.setdefault(one.name, []).append(one.time_range.elapsed_us())
    lines = [
        f"{sum(times) / 1e3 / updates:.3f} ms, {len(times) / updates:.1f} times an update: {kernel[:150]}\n"
        for kernel, times in sorted(kernels.items(), key=lambda found: -sum(found[1]))
    ]
    (place.work / f"kernels, {name}.txt").write_text("".join(lines), encoding="utf-8")
    spent = sum(map(sum, kernels.values()))
    return f"busy {100 * spent / 1e6 / wall:.0f} %, {len(events) / updates:,.0f} kernels an update; "


def decoding(place: Place, notes: Notes) -> None:
    """Symbols a second in batches of 1, 64 and 512, greedy and with a beam of 5."""
    from benchmarks.systems import suite

    corpus = _corpus(place)
    allow_tf32(True)
    for dtype in (torch.float32,) if place.smoke else (torch.bfloat16, torch.float32):
        for index, size in enumerate(("tiniest",) if place.smoke else SIZES):
            shape = _TINIEST if place.smoke else SHAPES[size]
            with tempfile.TemporaryDirectory() as folder:
                weights = Path(folder) / "weights.pt"
                torch.manual_seed(1)
                torch.save({"weights": suite.build(shape).state_dict()}, weights)
                for name, build in _decoders(place, shape, corpus, weights, dtype).items():
                    if place.over():
                        return
                    with notes.attempt(f"{size}, {name}"):
                        _time_outputs(place, notes, f"{size}, {name}", build(), corpus, shape, dtype)
                    if place.on_gpu:
                        torch.cuda.empty_cache()
            for kind in () if index else ("ctc",) if place.smoke else ("ctc", "dag", "mask_predict", "cut_at_end"):
                if not place.over() and (place.smoke or dtype == torch.bfloat16):
                    with notes.attempt(f"translation-nat.yaml, {kind}"):
                        _time_parallel(place, notes, kind)


def _decoders(
    place: Place, shape: Shape, corpus: Corpus, weights: Path, dtype: torch.dtype
) -> dict[str, Callable[[], DecodingSystem]]:
    from benchmarks.systems import suite

    kind, common = str(dtype).removeprefix("torch."), {"threads": torch.get_num_threads()}
    where = {"device": place.device, "dtype": dtype}
    found: dict[str, Callable[[], DecodingSystem]] = {
        f"{kind}, suite": lambda: suite.decoding(shape, corpus, weights, **common, **where),
        f"{kind}, suite, search.compile": lambda: suite.decoding(
            shape, corpus, weights, **common, **where, compile=True
        ),
    }
    if importlib.util.find_spec("transformers") is not None:
        from benchmarks.systems import marian

        found[f"{kind}, generate"] = lambda: marian.decoding(shape, corpus, weights, **common, **where)
        if importlib.util.find_spec("ctranslate2") is not None:
            found[f"{kind}, CTranslate2"] = lambda: _ctranslate(place, shape, corpus, weights, kind)
    return found


def _ctranslate(place: Place, shape: Shape, corpus: Corpus, weights: Path, kind: str) -> DecodingSystem:
    from benchmarks.systems import ctranslate

    ctranslate.convert(shape, corpus.pieces, weights)
    return ctranslate.decoding(
        shape, corpus, weights, threads=torch.get_num_threads(), device=place.device, compute_type=kind
    )


def _time_outputs(
    place: Place, notes: Notes, name: str, system: DecodingSystem, corpus: Corpus, shape: Shape, dtype: torch.dtype
) -> None:
    sources = [source for source, _ in corpus.test]
    longest = 4 if place.smoke else _LONGEST
    for batch in (1, 8) if place.smoke else (1, 64, 512):
        for beam in (1, 2 if place.smoke else 5):
            if place.over():
                return
            chosen = (sources * (1 + batch // len(sources)))[:batch]
            with notes.attempt(f"{name}, batch {batch}, beam {beam}"):
                seconds, steps, symbols = _decoded(place, system, chosen, beam, longest)
                some, fewer, _ = _decoded(place, system, chosen, beam, longest // 4)
                if steps == fewer:  # random weights can end all outputs at once
                    raise RuntimeError(f"all outputs end after {steps} symbols")
                step = (seconds - some) / (steps - fewer)  # without encoder and preparation
                least = _floor(place, shape, dtype, batch * beam, batch, chosen, steps)
                notes.add(
                    f"{name}, batch {batch}, beam {beam}",
                    f"{symbols / seconds:,.0f} symbols/s",
                    f"{1e3 * seconds:.2f} ms for {steps} steps, {1e6 * step:,.1f} us one more step"
                    + (f"; {step / least:.1f} times the floor by bytes, {1e6 * least:.1f} us" if least else ""),
                )


def _decoded(place: Place, system: DecodingSystem, sources: list, beam: int, longest: int) -> tuple[float, int, int]:
    """Seconds of a batch, its steps and its symbols; END is a symbol as well, where an output has one."""
    outputs = system.decode(sources, beam, longest, len(sources))
    lengths = [min(len(one) + 1, longest) for one in outputs]
    seconds = place.seconds(lambda: system.decode(sources, beam, longest, len(sources)), most=0.4)
    return seconds, max(lengths), sum(lengths)


def _floor(
    place: Place, shape: Shape, dtype: torch.dtype, rows: int, sentences: int, sources: list, steps: int
) -> float | None:
    """Seconds that the bytes of a step take: the decoder's and the output layer's weights, keys and values, logits."""
    rate = place.ceiling("copy")
    if rate is None:
        return None
    width, size = shape.width, dtype.itemsize
    weights = shape.layers * (6 * width**2 + 2 * width * shape.feed_forward) + shape.vocabulary * width
    past = rows * shape.layers * 2 * width * steps / 2
    memory = sentences * shape.layers * 2 * width * sum(map(len, sources)) / len(sources)
    return size * (weights + past + memory + 2 * rows * shape.vocabulary) / rate


def _time_parallel(place: Place, notes: Notes, kind: str) -> None:
    """A parallel decoder after a few updates: its speed, not its quality."""
    import io
    from contextlib import redirect_stdout

    from benchmarks.gpu.correct import TASKS
    from seq2seq_suite.config import config_file
    from seq2seq_suite.experiments import verbs
    from seq2seq_suite.prediction import load_run as opening

    small = ["backbone.width=32", "backbone.num_heads=2", "backbone.feed_forward_width=32"] if place.smoke else []
    config = config_file.load(
        TASKS / "translation-nat.yaml",
        [
            f"strategy.kind={kind}",
            "training.max_updates=4",
            "training.validate_examples=4",
            "data.size=256",
            "data.test_splits=[]",
            f"device={place.device}",
            *small,
        ],
    )
    directory = place.work / "parallel" / kind
    with redirect_stdout(io.StringIO()):
        verbs.run(config, directory, resume=False, overwrite=True, command=["run"])
    run = opening.open_run(directory, [f"device={place.device}"])
    for batch in (1, 8) if place.smoke else (1, 64, 512):
        examples = run.task.read("validation")
        encoded = run.task.encode((examples * (1 + batch // len(examples)))[:batch])
        seconds = place.seconds(lambda chosen=encoded: run.predictor.hypotheses(chosen))
        notes.add(
            f"translation-nat.yaml, {kind}, batch {batch}",
            f"{batch / seconds:,.0f} sentences/s",
            f"{1e3 * seconds:.2f} ms a batch",
        )
