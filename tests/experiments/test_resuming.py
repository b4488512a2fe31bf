"""A run that was stopped, in whatever way, ends where it would have ended without the stop."""

import errno
import itertools
import json
import multiprocessing
import os
import pty
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from daily import daily
from safetensors import SafetensorError
from small_run import metrics, small_config, start, weights, write_trees

from benchmarks.faults import commands
from seq2seq_suite.cli import app as cli
from seq2seq_suite.cli import exit_codes as cli_exit
from seq2seq_suite.common.errors import ConfigError, DataError, Interrupted, RunError
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments.resuming import check_configuration
from seq2seq_suite.runs import signals
from seq2seq_suite.runs import weights as stored
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.tasks.parsing.task import ParsingTask
from seq2seq_suite.training import checkpoint
from seq2seq_suite.training.optimizer import learning_rate
from seq2seq_suite.training.trainer import Trainer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def config(folder):
    return small_config(folder, schedule="cosine")


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole") / "run"
    start(config, directory)
    return directory


def progress(directory: Path) -> dict:
    found = json.loads((directory / "checkpoints" / "last" / "state.json").read_text())["progress"]
    clock = ("seconds", "validation_seconds", "since_logged")
    return {name: value for name, value in found.items() if name not in clock}


def assert_same(one: Path, other: Path) -> None:
    assert weights(one) == weights(other)
    assert metrics(one) == metrics(other)
    assert progress(one) == progress(other)
    assert (one / "checkpoints" / "best").resolve().name == (other / "checkpoints" / "best").resolve().name
    assert weights(one, "best") == weights(other, "best")


def run_in_child(config: Config, directory: Path, before: Callable[[], None]) -> multiprocessing.Process:
    resume = (directory / "config.yaml").exists()

    def work() -> None:
        before()
        start(config, directory, resume=resume)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


def kill_when(config: Config, directory: Path, when: Callable[[], bool]) -> None:
    """Run in a process of its own and kill it without warning as soon as `when` is true."""
    process = run_in_child(config, directory, lambda: None)
    while process.is_alive() and not when():
        time.sleep(0.0005)
    process.kill()
    process.join()


def kill_at(config: Config, directory: Path, function: str, call: int) -> None:
    """Run in a process of its own that is killed instead of the `call`-th call of a function of `checkpoint`."""
    whole, calls = getattr(checkpoint, function), itertools.count(1)

    def dying(*arguments, **options):
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **options)

    process = run_in_child(config, directory, lambda: setattr(checkpoint, function, dying))
    process.join()
    assert process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                {"ema_decay": 0.0, "accumulate": 2},
                {"precision": "bfloat16", "accumulate": 2, "log_every": 3, "save_every": 4},
                {"optimizer": "muon"},
            )
        ),
    ],
    ids=["average", "accumulation", "bfloat16", "muon"],
)
def test_ten_updates_and_ten_more_are_twenty(folder, tmp_path, options):
    start(small_config(folder, **options), tmp_path / "whole")
    start(small_config(folder, **options, max_updates=10), tmp_path / "parts")
    start(small_config(folder, **options), tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_the_same(config, whole, tmp_path):
    directory, chance = tmp_path / "run", random.Random(1)
    for _ in range(4):
        rows = len(metrics(directory)) if (directory / "metrics.jsonl").exists() else 0
        enough = rows + chance.randint(1, 4)
        path = directory / "metrics.jsonl"
        kill_when(
            config, directory, lambda path=path, enough=enough: path.exists() and path.read_text().count("\n") >= enough
        )
    start(config, directory, resume=True)
    assert_same(whole, directory)


@pytest.mark.slow
# Updates 5, 10, 15 and 20 write a checkpoint, the end of training replaces the last one.
@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("save_file", 1),
        ("save_file", 4),
        ("to_disk", 2),
        ("to_disk", 9),
        ("_replace", 3),
        ("to_disk", 12),
        ("point", 2),
        ("point", 3),
        ("_prune", 3),
        ("_replace", 5),
        ("_prune", 5),
    ],
)
def test_a_run_killed_while_it_writes_a_checkpoint_ends_the_same(config, whole, tmp_path, function, call):
    directory = tmp_path / "run"
    kill_at(config, directory, function, call)
    start(config, directory, resume=True)
    assert_same(whole, directory)
    assert not list((directory / "checkpoints").glob(".step-*"))


def test_a_crash_between_the_two_renames_of_a_replaced_checkpoint_is_mended(config, whole, tmp_path, capsys):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    (directory / "checkpoints" / "step-20").rename(directory / "checkpoints" / ".step-20.old")
    start(config, directory, resume=True)
    assert "resuming at update 20 of 20" in capsys.readouterr().out
    assert_same(whole, directory)


def test_a_validation_whose_checkpoint_was_never_written_is_not_counted_twice(folder, tmp_path):
    config = small_config(folder, validate_every=15, save_every=20)
    start(config, tmp_path / "whole")
    kill_at(config, tmp_path / "run", "save", 3)  # those at 15 and at 20 come before the last validation
    assert [row["update"] for row in metrics(tmp_path / "run") if row["split"] == "validation"] == [15, 20]
    start(config, tmp_path / "run", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "run")


def test_a_run_stopped_before_its_first_checkpoint_starts_from_the_beginning(config, whole, tmp_path):
    directory = tmp_path / "run"
    kill_at(config, directory, "save", 1)
    assert metrics(directory) and not (directory / "checkpoints").exists()
    start(config, directory, resume=True)
    assert_same(whole, directory)
    starts = json.loads((directory / "provenance.json").read_text())
    assert len(starts["earlier"]) == 1 and starts["earlier"][0]["data"] == starts["data"]


def slow_updates() -> None:
    """Slow enough for a signal to come between them."""
    update = Trainer._update
    Trainer._update = lambda self, parts: (time.sleep(0.05), update(self, parts))[1]


@pytest.mark.parametrize("number", daily([signal.SIGTERM, signal.SIGINT], signal.SIGTERM), ids=["SIGTERM", "SIGINT"])
def test_a_signal_saves_and_ends_with_130_and_the_rest_is_the_same(config, whole, tmp_path, number):
    directory, yaml = tmp_path / "run", tmp_path / "small.yaml"
    yaml.write_text(config_file.dump(config))
    program = commands.start(
        cli.main, ["run", str(yaml), "--output", str(directory)], tmp_path, limit=60.0, first=slow_updates
    )
    while program.poll() is None and not (directory / "metrics.jsonl").exists():
        time.sleep(0.001)
    program.kill(number)
    ended = program.wait()
    assert ended.code == 130, ended.err
    assert "--resume" in ended.err and "Traceback" not in ended.err
    assert 0 < progress(directory)["update"] < 20
    start(config, directory, resume=True)
    assert_same(whole, directory)


def test_a_stop_during_validation_is_made_up_for(config, whole, tmp_path, monkeypatch):
    validate = Trainer._validate

    def stopped(self, stop):
        stop.signal = signal.SIGINT if self.progress.update == 10 else 0
        return validate(self, stop)

    monkeypatch.setattr(Trainer, "_validate", stopped)
    with pytest.raises(Interrupted):
        start(config, tmp_path / "run")
    assert progress(tmp_path / "run")["update"] == 10 and progress(tmp_path / "run")["best_update"] == -1
    monkeypatch.undo()
    start(config, tmp_path / "run", resume=True)
    assert_same(whole, tmp_path / "run")


def hang_up_at(monkeypatch, update: int) -> None:
    whole = Trainer._update

    def updated(self, parts):
        if self.progress.update == update:
            os.kill(os.getpid(), signal.SIGHUP)
        return whole(self, parts)

    monkeypatch.setattr(Trainer, "_update", updated)


@pytest.fixture
def hangup():
    """Signals do what they do in a terminal, also where a shell in the background has them ignored; then restored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_terminal_that_hangs_up_ends_the_run_as_a_signal_does(config, whole, tmp_path, monkeypatch, hangup, capsys):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    (tmp_path / "small.yaml").write_text(config_file.dump(config))
    command = ["run", str(tmp_path / "small.yaml"), "--output", str(tmp_path / "run")]
    hang_up_at(monkeypatch, 7)
    assert cli.main(command) == 130
    assert "--resume" in capsys.readouterr().err and progress(tmp_path / "run")["update"] == 8
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` has it
    assert cli.main([*command, "--resume"]) == 0
    assert_same(whole, tmp_path / "run")


def test_a_hang_up_that_is_ignored_stays_ignored(config, whole, tmp_path, monkeypatch, hangup):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    (tmp_path / "small.yaml").write_text(config_file.dump(config))
    hang_up_at(monkeypatch, 7)
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--output", str(tmp_path / "run")]) == 0
    assert_same(whole, tmp_path / "run")


def test_what_is_printed_to_a_terminal_that_is_gone_goes_nowhere(monkeypatch):
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        signals.leave_terminal()
        assert terminal.isatty(), "it is there, and stays"
        os.close(master)
        with pytest.raises(OSError):
            os.write(slave, b"x")
        signals.leave_terminal()
        print("x", flush=True)


@pytest.mark.parametrize(
    ("call", "step"), daily([(1, 5), (4, 10)], (4, 10)), ids=["first checkpoint", "second checkpoint"]
)
def test_a_full_disk_ends_the_run_in_a_line_and_it_goes_on_when_there_is_room(
    config, whole, tmp_path, monkeypatch, call, step
):
    write, calls = checkpoint.save_file, itertools.count(1)

    def full(tensors, path):
        write(tensors, path)
        if next(calls) == call:
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(RunError, match=f"step-{step}: No space left on device; what was saved is untouched"):
        start(config, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    assert [path.name for path in sorted(folder.iterdir())] == ([] if step == 5 else ["last", "step-5"])
    start(config, tmp_path / "run", resume=True)
    assert_same(whole, tmp_path / "run")


def test_a_row_that_the_disk_had_no_room_for_is_written_when_there_is(config, whole, tmp_path, monkeypatch):
    append = RunDirectory.append_metrics

    def full(self, row):
        append(self, row)
        if row["update"] == 8:
            os.truncate(self.metrics, self.metrics.stat().st_size - 9)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.metrics))

    monkeypatch.setattr(RunDirectory, "append_metrics", full)
    with pytest.raises(RunError, match=r"metrics\.jsonl: No space left on device"):
        start(config, tmp_path / "run")
    monkeypatch.undo()
    start(config, tmp_path / "run", resume=True)
    assert_same(whole, tmp_path / "run")


def test_control_c_while_data_are_read_ends_with_130(config, tmp_path, monkeypatch, capsys):
    def interrupted(self, split):
        raise KeyboardInterrupt

    monkeypatch.setattr(ParsingTask, "read", interrupted)
    (tmp_path / "small.yaml").write_text(config_file.dump(config))
    assert cli.main(["run", str(tmp_path / "small.yaml"), "--output", str(tmp_path / "run")]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_a_finished_run_says_so_and_can_be_extended(config, whole, tmp_path, capsys):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    (tmp_path / "small.yaml").write_text(config_file.dump(config))
    command = ["run", str(tmp_path / "small.yaml"), "--output", str(directory), "--resume"]
    assert cli.main(command) == 0
    said = capsys.readouterr().out
    assert "this run is finished (20 updates): training.max_updates=20 is reached" in said and "no_crossing" in said
    assert_same(whole, directory)

    assert cli.main([*command, "training.max_updates=24"]) == 0
    assert progress(directory)["update"] == 24
    assert [row["update"] for row in metrics(directory) if row["split"] == "train"] == [1, *range(2, 25, 2)]
    assert len(json.loads((directory / "provenance.json").read_text())["earlier"]) == 1


def test_resuming_a_finished_run_touches_no_file(config, whole, tmp_path, monkeypatch):
    def state() -> dict[Path, tuple[bytes, int]]:
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.rglob("*") if path.is_file()}

    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    before = state()
    monkeypatch.setattr(ParsingTask, "read", lambda self, split: pytest.fail("nothing is to be read"))
    changed = config.model_copy(update={"training": config.training.model_copy(update={"threads": 2})})
    for given in (config, changed):
        assert start(given, directory, resume=True) == json.loads((whole / "summary.json").read_text())
    assert state() == before


@pytest.mark.parametrize("what", ["summary.json", "step-20", "search"])
def test_a_finished_run_with_something_left_to_do_goes_on(config, whole, tmp_path, what):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    if what == "summary.json":
        (directory / what).write_text("{}")
    elif what == "step-20":
        shutil.rmtree(directory / "checkpoints" / what)
    else:
        config = config.model_copy(update={"search": config.search.model_copy(update={"beam_size": 2})})
    start(config, directory, resume=True)
    assert len(json.loads((directory / "provenance.json").read_text())["earlier"]) == 1
    assert json.loads((directory / "summary.json").read_text())["updates"] == 20
    assert weights(whole) == weights(directory)


def test_a_run_that_goes_on_has_no_summary_until_it_ends(config, whole, tmp_path, monkeypatch):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    longer = config.model_copy(update={"training": config.training.model_copy(update={"max_updates": 22})})
    monkeypatch.setattr(Trainer, "train", lambda self: pytest.fail("as if killed"))
    with pytest.raises(pytest.fail.Exception):
        start(longer, directory, resume=True)
    assert not (directory / "summary.json").exists()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_another_optimizer_is_refused_when_resuming(folder, tmp_path, optimizer):
    other = {"adamw": "muon", "muon": "adamw"}[optimizer]
    RunDirectory(tmp_path).write_config(config_file.dump(small_config(folder, optimizer=optimizer)))
    with pytest.raises(ConfigError, match=f"training.optimizer is '{other}', but the run was started with"):
        start(small_config(folder, optimizer=other), tmp_path, resume=True)


def spoil(folder: Path, how: str) -> None:
    path = folder / "training.safetensors"
    data = path.read_bytes()
    match how:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "flipped":
            path.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
        case "missing":
            path.unlink()
        case "no state":
            (folder / "state.json").unlink()
        case "empty state":
            (folder / "state.json").write_text("")
        case "foreign":
            from safetensors.torch import save_file
            from torch import ones

            save_file({"other": ones(3)}, folder / "model.safetensors")


@pytest.mark.parametrize(
    "how", daily(["cut", "flipped", "missing", "no state", "empty state", "foreign"], "flipped", "no state", "foreign")
)
def test_a_broken_checkpoint_is_named_and_the_one_before_it_is_used(config, whole, tmp_path, how, capsys):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    spoil(directory / "checkpoints" / "step-20", how)
    start(config, directory, resume=True)
    said = capsys.readouterr().out
    assert "step-20" in said and "resuming at update 15 of 20" in said
    assert metrics(whole) == metrics(directory)
    assert weights(whole) == weights(directory)
    assert [path.name for path in stored.steps(directory / "checkpoints")][-1] == "step-20"


def test_new_checkpoints_are_kept_although_a_broken_one_has_a_higher_number(config, whole, tmp_path):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    spoil(directory / "checkpoints" / "step-20", "cut")
    values = config.model_dump()
    values["training"] |= {"save_every": 1, "keep_checkpoints": 1}
    kill_at(Config.model_validate(values), directory, "save", 3)
    assert (directory / "checkpoints" / "last").resolve().name == "step-17"
    assert (directory / "checkpoints" / "last" / "model.safetensors").is_file()
    assert (directory / "checkpoints" / "broken-step-20").is_dir()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"max_updates": 40},
            "learning rate goes from {:.2g} to {:.2g} at update 21: cosine over 40 updates (was cosine",
        ),
        ({"schedule": "constant", "max_updates": 21}, "to {1:.2g} at update 21: constant over 21 updates (was cosine"),
        ({"threads": 2}, ""),
        ({"log_every": 3}, ""),
    ],
)
def test_a_schedule_that_moves_the_learning_rate_says_so(config, whole, tmp_path, capsys, changes, said):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    values = config.model_dump()
    values["training"] |= changes
    changed = Config.model_validate(values)
    check_configuration(RunDirectory(directory), changed)
    rates = learning_rate(config.training, 19, 19 / 20), learning_rate(changed.training, 20, 20 / 40)
    found = capsys.readouterr().out
    assert (said.format(*rates) in found) if said else "learning rate" not in found
    assert ("learning rate" in (directory / "log.txt").read_text()) == bool(said)


def test_without_any_whole_checkpoint_resuming_is_refused(config, whole, tmp_path):
    directory = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    for path in stored.steps(directory / "checkpoints"):
        spoil(path, "cut")
    with pytest.raises(DataError, match="no checkpoint can be used") as caught:
        start(config, directory, resume=True)
    assert "step-20" in str(caught.value) and "truncated" in str(caught.value) and "--overwrite" in str(caught.value)


def test_a_run_by_itself_leaves_ctrl_c_to_python_so_that_a_second_one_ends_it_at_once(hangup):
    seen = []
    assert cli_exit.finish(lambda: seen.append(signal.getsignal(signal.SIGINT)), processes=1) == 0
    assert seen == [signal.default_int_handler]
