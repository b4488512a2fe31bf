"""Data of a few rows for each task, and settings under which a run on them takes a second."""

from __future__ import annotations

import copy
import json
import math
import struct
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults.schema import yaml_text
from seq2seq_suite import miniworld, tasks

TASKS = tuple(tasks.TASKS)
OF_SOUND = tuple(name for name in TASKS if "audio" in tasks.find_task(name).sections)
ROWS = {"train": 12, "validation": 3, "test": 3}
_WORDS = (
    "the",
    "a",
    "small",
    "old",
    "green",
    "dog",
    "cat",
    "bird",
    "child",
    "tree",
    "house",
    "river",
    "sees",
    "finds",
    "likes",
    "follows",
    "under",
    "near",
)
_LABELS = ("joy", "fear", "small talk", "a, b")
_RATE = 8000

SMALL: dict[str, Any] = {
    "device": "cpu",
    "backbone": {
        "width": 16,
        "feed_forward_width": 16,
        "num_heads": 2,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "dropout": 0.1,
    },
    "training": {
        "max_updates": 2,
        "batch_tokens": 64,
        "warmup_updates": 1,
        "schedule": "constant",
        "precision": "float32",
        "validate_every": 2,
        "save_every": 1,
        "log_every": 1,
        "threads": 1,
    },
}
_SHORT = {"search": {"max_length_factor": 1.0, "max_length_extra": 4}}  # of outputs that no training has made short
_SOUND = {
    "data": {"max_length": 200},
    "audio": {"bins": 8},
    "strategy": {"kind": "autoregressive", "ctc_weight": 0.3},
    "search": {"max_length_factor": 0.1, "max_length_extra": 4},
    "training": {"batch_tokens": 256},
}
_OWN: dict[str, dict[str, Any]] = {
    "translation": _SHORT,
    "qa": _SHORT,
    "summarisation": _SHORT,
    "asr": _SOUND,
    "multilabel": {**_SHORT, "multilabel": {"min_count": 1, "head": "label_wise", "decision": "marginals"}},
    "speech_translation": {**_SOUND, "speech_translation": {"metric_tokenizer": "13a"}},
    "detection": {
        "detection": {"height": 32, "width": 32, "channels": 8, "bins": 16, "instances": 3},
        "training": {"batch_tokens": 128},
    },
    "language_model": {"search": {"max_length_extra": 4}},
}
JOINT = ("parsing", "qa", "detection")


def merged(*settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings put over one another, section by section.

    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"d": 4})
    {'a': {'b': 3, 'c': 2}, 'd': 4}
    """
    whole: dict[str, Any] = {}
    for one in settings:
        for key, value in one.items():
            inner = whole.get(key)
            whole[key] = (
                merged(inner, value) if isinstance(inner, dict) and isinstance(value, Mapping) else copy.deepcopy(value)
            )
    return whole


def settings(
    task: str, data: Path | str, cache: Path | str, changes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The settings of a run over `write(data, task)`; `joint` has folders with the names of its tasks."""
    if task == "joint":
        parts = {name: merged(_OWN.get(name, {}), {"task": name, "data": {"path": f"{data}/{name}"}}) for name in JOINT}
        for part in parts.values():
            part.pop("training", None)
        return merged(SMALL, {"task": "multitask", "tasks": parts}, changes or {})
    sound = {"audio": {"cache": str(cache)}} if task in OF_SOUND else {}
    return merged(SMALL, _OWN.get(task, {}), sound, {"task": task, "data": {"path": str(data)}}, changes or {})


def write_yaml(path: Path, values: Mapping[str, Any]) -> Path:
    """Write settings."""
    path.write_text(yaml_text(values), encoding="utf-8")
    return path


def write(folder: Path, task: str, *, seed: int = 0) -> Path:
    """A folder with the three splits of a task as .jsonl, sounds and pictures beside them."""
    if task == "joint":
        for name in JOINT:
            write(folder / name, name, seed=seed)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in ROWS.items():
        rows = [
            row(task, folder, Random(f"{task} {split} {number} {seed}"), f"{split}{number}") for number in range(count)
        ]
        write_rows(folder / f"{split}.jsonl", rows)
    return folder


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """A jsonl file."""
    path.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in rows), encoding="utf-8")


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a jsonl file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sentence(random: Random, fewest: int = 3, most: int = 6) -> str:
    """A few words."""
    return " ".join(random.choices(_WORDS, k=random.randint(fewest, most)))


def row(task: str, folder: Path, random: Random, name: str) -> dict[str, Any]:
    """One row of a task; writes the file that it names, if it names one."""
    words = sentence(random)
    match task:
        case "parsing":
            return {"tree": tree(words.split(), random)}
        case "translation":
            return {"en": words, "de": words.upper()}
        case "qa":
            return {
                "question": f"who {words} ?",
                "context": f"{sentence(random)} . {sentence(random)} .",
                "answer": random.choice(words.split()),
            }
        case "multilabel":
            return {"text": words, "labels": random.sample(_LABELS, k=random.randint(1, 3))}
        case "asr":
            return {"file_name": sound(folder, name, random), "text": words}
        case "speech_translation":
            return {"file_name": sound(folder, name, random), "text": words, "translation": words.upper()}
        case "detection":
            return {
                "file_name": picture(folder, name, random),
                "objects": {
                    "bbox": [
                        [random.randint(0, 9), random.randint(0, 9), random.randint(4, 20), random.randint(4, 20)]
                        for _ in range(2)
                    ],
                    "categories": random.choices(("dog", "cat"), k=2),
                },
            }
        case "tagging":
            return {"words": words, "tags": " ".join(random.choices(("NN", "VB", "DT"), k=len(words.split())))}
        case "summarisation":
            return {"text": f"{words} . {sentence(random)} .", "summary": words}
        case "language_model":
            return {"text": f"{words} {sentence(random)}"}
    return random.choice(list(miniworld.rows(tasks.find_task(task).view, "train", size=ROWS["train"])))


def tree(words: Sequence[str], random: Random) -> str:
    """A random tree over words."""
    if len(words) == 1:
        return f"({random.choice(('NN', 'DT', 'VB'))} {words[0]})"
    cut = random.randint(1, len(words) - 1)
    return f"({random.choice(('NP', 'VP', 'S'))} {tree(words[:cut], random)} {tree(words[cut:], random)})"


def sound(folder: Path, name: str, random: Random) -> str:
    """A tone of a third of a second as NAME.wav; the file's name."""
    pitch = random.randint(200, 2000)
    samples = [round(9000 * math.sin(2 * math.pi * pitch * place / _RATE)) for place in range(_RATE // 3)]
    with wave.open(str(folder / f"{name}.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return f"{name}.wav"


def picture(folder: Path, name: str, random: Random) -> str:
    """A picture of 40 x 32 in one colour as NAME.png; the file's name."""
    from PIL import Image

    Image.new("RGB", (40, 32), tuple(random.randrange(256) for _ in range(3))).save(folder / f"{name}.png")
    return f"{name}.png"
