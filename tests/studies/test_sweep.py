"""A sweep runs each combination once, goes on where it was, and says what failed."""

import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_run import in_forks

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.studies import sweep


def test_the_grid_has_every_combination_under_a_name_of_what_differs(tmp_path):
    found = sweep.directories(["backbone.norm=layer,rms", "seed=1,2", "device=cpu"], tmp_path)
    assert [path.name for path in found] == [
        "norm=layer-seed=1",
        "norm=layer-seed=2",
        "norm=rms-seed=1",
        "norm=rms-seed=2",
    ]
    assert found[tmp_path / "norm=rms-seed=1"] == ("backbone.norm=rms", "seed=1", "device=cpu")
    assert [path.name for path in sweep.directories(["backbone.dropout=0.1,1.1"], tmp_path)] == [
        "dropout=0.1",
        "dropout=1.1",
    ]
    with pytest.raises(ConfigError, match=r"seed=1 is given 3,000 times"):
        sweep.directories(["seed=" + "1," * 3000], tmp_path)
    with pytest.raises(ConfigError, match="given twice"):
        sweep.directories(["seed=1", "seed=2"], tmp_path)


@pytest.fixture
def yaml(tmp_path):
    """A configuration of a run of a second."""
    for split in ("train", "validation", "test"):
        row = {"question": "Who sat?", "context": "Tom sat. Ann left.", "answer": "Tom"}
        (tmp_path / f"{split}.jsonl").write_text((json.dumps(row) + "\n") * 4)
    file = tmp_path / "q.yaml"
    file.write_text(f"""task: qa
device: cpu
data: {{path: {tmp_path}}}
backbone: {{width: 16, feed_forward_width: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1}}
training: {{max_updates: 1, validate_every: 1, threads: 1}}
""")
    return file


@pytest.mark.slow
def test_a_run_is_a_program_of_its_own(yaml, tmp_path):
    assert cli.main(["sweep", str(yaml), "backbone.norm=layer", "--output", str(tmp_path / "runs")]) == 0
    assert [*tmp_path.glob("runs/*/summary.json")]


@pytest.mark.slow
def test_a_signal_to_the_sweep_alone_stops_its_runs_which_save_first(yaml, tmp_path):
    command = ["backbone.norm=layer,rms", "training.max_updates=100000", "training.max_minutes=60"]
    command += ["training.validate_every=100000", "--output", str(tmp_path / "runs"), "--jobs", "2"]
    process = subprocess.Popen([sys.executable, "-m", "seq2seq_suite", "sweep", str(yaml), *command])
    found = []
    while len(found) < 2 and process.poll() is None:
        time.sleep(0.1)
        found = [path for path in tmp_path.glob("runs/*/metrics.jsonl") if path.stat().st_size]
    process.terminate()
    assert process.wait(60) == 130  # it waits for its runs
    for path in found:
        last = json.loads((path.parent / "checkpoints/last/state.json").read_text())
        assert 0 < last["progress"]["update"] < 100000
        assert "interrupted" in sweep.log_of(path.parent).read_text()


def test_runs_are_made_once_and_compared(yaml, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(sweep, "subprocess", in_forks(tmp_path))
    command = ["sweep", str(yaml), "backbone.norm=layer,rms", "--output", str(tmp_path / "runs"), "--jobs", "2"]
    assert cli.main(command) == 0
    assert {path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()} == {"norm=layer", "norm=rms"}
    out = capfd.readouterr().out
    assert "norm=rms" in out and "exact_match" in out
    assert "On the validation split" in out and not (tmp_path / "runs" / "means.md").exists()
    assert (tmp_path / "runs" / "comparison.html").is_file()
    assert (tmp_path / "runs" / "comparison.csv").read_text().count("exact_match") == 2
    assert cli.main([*command[:2], "seed=1,2", *command[3:]]) == 0
    out = capfd.readouterr().out
    assert out.rstrip().endswith("means.md, means.tex, means.csv") and "as it is" in out
    assert cli.main([*command[:3], "seed=1,2", *command[3:]]) == 0
    with (tmp_path / "runs" / "means.csv").open() as file:
        means = {row["variant"]: row for row in csv.DictReader(file)}
    with (tmp_path / "runs" / "comparison.csv").open() as file:
        figures = [(row["run"], float(row["figure"])) for row in csv.DictReader(file)]
    assert means.keys() == {"norm=layer", "norm=rms"} and {row["seeds"] for row in means.values()} == {"1, 2"}
    for name, row in means.items():
        assert float(row["mean"]) == statistics.fmean(figure for run, figure in figures if run.startswith(name))
        assert f"{float(row['mean']):.2f}" in (tmp_path / "runs" / "means.md").read_text()
    assert [*json.loads((tmp_path / "runs" / "norm=rms" / "summary.json").read_text())["failures"]] == ["validation"]
    times = {path: path.stat().st_mtime_ns for path in Path(tmp_path / "runs").rglob("summary.json")}
    assert len(times) == 8 and cli.main(command) == 0
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert cli.main([*command, "training.threads=2"]) == 0  # which changes no figure
    capfd.readouterr()
    assert cli.main([*command, "training.max_updates=2"]) == 2
    assert "training.max_updates is 2, but this run was started with 1" in capfd.readouterr().err
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert cli.main([*command[:2], "backbone.norm=layer,best", *command[3:5]]) == 2  # before anything is run
    assert capfd.readouterr().err.count("backbone.norm=best: got 'best'") == 1
    assert cli.main([*command, "data.test_splits=[test]"]) == 2
    assert "sweeps and studies rank on the validation split" in capfd.readouterr().err
    (tmp_path / "empty").mkdir()
    assert cli.main([*command[:2], f"data.path={tmp_path / 'empty'}", *command[3:5]]) == 1  # one at a time
    assert "1 of 1 runs failed: run (exit code 2)" in capfd.readouterr().err
