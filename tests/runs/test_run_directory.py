"""A run's directory: who may have it, what is written into it, and what is left when things go wrong."""

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path

import numpy
import pytest

from seq2seq_suite.common.errors import ConfigError, DataError, RunError
from seq2seq_suite.runs import run_directory
from seq2seq_suite.runs.run_directory import RunDirectory, provenance


def taken(path: Path, *, resume: bool = False, overwrite: bool = False):
    return RunDirectory.claim(path, resume=resume, overwrite=overwrite)


def refused(path: Path, *, match: str, resume: bool = False, overwrite: bool = False) -> str:
    with pytest.raises(ConfigError, match=match) as caught, taken(path, resume=resume, overwrite=overwrite):
        pass
    return str(caught.value)


def rows(run: RunDirectory) -> list[dict]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_or_empty_directory_is_accepted(tmp_path, overwrite):
    for path in (tmp_path / "a" / "b", tmp_path):
        with taken(path, overwrite=overwrite) as run:
            assert run.path.is_dir()


def test_a_directory_in_use_is_refused_and_both_flags_are_named(tmp_path):
    RunDirectory(tmp_path).write_config("task: parsing\n")
    said = refused(tmp_path, match="not empty")
    assert "--resume" in said and "--overwrite" in said
    with taken(tmp_path, resume=True) as run:
        assert run.config.read_text() == "task: parsing\n"


def test_resuming_needs_a_run_and_excludes_overwriting(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        refused(path, resume=True, match="no run to resume")
    assert not (tmp_path / "absent").exists()
    refused(tmp_path, resume=True, overwrite=True, match="exclude each other")


def test_overwriting_deletes_a_run_and_nothing_else(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    run.write_config("x")
    run.append_metrics({"update": 1})
    run.checkpoints.mkdir()
    (run.checkpoints / "weights").write_text("w")
    with taken(run.path, overwrite=True) as new:
        assert not run.checkpoints.exists()
        new.write_config("y")
        assert sorted(entry.name for entry in run.path.iterdir()) == ["config.yaml", "lock"]

    for names in (["config.yaml", "thesis.tex"], ["checkpoints"], ["notes"]):
        folder = tmp_path / names[-1]
        folder.mkdir()
        for name in names:
            (folder / name).write_text("precious")
        refused(folder, overwrite=True, match="not deleted")
        assert sorted(entry.name for entry in folder.iterdir()) == sorted(names)


def test_a_run_that_was_killed_before_its_configuration_was_written_can_be_overwritten(tmp_path):
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "words.txt").write_text("a")
    (tmp_path / "lock").write_text("")
    with taken(tmp_path, overwrite=True) as run:
        run.write_config("x")
        assert not run.vocabulary.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_is_deleted_only_when_another_begins_in_its_place(tmp_path, killed):
    RunDirectory(tmp_path).write_config("old")
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "words.txt").write_text("old")

    def start() -> None:
        start_badly(tmp_path, "vocabulary/words.txt", "log.txt", overwrite=True, killed=killed)

    if killed:
        process = multiprocessing.get_context("fork").Process(target=start)
        process.start()
        process.join()
        refused(tmp_path, match="not empty")
    else:
        start()
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name != "log.txt") == [
        "config.yaml",
        "vocabulary",
    ]
    assert (tmp_path / "config.yaml").read_text() == (tmp_path / "vocabulary" / "words.txt").read_text() == "old"


def test_what_cannot_be_a_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("a" * 300), tmp_path / "a\0b"):
        refused(path, match="is a file|cannot be created")


def start_badly(path: Path, *written: str, overwrite: bool = False, killed: bool = False) -> None:
    with pytest.raises(DataError), taken(path, overwrite=overwrite) as run:
        for name in written:
            (run.path / name).parent.mkdir(exist_ok=True)
            (run.path / name).write_text("x")
        if killed:
            os.kill(os.getpid(), signal.SIGKILL)
        raise DataError("a row is broken")


def test_a_start_that_comes_to_nothing_leaves_nothing_behind(tmp_path):
    for written in ([], ["log.txt", "vocabulary/words.txt"]):
        start_badly(tmp_path / "runs" / "one", *written)
        assert not (tmp_path / "runs").exists()
    (tmp_path / "empty").mkdir()
    start_badly(tmp_path / "empty", "log.txt")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("name", ["config.yaml", "checkpoints/step-1", "notes"])
def test_a_start_that_came_to_something_stays(tmp_path, name):
    start_badly(tmp_path / "run", "log.txt", name)
    assert (tmp_path / "run" / name).exists() and (tmp_path / "run" / "log.txt").exists()
    assert not (tmp_path / "run" / "lock").exists()


@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}], ids=["plain", "resume", "overwrite"])
def test_a_second_run_is_refused_with_the_holder_of_the_directory(tmp_path, flags):
    with taken(tmp_path) as run:
        run.write_config("x")
        said = refused(tmp_path, **flags, match="another run is using this directory")
        assert f"process {os.getpid()} on {socket.gethostname()}, since 20" in said and run.config.exists()


def test_the_lock_of_a_process_that_was_killed_refuses_nobody(tmp_path):
    def die() -> None:
        with taken(tmp_path) as run:
            run.write_config("x")
            os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=die)
    process.start()
    process.join()
    assert json.loads((tmp_path / "lock").read_text())["process"] == process.pid
    with taken(tmp_path, resume=True):
        assert json.loads((tmp_path / "lock").read_text())["process"] == os.getpid()
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize("content", ["", "3", "{}", "[]", "\0"])
def test_a_lock_that_says_nothing_is_one_all_the_same(tmp_path, content):
    with taken(tmp_path):
        (tmp_path / "lock").write_text(content)
        refused(tmp_path, match="its owner is not known yet")


def test_a_lock_that_was_deleted_between_opening_and_locking_is_acquired_anew(tmp_path, monkeypatch):
    whole, calls = fcntl.flock, []

    def late(*arguments):
        if not calls:
            (tmp_path / "lock").unlink()
        calls.append(arguments)
        whole(*arguments)

    monkeypatch.setattr(fcntl, "flock", late)
    with taken(tmp_path):
        refused(tmp_path, match="another run")
    assert len(calls) > 2


def test_a_file_system_without_locks_is_mentioned(tmp_path, monkeypatch, capsys):
    def absent(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", absent)
    with taken(tmp_path / "run"):
        assert "has no locks" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("again", [False, True])
def test_a_directory_that_was_deleted_meanwhile_ends_the_run(tmp_path, again):
    with pytest.raises(RunError, match="deleted while it ran"), taken(tmp_path / "run") as run:
        run.write_config("x")
        shutil.rmtree(run.path)
        if again:
            run.path.mkdir()
        else:
            run.append_metrics({"update": 1})


def test_what_is_missing_because_the_directory_was_deleted_is_no_mistake_of_the_user(tmp_path):
    with pytest.raises(RunError, match="deleted while it ran"), taken(tmp_path / "run") as run:
        shutil.rmtree(run.path)
        raise DataError("no checkpoint", file="run/checkpoints")
    with pytest.raises(DataError, match="no checkpoint"), taken(tmp_path / "run"):
        raise DataError("no checkpoint", file="run/checkpoints")


def test_what_cannot_be_written_is_named_with_the_reason(tmp_path):
    with taken(tmp_path / "run") as run:
        run.write_config("x")
    writer = f"{os.getpid()}-{threading.get_ident():x}"
    writes = {
        "metrics.jsonl": lambda: run.append_metrics({"update": 1}),
        "log.txt": lambda: run.log("a line"),
        f".summary.json.{writer}.partial": lambda: run.write_summary({}),
    }
    for name, write in writes.items():
        with (
            pytest.raises(RunError, match=r"run/\w+\.\w+: No space left on device; .* --resume") as caught,
            taken(run.path, resume=True),
        ):
            (run.path / name).symlink_to("/dev/full")
            write()
        assert name.removeprefix(".").removesuffix(f".{writer}.partial") in str(caught.value)
        assert not list(run.path.glob(".*.partial"))


def test_metrics_are_strict_json_without_nan(tmp_path):
    run = RunDirectory(tmp_path)
    run.append_metrics(
        {
            "update": 1,
            "loss": float("nan"),
            "inner": [float("inf"), 1.5],
            "f1": numpy.float32(0.5),
            "count": numpy.int64(3),
        }
    )
    run.append_metrics({"update": 2, "word": "größer"})
    assert rows(run) == [
        {"update": 1, "loss": None, "inner": [None, 1.5], "f1": 0.5, "count": 3},
        {"update": 2, "word": "größer"},
    ]
    assert "größer" in run.metrics.read_text(encoding="utf-8") and "NaN" not in run.metrics.read_text()


def test_rows_beyond_the_checkpoint_and_a_row_cut_short_are_dropped(tmp_path):
    run = RunDirectory(tmp_path)
    run.truncate_metrics(3, validated=3)
    for update in (1, 2, 3, 4):
        run.append_metrics({"update": update})
    with run.metrics.open("a") as file:
        file.write('{"update": 2, "lo')
    run.truncate_metrics(2, validated=2)
    run.append_metrics({"update": 3, "again": True})
    assert rows(run) == [{"update": 1}, {"update": 2}, {"update": 3, "again": True}]


def test_log_summary_and_predictions_are_written(tmp_path):
    run = RunDirectory(tmp_path)
    run.log("first")
    run.log("second")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["first", "second"] and lines[0][:2] == "20"
    run.write_summary({"splits": {"test": {"f1": 90.0}}})
    assert json.loads(run.summary.read_text())["splits"]["test"]["f1"] == 90.0
    run.write_predictions("test", [{"prediction": "(S a)"}, {"prediction": None}])
    assert (tmp_path / "predictions" / "test.jsonl").read_text() == '{"prediction": "(S a)"}\n{"prediction": null}\n'


def test_provenance_names_the_commit_and_whether_files_differ_from_it(tmp_path, monkeypatch):
    def git(*words: str) -> str:
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.check_output(command, text=True, env={**os.environ, **own}).strip()

    if shutil.which("git") is None:
        pytest.skip("no git here")
    monkeypatch.setattr(run_directory, "__file__", str(tmp_path / "seq2seq_suite/runs/run_directory.py"))
    git("init", "-q")
    (tmp_path / "a.txt").write_text("one")

    def facts() -> tuple[str, bool]:
        found = provenance(["run"], 1, {})
        return found["commit"], found["changed_since_commit"]

    assert facts() == ("", False)  # nothing is committed yet
    git("add", "-A")
    git("commit", "-qm", "a")
    assert facts() == (git("rev-parse", "HEAD"), False)
    (tmp_path / "a.txt").write_text("two")
    assert facts() == (git("rev-parse", "HEAD"), True)


def test_provenance_names_versions_machine_and_command_and_keeps_earlier_starts(tmp_path):
    facts = provenance(["run", "a.yaml"], 3, {"train": "abc"})
    assert facts["command"] == ["run", "a.yaml"] and facts["seed"] == 3 and facts["data"] == {"train": "abc"}
    assert set(facts["versions"]) == {"seq2seq_suite", "python", "torch", "numpy"} and facts["time"].endswith("+00:00")
    assert facts["cpu"] and facts["threads"] >= 1 and isinstance(facts["commit"], str)
    run = RunDirectory(tmp_path)
    starts = [{"seed": seed, "commit": "", "data": {}} for seed in (1, 2, 3)]
    for start in starts:
        run.write_provenance(start)
    assert json.loads(run.provenance.read_text()) == {**starts[2], "earlier": starts[:2]}
