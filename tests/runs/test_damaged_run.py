"""A run directory with a file that somebody or something has damaged: said in a line, or made do without."""

import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from daily import daily
from small_run import metrics, small_config, start, weights, write_trees
from torch import nn

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.experiments import resuming
from seq2seq_suite.report.run import write_report
from seq2seq_suite.runs import weights as stored
from seq2seq_suite.runs.run_directory import RunDirectory
from seq2seq_suite.studies import study, sweep
from seq2seq_suite.studies.compare import compare_runs
from seq2seq_suite.training import checkpoint

DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_text(""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "number": lambda path: path.write_text("3"),
    "list": lambda path: path.write_text('[{"update": 1}]'),
    "object": lambda path: path.write_text("{}"),
    "other object": lambda path: path.write_text(
        '{"splits": 3, "earlier": 3, "data": [], "labels": {"NP": [1, "a", []]}, "progress": 3, "files": []}'
    ),
    "not UTF-8": lambda path: path.write_bytes(path.read_bytes() + b"\xe9\xff"),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "deep": lambda path: path.write_text("[" * 10_000),
    "a little deep": lambda path: path.write_text('{"earlier": [{"a": ' + "[" * 450 + "]" * 450 + "}]}"),
    "long number": lambda path: path.write_text('{"seed": ' + "9" * 5000 + "}"),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
}


each_damage = pytest.mark.parametrize(
    "how", daily(DAMAGES, "empty", "cut", "object", "other object", "not UTF-8", "deep", "folder")
)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return small_config(
        write_trees(tmp_path_factory.mktemp("data")), max_updates=4, validate_every=2, save_every=2, log_every=1
    )


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    directory = tmp_path_factory.mktemp("whole") / "run"
    start(config, directory)
    return directory


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run", symlinks=True)


@pytest.fixture
def unfinished(run):
    """The run as a kill after its first checkpoint has left it."""
    for name in ("summary.json", "predictions", "checkpoints/step-4"):
        shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    return run


@each_damage
def test_a_damaged_file_of_a_run_is_named_where_runs_stand_side_by_side(run, how):
    for name in ("summary.json", "provenance.json", "predictions/test.jsonl"):
        kept = (run / name).read_bytes()
        DAMAGES[how](run / name)
        with pytest.raises(DataError, match=name):
            compare_runs([run], measure=False)
        if name == "summary.json":
            with pytest.raises(DataError, match=name):
                study._cell("parsing", "plain", "test", [run])
        (run / name).rmdir() if how == "folder" else (run / name).unlink()
        (run / name).write_bytes(kept)
    compare_runs([run], measure=False)


@each_damage
def test_the_page_of_a_run_does_without_what_is_damaged(run, how):
    for name in (
        "summary.json",
        "provenance.json",
        "metrics.jsonl",
        "predictions/test.jsonl",
        "predictions/test.details.json",
        "config.yaml",
    ):
        DAMAGES[how](run / name)
        assert "</html>" in write_report(run).read_text(encoding="utf-8")


@pytest.mark.parametrize("how", DAMAGES)
def test_a_run_is_not_resumed_from_a_damaged_provenance(run, how):
    DAMAGES[how](run / "provenance.json")
    directory = RunDirectory(run)
    for read in (lambda: resuming.check_data(directory, {}, ""), lambda: directory.write_provenance({})):
        with pytest.raises(DataError, match=r"provenance\.json") as caught:
            read()
        assert "delete it" in str(caught.value)


@pytest.mark.parametrize("how", DAMAGES)
def test_of_damaged_figures_the_rows_that_are_whole_are_kept(run, how):
    before = (run / "metrics.jsonl").read_text().splitlines()
    DAMAGES[how](run / "metrics.jsonl")
    if how in ("folder", "link to itself"):
        with pytest.raises(DataError, match=r"metrics\.jsonl: (this is a folder|the file cannot be read)"):
            RunDirectory(run).truncate_metrics(9, validated=9)
        return
    RunDirectory(run).truncate_metrics(9, validated=9)
    kept = {"not UTF-8": before, "cut": before[:-1]}.get(how, [])
    assert (run / "metrics.jsonl").read_text().splitlines() == kept


def test_a_run_whose_figures_are_damaged_goes_on(unfinished, whole, config):
    (unfinished / "metrics.jsonl").write_bytes(bytes(range(256)))
    start(config, unfinished, resume=True)
    assert weights(unfinished) == weights(whole)
    assert metrics(unfinished) == [row for row in metrics(whole) if row["update"] > 2]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_checkpoint_whose_state_is_damaged_is_not_used(run, how):
    path = run / "checkpoints" / "step-4"
    DAMAGES[how](path / "state.json")
    for read in (lambda: stored.load_weights(path, nn.Linear(1, 1)), lambda: checkpoint._read_state(path)):
        with pytest.raises(DataError, match=r"step-4/state\.json"):
            read()


def test_a_sweep_goes_on_with_a_run_whose_summary_is_damaged(run, tmp_path, monkeypatch):
    shutil.copy(run / "config.yaml", tmp_path / "c.yaml")
    commands = []
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **_: commands.append(command) or SimpleNamespace(wait=lambda: 0)
    )
    for count, text in enumerate([(run / "summary.json").read_text(), "", "{}"]):
        (run / "summary.json").write_text(text)
        sweep.run_all({run: (tmp_path / "c.yaml", [])}, jobs=1)
        assert len(commands) == count
    assert "--resume" in commands[0]


@pytest.mark.parametrize("name", ["checkpoints", "vocabulary", "predictions", "log.txt", "report.html"])
def test_files_for_folders_and_folders_for_files_end_a_run_in_a_line(unfinished, config, name, tmp_path, capsys):
    path, yaml = unfinished / name, tmp_path / "c.yaml"
    yaml.write_text((unfinished / "config.yaml").read_text())
    if "." in name:
        path.unlink(missing_ok=True)
        path.mkdir()
    else:
        shutil.rmtree(path, ignore_errors=True)
        path.write_text("3")
    assert cli.main(["run", str(yaml), "--output", str(unfinished), "--resume"]) in (1, 2)
    assert name in capsys.readouterr().err.splitlines()[0]


def test_bits_that_have_flipped_in_the_best_weights_are_found_by_all_who_use_them(run, tmp_path, capsys):
    path = (run / "checkpoints" / "best").resolve() / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    yaml = str(tmp_path / "c.yaml")
    (tmp_path / "c.yaml").write_text((run / "config.yaml").read_text())
    beginning = ["init_parts=[encoder]", f"init_from={run}", "--output", str(tmp_path / "other")]
    for command in (["predict", str(run), "the cat"], ["evaluate", str(run)], ["run", yaml, *beginning]):
        assert cli.main(command) == 2
        assert "model.safetensors: its contents do not match its hash" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_summary_with_a_figure_that_is_no_number_is_compared(run):
    summary = json.loads((run / "summary.json").read_text())
    summary["splits"]["test"]["f1"] = None  # as NaN is written
    (run / "summary.json").write_text(json.dumps(summary))
    assert compare_runs([run], measure=False).rows[0].figure == 0.0, "that of the predictions"
    file = run / "predictions" / "test.jsonl"
    rows = [json.loads(line) | {"counts": []} for line in file.read_text().splitlines()]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert math.isnan(compare_runs([run], measure=False).rows[0].figure)


def test_names_that_no_file_can_have_are_the_users_mistake(whole, tmp_path, capsys):
    yaml = str(whole / "config.yaml")
    long, deep = str(tmp_path / ("a" * 300)), str(tmp_path / "/".join(["a" * 200] * 22))
    for path in (long, deep):
        for command in (
            ["run", yaml, "--output", path],
            ["run", yaml, "--output", path, "--resume"],
            ["predict", path, "the cat"],
            ["evaluate", path],
            ["compare", path],
        ):
            assert cli.main(command) == 2, command
            assert "too long" in capsys.readouterr().err
