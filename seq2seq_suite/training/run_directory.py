"""The directory that a run leaves behind: what it was, how it went, what came out."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seq2seq_suite import __version__
from seq2seq_suite.files import atomic_write_text, to_json
from seq2seq_suite.types import ConfigError

CONFIG = "config.yaml"
# Everything a run writes. `--overwrite` deletes no directory that holds anything else.
OURS = frozenset({CONFIG, "provenance.json", "metrics.jsonl", "log.txt", "summary.json", "checkpoints", "vocabulary",
                  "predictions", "report.html", "tasks"})
_BEFORE_CONFIG = frozenset({"log.txt", "vocabulary", "tasks"})  # what a run that failed early may have left


class RunDirectory:
    """The paths of a run and the ways to write them.

    Args:
        path: the directory; `create` makes a new one.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self.config = self.path / CONFIG
        self.checkpoints = self.path / "checkpoints"
        self.vocabulary = self.path / "vocabulary"
        self.predictions = self.path / "predictions"
        self.metrics = self.path / "metrics.jsonl"
        self.summary = self.path / "summary.json"
        self.provenance = self.path / "provenance.json"

    @classmethod
    def create(cls, path: Path, *, resume: bool, overwrite: bool) -> RunDirectory:
        """A directory to run in.

        Args:
            path: where; made if it does not exist.
            resume: go on with the run that is there.
            overwrite: delete the run that is there.

        Raises:
            ConfigError: the directory is in use and neither flag was given, there is nothing to resume, or
                what would be deleted is not a run.
        """
        path = Path(path)
        if resume and overwrite:
            raise ConfigError("--resume and --overwrite exclude each other", file=str(path),
                              remedy="--resume goes on with the run, --overwrite deletes it first")
        if path.exists() and not path.is_dir():
            raise ConfigError("is a file", file=str(path), expected="a directory for the run",
                              remedy="choose another with --output")
        names = {entry.name for entry in path.iterdir()} if path.is_dir() else set()
        if resume and CONFIG not in names:
            missing = f"it has no {CONFIG}" if path.is_dir() else "the directory does not exist"
            raise ConfigError(f"there is no run to resume: {missing}", file=str(path),
                              expected="the directory of an earlier run",
                              remedy="name it with --output, or leave out --resume to start anew")
        if names and overwrite:
            _delete_run(path, names)
        elif names and not resume:
            raise ConfigError("the directory is not empty", file=str(path),
                              remedy="--resume goes on with the run in it, --overwrite deletes it first, "
                                     "--output DIR writes elsewhere")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot be made: {error.strerror}", file=str(path),
                              remedy="choose another directory with --output") from None
        return cls(path)

    def write_config(self, text: str) -> None:
        """Write the resolved configuration, YAML."""
        atomic_write_text(self.config, text)

    def write_provenance(self, facts: Mapping[str, Any]) -> None:
        """Write where the run came from; what an earlier start wrote is kept under `earlier`, oldest first."""
        earlier: list[Any] = []
        if self.provenance.is_file():
            before = json.loads(self.provenance.read_text(encoding="utf-8"))
            earlier = [*before.pop("earlier", []), before]
        atomic_write_text(self.provenance, to_json({**facts, **({"earlier": earlier} if earlier else {})}, indent=1))

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a row to metrics.jsonl; figures that are not finite become null."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(to_json(row) + "\n")

    def truncate_metrics(self, update: int, *, validated: int) -> None:
        """Drop rows that a resumed run will write again, and a last row that was cut short.

        Args:
            update: the update it goes on from; rows beyond are dropped.
            validated: its last validation; validation rows beyond are dropped.
        """
        if not self.metrics.is_file():
            return
        kept = []
        for line in self.metrics.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
                if row["update"] <= (validated if row.get("split") == "validation" else update):
                    kept.append(line + "\n")
            except json.JSONDecodeError:
                continue
        atomic_write_text(self.metrics, "".join(kept))

    def log(self, line: str) -> None:
        """Append a line to log.txt, with the time."""
        with (self.path / "log.txt").open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}\n")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the final figures."""
        atomic_write_text(self.summary, to_json(summary, indent=1))

    def write_predictions(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write predictions/<name>.jsonl, a row for each example."""
        self.predictions.mkdir(exist_ok=True)
        atomic_write_text(self.predictions / f"{name}.jsonl", "".join(to_json(row) + "\n" for row in rows))

    def write_details(self, name: str, details: Mapping[str, Any]) -> None:
        """Write predictions/<name>.details.json, the tables behind a split's figures."""
        self.predictions.mkdir(exist_ok=True)
        atomic_write_text(self.predictions / f"{name}.details.json", to_json(details))


def provenance(command: list[str], seed: int, data_hashes: dict[str, str], *, processes: int = 1) -> dict[str, Any]:
    """Everything that is needed to say where a figure came from.

    Args:
        command: the command line.
        seed: the run's seed.
        data_hashes: name of a split -> digest of its examples.
        processes: that train together.

    Returns:
        Commit (empty outside a checkout) and whether it was changed, versions, machine, time in UTC.
    """
    import numpy
    import torch

    commit, changed = _commit(Path(__file__).resolve().parents[2])
    return {
        "command": command, "seed": seed, "data": data_hashes, "processes": processes,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit, "changed_since_commit": changed,
        "versions": {"seq2seq_suite": __version__, "python": platform.python_version(), "torch": torch.__version__,
                     "numpy": numpy.__version__},
        "system": platform.platform(), "cpu": _cpu(), "cpu_cores": os.cpu_count(), "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
    }


def _delete_run(path: Path, names: set[str]) -> None:
    foreign = sorted(name for name in names - OURS if not (name.startswith(".") and name.endswith(".partial")))
    if foreign:
        shown = ", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else "")
        raise ConfigError(f"not deleted: it holds what no run wrote: {shown}", file=str(path),
                          expected="the directory of an earlier run, or an empty one",
                          remedy="choose another directory with --output, or empty this one yourself")
    if CONFIG not in names and not names & OURS <= _BEFORE_CONFIG:
        raise ConfigError(f"not deleted: it does not look like a run: no {CONFIG}", file=str(path),
                          expected="the directory of an earlier run, or an empty one",
                          remedy="choose another directory with --output, or empty this one yourself")
    for name in names - {CONFIG}:
        entry = path / name
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    (path / CONFIG).unlink(missing_ok=True)  # last: a deletion that was cut short can be taken up again


def _commit(root: Path) -> tuple[str, bool]:
    """The commit of the checkout at `root` and whether its files differ from it; ("", False) if it is none."""
    if not (root / ".git").exists():
        return "", False
    try:
        commit, status = (subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20,
                                         check=True).stdout.strip()
                          for words in (["rev-parse", "--verify", "HEAD"], ["status", "--porcelain"]))
    except (OSError, subprocess.SubprocessError):
        return "", False
    return commit, bool(status)


def _cpu() -> str:
    """The processor's name."""
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
