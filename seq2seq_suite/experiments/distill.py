"""Sequence-level distillation: a run's outputs replace its training targets, for another model to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.files import atomic_write_text, to_json
from seq2seq_suite.runs.run_directory import provenance
from seq2seq_suite.runs.weights import MODEL, best, hash_of
from seq2seq_suite.tasks import find_task, tasks_with

if TYPE_CHECKING:
    from seq2seq_suite.prediction.load_run import LoadedRun
    from seq2seq_suite.tasks.base import Task

PROVENANCE = "provenance.json"


def distill(
    loaded: LoadedRun,
    directory: Path,
    output: Path,
    *,
    command: list[str],
    more: Mapping[str, Sequence[Example]] | None = None,
) -> dict[str, Any]:
    """Decode all sources of a run's split train, and more, into `output/train.jsonl`; other splits keep their targets.

    A model's outputs are simpler and more consistent than people's, which helps models that decode in parallel.

    Args:
        loaded: the run in `directory`.
        directory: for its name and its weights' hash.
        output: a folder that is new or empty.
        command: the command line.
        more: sources without targets, by file name; known ones and those with an empty output are left out.

    Returns:
        The contents of `output/provenance.json`: the teacher, its settings, how many outputs were empty (those
        references are kept), agreement with the references, and how many rows each file of sources added.

    Raises:
        ConfigError: the task has no rows to write, or the folder is in use.

    Source: Kim & Rush 2016, section 3.3; for parallel decoders Gu et al. 2018, with more sources Zhou & Keung 2020.
    """
    if output.exists() and any(output.iterdir()):
        raise ConfigError(
            "the folder is not empty", file=str(output), expected="a new one", remedy="choose another with --output"
        )
    task, config = loaded.task, loaded.config
    check(config.task, directory)
    splits = {split: task.read(split) for split in dict.fromkeys(("train", "validation", *config.data.test_splits))}
    train = splits["train"]
    predictions = _predictions(loaded, train)
    texts = _texts(task, predictions)
    empty = sum(not text.strip() for text in texts)
    score = task.score(predictions, [example.reference for example in train])
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot be created: {error.strerror}", file=str(output), remedy="choose another folder with --output"
        ) from None
    for split, examples in splits.items():
        splits[split] = [
            replace(example, source=task.source.stored(example.source, output / "sounds" / f"{split}-{number}"))
            for number, example in enumerate(examples, 1)
        ]
    train = splits.pop("train")
    rows = [
        task.row(example, text if text.strip() else task.to_text(example.reference))
        for example, text in zip(train, texts, strict=True)
    ]
    # A source is identified by its row without the reference columns.
    known, counts = {to_json(task.row(replace(example, reference=None), "")) for example in train}, {}
    for name, examples in (more or {}).items():
        new = {to_json(task.row(example, "")): example for example in examples}
        fresh = [example for row, example in new.items() if row not in known]
        known |= new.keys()
        outputs = _texts(task, _predictions(loaded, fresh))
        added = [task.row(example, text) for example, text in zip(fresh, outputs, strict=True) if text.strip()]
        counts[name] = {"rows": len(added), "known": len(examples) - len(fresh), "empty": len(fresh) - len(added)}
        rows += added
    _write(output / "train.jsonl", rows)
    for split, examples in splits.items():
        _write(output / f"{split}.jsonl", [task.row(example, task.to_text(example.reference)) for example in examples])
    facts = {
        **provenance(command, config.seed, {}),
        "teacher": str(directory),
        "teacher_weights_sha256": hash_of(best(directory) / MODEL),
        "teacher_data": config.data.path,
        "search": config.search.model_dump(),
        "rows": len(train),
        "empty": empty,
        "against_references": score.figures,
        "signature": score.signature,
        "more_sources": counts,
    }
    atomic_write_text(output / PROVENANCE, to_json(facts, indent=1) + "\n")
    return facts


def check(task: str, file: Path) -> None:
    """Raises ConfigError for a task whose targets cannot be rows of outputs; `file` names it."""
    if task == "multitask" or not find_task(task).rewritable:
        raise ConfigError(
            f"its task is {task}, whose targets cannot be replaced by outputs",
            file=str(file),
            expected=tasks_with("rewritable"),
        )


def is_distilled(path: str) -> bool:
    """Whether a data folder was written by `distill`."""
    return (Path(path) / PROVENANCE).is_file()


def _predictions(loaded: LoadedRun, examples: Sequence[Example]) -> list[Any | None]:
    return loaded.predictor.predictions(examples, loaded.predictor.hypotheses(loaded.task.encode(examples), examples))


def _texts(task: Task[Any, Any], predictions: Sequence[Any | None]) -> list[str]:
    """Each as a row has it; empty where an output is malformed."""
    return ["" if prediction is None else task.to_text(prediction) for prediction in predictions]


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    atomic_write_text(path, "".join(to_json(row) + "\n" for row in rows))
