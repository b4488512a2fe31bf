"""The directory that a run writes."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from seq2seq_suite import __version__
from seq2seq_suite.common.errors import ConfigError, DataError, Interrupted, RunError
from seq2seq_suite.common.files import (
    atomic_write_bytes,
    atomic_write_text,
    failure,
    naming,
    read_rows,
    refuse_links_out,
    to_json,
)
from seq2seq_suite.common.user_code import beside_of
from seq2seq_suite.runs.callbacks import Callback
from seq2seq_suite.runs.lock import LOCK, held
from seq2seq_suite.runs.records import read_provenance
from seq2seq_suite.runs.weights import hash_of
from seq2seq_suite.terminal.progress import Logged, unlogged

CONFIG = "config.yaml"
_CODE = "code"  # a copy of the files that hold code of the user's own
# Everything a run writes. `--overwrite` deletes no directory that holds anything else.
OURS = frozenset(
    {
        CONFIG,
        "provenance.json",
        "metrics.jsonl",
        "log.txt",
        "summary.json",
        "checkpoints",
        "vocabulary",
        "predictions",
        "inspection",
        "report.html",
        "tasks",
        _CODE,
    }
)
_BEFORE_CONFIG = frozenset({"log.txt", "vocabulary", "tasks", _CODE})  # files of a run that failed early
_REPLACED = ".replaced.partial"  # where a run waits until the one that is to replace it begins to train


class RunDirectory:
    """The paths of a run's files, and methods that write them.

    Args:
        path: the directory; `claim` makes a new one.
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
        self.callbacks: Sequence[Callback] = ()
        self._is_there: Callable[[], bool] = lambda: True

    @classmethod
    @contextmanager
    def claim(cls, path: Path, *, resume: bool | None, overwrite: bool) -> Iterator[RunDirectory]:
        """A directory to run in, locked against other runs.

        A start that fails, for instance because of a mistake in the data, leaves no directory behind.

        Args:
            path: where; created if it does not exist.
            resume: continue the run in the directory; None if the command cannot.
            overwrite: delete the run that is there, once `write_config` says that the new one begins.

        Raises:
            ConfigError: the directory is in use and neither flag was given, there is nothing to resume, what would be
                deleted is not a run, or another run holds it.
            RunError: while running, a file could not be written or read, or the directory was deleted.
        """
        run = cls(path)
        made = run._make(resume=bool(resume), overwrite=overwrite)
        try:
            with held(run.path) as is_there:
                run._finish_replacing()
                names = {entry.name for entry in run.path.iterdir()} - {LOCK}
                if names and overwrite:
                    run._put_aside(names)
                elif names and not resume:
                    raise ConfigError(
                        "the directory is not empty",
                        file=str(path),
                        expected="a new one for a new run",
                        remedy=("" if resume is None else "--resume continues the run in it, ")
                        + "--overwrite deletes it first, --output DIR writes elsewhere",
                    )
                run._is_there = is_there
                try:
                    yield from run._used()
                finally:
                    run._finish_replacing()
        finally:
            for folder in made:
                with suppress(OSError):  # it is not empty
                    folder.rmdir()

    def _make(self, *, resume: bool, overwrite: bool) -> list[Path]:
        """Create the directory if allowed; the created folders, innermost first."""
        place = str(self.path)
        if resume and overwrite:
            raise ConfigError(
                "--resume and --overwrite exclude each other",
                file=place,
                remedy="--resume continues the run, --overwrite deletes it first",
            )
        try:
            if self.path.exists() and not self.path.is_dir():
                raise ConfigError(
                    "is a file", file=place, expected="a directory for the run", remedy="choose another with --output"
                )
            if resume and not self.config.exists():
                missing = f"it has no {CONFIG}" if self.path.is_dir() else "the directory does not exist"
                raise ConfigError(
                    f"there is no run to resume: {missing}",
                    file=place,
                    expected="the directory of an earlier run",
                    remedy="name it with --output, or leave out --resume to start from scratch",
                )
            made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # ValueError: a name with a NUL
            raise ConfigError(
                f"cannot be created: {getattr(error, 'strerror', error)}",
                file=place,
                remedy="choose another directory with --output",
            ) from None
        return made

    def _used(self) -> Iterator[RunDirectory]:
        """Context: the directory; afterwards it is checked, and deleted if no run was started."""
        try:
            yield self
            self.check_there()
        except DataError:  # such as a checkpoint that went with the directory
            self.check_there()
            raise
        except OSError as error:
            self.check_there()
            saved = "; what was saved is untouched, --resume continues from there" if self.config.exists() else ""
            raise RunError(failure(error) + saved) from error
        finally:
            leftovers = _BEFORE_CONFIG | {LOCK, _REPLACED}
            if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} <= leftovers:
                _delete(self.path / name for name in _BEFORE_CONFIG)

    def check_there(self) -> None:
        """Raise RunError if the directory has been deleted."""
        if not self._is_there():
            raise RunError(f"{self.path}: the run's directory was deleted while it ran")

    def keep_code(self, file: str, name: str) -> str:
        """Copy a file of the user's code, and those beside it that it imports, into the run.

        Returns:
            What the run's configuration names instead of `file:name`.
        """
        path = Path(file)
        contents = {one.relative_to(path.parent): one.read_bytes() for one in (path, *beside_of(path))}
        folder = self.path / _CODE
        if any((folder / one).exists() and (folder / one).read_bytes() != content for one, content in contents.items()):
            digest = hashlib.sha256(b"".join(contents.values())).hexdigest()[:8]  # of other files of these names
            folder = folder / f"{path.stem}_{digest}"
        for one, content in contents.items():
            if not (folder / one).exists():
                (folder / one).parent.mkdir(parents=True, exist_ok=True)
                atomic_write_bytes(folder / one, content)
        return f"{(folder / path.name).relative_to(self.path).as_posix()}:{name}"

    def write_config(self, text: str) -> None:
        """Write the resolved configuration, YAML: the run begins, and one that it overwrites is deleted."""
        atomic_write_text(self.config, text)
        self._finish_replacing()

    def _put_aside(self, names: set[str]) -> None:
        """Put aside a run that is to be overwritten; raises ConfigError if it is none."""
        _check_deletable(self.path, names)
        (self.path / _REPLACED).mkdir()
        # The configuration first: without it `_finish_replacing` brings back the rest.
        for name in sorted(names, key=lambda name: name != CONFIG):
            (self.path / name).rename(self.path / _REPLACED / name)

    def _finish_replacing(self) -> None:
        """Delete a run that was put aside if another has begun in its place; else restore it."""
        aside = self.path / _REPLACED
        entries = sorted(aside.iterdir(), key=lambda entry: entry.name == CONFIG) if aside.is_dir() else []
        for entry in entries if not self.config.exists() else ():
            _delete([self.path / entry.name])
            entry.rename(self.path / entry.name)
        _delete([aside])

    def write_provenance(self, facts: Mapping[str, Any]) -> None:
        """Write the provenance; that of earlier starts is kept under `earlier`, oldest first."""
        earlier: list[Any] = []
        if os.path.lexists(self.provenance):
            before = read_provenance(self.path).model_dump(exclude_unset=True)
            earlier = [*before.pop("earlier", []), before]
        atomic_write_text(self.provenance, to_json({**facts, **({"earlier": earlier} if earlier else {})}, indent=1))

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append a row to metrics.jsonl; numbers that are not finite become null."""
        self._append(self.metrics, to_json(row))
        for callback in self.callbacks:
            callback(dict(row))

    def truncate_metrics(self, update: int, *, validated: int) -> None:
        """Drop rows that a resumed run will write again, and broken lines, such as a truncated last one.

        Args:
            update: the update it continues from; later rows are dropped.
            validated: its last validation; later validation rows are dropped.
        """
        if not os.path.lexists(self.metrics):
            return
        lines = []
        for line, row in read_rows(self.metrics, errors="replace"):
            last = validated if row is not None and row.get("split") == "validation" else update
            if row is not None and isinstance(row.get("update"), int) and row["update"] <= last:
                lines.append(line + "\n")
        atomic_write_text(self.metrics, "".join(lines))

    def log(self, line: str) -> None:
        """Append a line to log.txt, with the time."""
        self._append(self.path / "log.txt", f"{datetime.now():%Y-%m-%d %H:%M:%S}  {line}")

    def say(self, line: str) -> None:
        """Print a line, and append it to log.txt."""
        self.log(line)
        print(line, file=unlogged(), flush=True)

    @contextmanager
    def logging(self, before: Iterable[str] = ()) -> Iterator[None]:
        """Append to log.txt lines printed before, meanwhile all that is printed, and how it ends if it fails."""
        for line in before:
            self.log(line)
        try:
            with redirect_stdout(Logged(unlogged(), self.log)):
                yield
        except (RunError, Interrupted) as error:
            with suppress(OSError):  # the disk may be full, the directory gone
                self.log(str(error) or "interrupted, the state was saved")
            raise

    @staticmethod
    def _append(path: Path, line: str) -> None:
        with naming(path), path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def refuse_links_out(self) -> None:
        """Raise DataError if files of `evaluate` would end up elsewhere, through links: the run may be another's."""
        for name in ("summary.json", "log.txt", "report.html", "predictions", "inspection"):
            for path in (self.path / name, *(self.path / name).glob("*")):
                refuse_links_out(path, self.path)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write the summary."""
        atomic_write_text(self.summary, to_json(summary, indent=1))

    def write_predictions(
        self,
        name: str,
        rows: Iterable[Mapping[str, Any]],
        others: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Write predictions/<name>.jsonl, a row for each example, and `others` as <name>.<their name>.json."""
        self.predictions.mkdir(exist_ok=True)
        atomic_write_text(self.predictions / f"{name}.jsonl", "".join(to_json(row) + "\n" for row in rows))
        for part, content in others.items():
            atomic_write_text(self.predictions / f"{name}.{part}.json", to_json(content))


def provenance(
    command: list[str],
    seed: int,
    data_hashes: dict[str, str],
    *,
    processes: int = 1,
    kernels: str = "fast",
    components: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Everything that is needed to reproduce a result.

    Args:
        command: the command line.
        seed: the run's seed.
        data_hashes: name of a split -> digest of its examples.
        processes: that train together.
        kernels, components: as in the configuration; of a component's file a digest is kept.

    Returns:
        Commit (empty outside a checkout) and whether it was changed, versions, machine, time in UTC.
    """
    import numpy
    import torch

    commit, changed = _commit(Path(__file__).resolve().parents[2])
    return {
        "command": command,
        "seed": seed,
        "data": data_hashes,
        "processes": processes,
        "kernels": kernels,
        "components": {
            slot: f"{component} sha256 {hash_of(Path(component.rpartition(':')[0]))}"
            for slot, component in (components or {}).items()
        },
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "changed_since_commit": changed,
        "versions": {
            "seq2seq_suite": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
        },
        "system": platform.platform(),
        "cpu": _cpu(),
        "cpu_cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
    }


def _check_deletable(path: Path, names: set[str]) -> None:
    foreign = sorted(name for name in names - OURS if not (name.startswith(".") and name.endswith(".partial")))
    listed = ", ".join(foreign[:5]) + (f" and {len(foreign) - 5} more" if len(foreign) > 5 else "")
    if foreign or (CONFIG not in names and not names & OURS <= _BEFORE_CONFIG):
        got = f"it has files that no run wrote: {listed}" if foreign else f"it does not look like a run: no {CONFIG}"
        raise ConfigError(
            f"not deleted: {got}",
            file=str(path),
            expected="the directory of an earlier run, or an empty one",
            remedy="choose another directory with --output, or empty this one yourself",
        )


def _delete(entries: Iterable[Path]) -> None:
    """Files, links and folders that exist."""
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)


def _commit(root: Path) -> tuple[str, bool]:
    """The commit of the checkout at `root` and whether its files differ from it; ("", False) if it is none."""
    if not (root / ".git").exists():
        return "", False
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=20, check=True
            ).stdout.strip()
            for words in (["rev-parse", "--verify", "HEAD"], ["status", "--porcelain"])
        )
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
