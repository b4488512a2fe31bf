"""Puts a run into a folder, with a model card: as the suite loads it, or as another program does."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import StrictUndefined, Template
from torch import Tensor

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import COMMAND_LINE, ConfigError, DataError
from seq2seq_suite.common.files import atomic_write_text, refuse_links_out, to_json
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.sources import EMBEDDED
from seq2seq_suite.export import bart_models, t5_models, whisper_models
from seq2seq_suite.export import ctranslate2_model as export_ctranslate2
from seq2seq_suite.export import transformers_models as export_transformers
from seq2seq_suite.prediction.load_run import config_of, open_run
from seq2seq_suite.runs.joint_directories import task_directories
from seq2seq_suite.runs.records import PROVENANCE, read_provenance, read_summary
from seq2seq_suite.runs.run_directory import CONFIG
from seq2seq_suite.runs.tensors import with_changes
from seq2seq_suite.runs.weights import MODEL, best, load_tensors, write_weights
from seq2seq_suite.tasks import find_task

HUB = "hf://"  # before the name of a model of the Hub
PROGRAMS = {module.NAME: module for module in (export_transformers, export_ctranslate2)}  # what else reads a run
_FAMILIES = (t5_models, bart_models, whisper_models)  # whose parts others do not have
KINDS = ("model-card", "hub-folder", *PROGRAMS)
HALF = "of blocks this is the left-to-right half, with the outputs and figures of search.order=verified"
_CARD, _STATE = "README.md", "state.json"
_USE = """import seq2seq_suite as s2s

run = s2s.load("path/to/this/folder")  # or "{hub}owner/name" from the Hub, with huggingface_hub
print(run.predict([{text}])[0])"""


def export(directory: Path, folder: Path, *, kind: str) -> list[Path]:
    """Write a run's model card, or all that is needed to load it elsewhere, by the suite or by another program.

    Args:
        directory: the run's.
        folder: where; made if it is not there. Other files in it stay.
        kind: model-card, hub-folder, or the name of a program.

    Returns:
        The paths of its files.

    Raises:
        ConfigError: an unknown kind, a joint run, a run with code of the user's own, or one with parts that the
            program does not know.
        DataError: the directory is no run, a link in it leads elsewhere, or the folder is the run itself.
    """
    if kind not in KINDS:
        raise ConfigError(f"--to {kind}", file=COMMAND_LINE, expected=" or ".join(KINDS), remedy="choose one of these")
    program, config = PROGRAMS.get(kind), config_of(directory, [])
    if program is export_transformers:
        program = next((family for family in _FAMILIES if family.fits(config)), program)
    if parts := task_directories(directory):
        raise ConfigError(
            "a joint run has several tasks",
            file=str(directory),
            expected="the directory of one of them",
            remedy=f"export {parts[0]}, say",
        )
    if config.code:
        raise ConfigError(
            "the run needs code of your own",
            file=str(directory),
            expected="a run of what the suite has itself",
            remedy="publish the run's directory together with the code",
        )
    if folder.resolve() == directory.resolve():
        raise DataError(
            "the folder is the run itself", file=str(folder), expected="another folder", remedy="choose one beside it"
        )
    refuse_links_out(directory / "summary.json", directory)
    text = find_task(config.task).presented_by.input_text
    use = _USE.format(hub=HUB, text=to_json(text))
    if program is not None:
        run = open_run(directory, ["device=cpu"])
        program.check(config, run.task, directory)
        if config.strategy.kind == "blocks":
            print(f"{directory}: {HALF}", file=sys.stderr)
        use = program.example(run.task, text)
    weights, found = dict[str, Path](), dict[str, Tensor]()
    if kind != "model-card":
        checkpoint, vocabulary = best(directory).resolve(), sorted((directory / "vocabulary").rglob("*"))
        for path in (checkpoint / MODEL, checkpoint / _STATE, *vocabulary):
            refuse_links_out(path, directory)
        found = load_tensors(checkpoint / MODEL)  # raises DataError if the weights are broken
        weights = {f"checkpoints/best/{name}": checkpoint / name for name in (MODEL, _STATE)}
        weights |= {
            f"vocabulary/{path.relative_to(directory / 'vocabulary').as_posix()}": path
            for path in vocabulary
            if path.is_file()
        }
    files: dict[str, Path | str] = {_CARD: card(directory, config, use, program=kind if program else "seq2seq_suite")}
    if kind != "model-card":
        files[CONFIG] = config_file.dump(_without_paths(config))
    if kind == "hub-folder":
        files |= {**weights, "summary.json": directory / "summary.json"}
    written = program.write(run, folder) if program is not None else []  # first: what is refused leaves nothing behind
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            atomic_write_text(target, content)
        else:
            shutil.copyfile(content, target)
    if kind == "hub-folder" and config.backbone.lora.rank:
        write_weights(folder / "checkpoints" / "best", with_changes(found))
    return [folder / name for name in (*files, *written)]


def _without_paths(config: Config) -> Config:
    """The configuration without folders of the machine that trained; a name of the Hub stays.

    Without the run that it began from, low-rank changes have nothing to change: they are in the weights.
    """
    path = config.data.path
    data = config.data.model_copy(update={"path": Path(path).name} if Path(path).exists() else {})
    lora = config.backbone.lora.model_copy(update={"rank": 0})
    backbone = config.backbone.model_copy(update={"lora": lora})
    return config.model_copy(update={"data": data, "init_from": "", "backbone": backbone})


def card(directory: Path, config: Config, use: str, *, program: str = "seq2seq_suite") -> str:
    """The model card: the Hub's YAML head, figures with intervals, data, limits, and how to use it.

    Args:
        directory, config: the run's.
        use: Python that uses the folder.
        program: for which the folder is.

    Raises:
        DataError: the run is not finished.
    """
    summary = read_summary(directory)
    data, name = _without_paths(config).data.path, directory.resolve().name
    intervals: Mapping[str, Any] = summary.model_dump().get("intervals") or {}
    task = {"type": find_task(config.task).presented_by.pipeline_tag, "name": config.task.replace("_", " ")}
    results = [
        {
            "task": task,
            "dataset": {"name": f"{data}, {split}", "type": data, "split": split.partition("@")[0]},
            "metrics": [
                {
                    "type": metric,
                    "value": value,
                    "name": metric.replace("_", " "),
                    **({"args": summary.settings[split]} if split in summary.settings else {}),
                }
                for metric, value in figures.items()
                if value == value
            ],
        }
        for split, figures in summary.splits.items()
        if split != "validation"
    ]
    head: dict[str, Any] = {
        "library_name": program,
        "pipeline_tag": task["type"],
        "tags": ["seq2seq_suite", config.task.replace("_", "-"), config.strategy.kind.replace("_", "-")],
    }
    if config.task == "translation":
        options = config.options.model_dump()
        head["language"] = [options["source_language"], options["target_language"]]
    if origin := _origin(directory):
        head |= {"base_model": origin["name"]} | ({"license": origin["licence"]} if origin["licence"] else {})
    head["model-index"] = [{"name": name, "results": results}]
    rows = [
        f"| {split} | {metric.replace('_', ' ')} | {value:,.2f}{_interval(intervals, split, metric, summary)} |"
        for split, figures in summary.splits.items()
        for metric, value in figures.items()
    ]
    template = Path(__file__).with_name("model_card.md").read_text(encoding="utf-8")
    return Template(template, keep_trailing_newline=True, undefined=StrictUndefined).render(
        head=yaml.safe_dump(head, sort_keys=False, allow_unicode=True).strip(),
        name=name,
        config=config,
        summary=summary,
        version=__version__,
        use=use,
        rows=rows,
        data=data,
        embedded=data == EMBEDDED,
        half=HALF if program in PROGRAMS and config.strategy.kind == "blocks" else "",
    )


def _origin(directory: Path) -> Mapping[str, Any]:
    """What provenance.json says of a model that `import` brought in; empty for other runs."""
    path = directory / PROVENANCE
    return getattr(read_provenance(directory), "imported", {}) if path.is_file() else {}


def _interval(intervals: Mapping[str, Any], split: str, metric: str, summary: Any) -> str:
    found = intervals.get(split)
    if isinstance(found, Mapping):
        found = found.get(metric)
    elif metric != summary.primary_metric:
        found = None
    return f" [{found[0]:,.2f}, {found[1]:,.2f}]" if isinstance(found, (list, tuple)) and len(found) > 1 else ""


def fetched(name: str, *, without: Sequence[str] = ()) -> Path:
    """The local copy of a model of the Hub, downloaded if it is not there.

    Args:
        name: `hf://owner/name`, perhaps with `@revision`.
        without: patterns of files that are not downloaded.

    Raises:
        DataError: no such name, or no network.
    """
    found = re.fullmatch(r"hf://([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?", name)
    if not found:
        raise DataError(f"'{name}' is no name of the Hub", expected=f"{HUB}owner/name", remedy="correct it")
    try:
        from huggingface_hub import snapshot_download

        return Path(snapshot_download(found[1], revision=found[2], ignore_patterns=list(without)))
    except Exception as problem:  # the library raises its dependencies' errors, too
        reason = (
            "HF_HUB_OFFLINE is set"
            if os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")
            else str(problem).strip().partition("\n")[0]
        )
        raise DataError(
            f"{name} cannot be had from the Hub: {reason}",
            expected="a network, or a model that was downloaded before",
            remedy="check the name, or give a local folder",
        ) from None
