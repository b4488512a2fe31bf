"""Runs as jobs: by submitit's local executor, and what SLURM would receive."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import submitit  # noqa: F401  here, since it closes all log handlers: absl's would close what pytest captures in a test
from small_run import metrics, small_config, start, write_trees

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, RunError
from seq2seq_suite.config import config_file
from seq2seq_suite.studies import sweep
from seq2seq_suite.studies.slurm import Cluster

PAGE = Path(__file__).parents[2] / "seq2seq_suite/training/README.md"
WARNED = """
import os, signal
from pathlib import Path
from torch.nn import functional

def drop(x, rate, residual=None):
    \"\"\"Dropout; once, in the middle of the run, the job receives the signal that its time is over.\"\"\"
    signalled = Path(__file__).with_name("signalled")
    if rate and (signalled.parent / "runs/run/checkpoints/last").exists() and not signalled.exists():
        signalled.touch()
        os.kill(os.getppid(), signal.SIGUSR2)
    dropped = functional.dropout(x, rate)
    return dropped if residual is None else residual + dropped
"""


@pytest.mark.slow
def test_a_job_whose_time_is_over_saves_is_queued_again_and_resumes_as_if_nothing_had_happened(tmp_path, capfd):
    (tmp_path / "warned.py").write_text(WARNED)
    config = small_config(write_trees(tmp_path / "data"), max_updates=8, validate_every=8, save_every=2)
    values = config.model_dump() | {"components": {"dropout": f"{tmp_path / 'warned.py'}:drop"}}
    written = config_file.dump(type(config).model_validate(values))
    (tmp_path / "small.yaml").write_text(re.sub("^format: .*\n", "", written))  # which marks what a run wrote
    (tmp_path / "cluster.yaml").write_text("cluster: local\ntimeout_min: 5\n")
    command = [
        "sweep",
        str(tmp_path / "small.yaml"),
        "seed=1",
        "--output",
        str(tmp_path / "runs"),
        "--executor",
        "submitit",
        "--cluster",
        str(tmp_path / "cluster.yaml"),
    ]
    assert cli.main(command) == 0
    rows = [line.split()[:5] for line in capfd.readouterr().out.splitlines()]
    assert ["run", "parsing", "1", "validation", "f1"] in rows
    run = tmp_path / "runs/run"
    assert (tmp_path / "signalled").exists() and "resuming at update" in (tmp_path / "runs/run.log").read_text()
    assert len(json.loads((run / "provenance.json").read_text())["earlier"]) == 1
    start(config_file.load(tmp_path / "small.yaml", own=True), tmp_path / "alone")
    assert metrics(run) == metrics(tmp_path / "alone")
    written = (run / "summary.json").stat().st_mtime_ns
    assert cli.main(command) == 0 and (run / "summary.json").stat().st_mtime_ns == written


@pytest.mark.slow
def test_a_job_that_fails_fails_the_sweep(tmp_path, monkeypatch):
    """Of a Python without PyTorch: how the suite's own runs fail does not depend on where they run."""
    (tmp_path / "cluster.yaml").write_text("cluster: local\ntimeout_min: 5\n")
    (tmp_path / "q.yaml").write_text("task: qa\n")
    monkeypatch.setattr(sweep, "_command", lambda *_: [sys.executable, "-c", "raise SystemExit(2)"])
    with pytest.raises(RunError, match=r"1 of 1 runs failed: run \(exit code 2\)"):
        sweep.run_all(
            {tmp_path / "run": (tmp_path / "q.yaml", ())},
            jobs=1,
            cluster=Cluster(tmp_path / "jobs", tmp_path / "cluster.yaml", jobs=None),
        )


def test_slurm_receives_what_the_file_of_the_page_says(tmp_path, monkeypatch):
    slurm_of(tmp_path, monkeypatch, srun="", sbatch="")
    options = tmp_path / "cluster.yaml"
    text = re.search(r"```yaml\n(slurm_partition.*?)```", PAGE.read_text(), re.DOTALL)[1]
    options.write_text(text.replace("gpus_per_node: 1", "gpus_per_node: 2"))
    cluster = Cluster(tmp_path / "jobs", options, jobs=3)
    inner = cluster._executor._executor
    text = inner._make_submission_file_text("COMMAND", "1")
    for line in ("--partition=gpu", "--time=240", "--gpus-per-node=2", "--mem=32GB", "module load cuda", "COMMAND"):
        assert line in text
    assert inner.parameters["array_parallelism"] == 3 and cluster._processes == 2


def slurm_of(folder, monkeypatch, **programs):
    """SLURM's programs are these shell scripts."""
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: str(folder / name) if name in programs else None)


@pytest.mark.parametrize(
    ("programs", "given", "said"),
    [
        (
            {"srun": "", "sbatch": "echo sbatch: error: invalid partition specified: gpu >&2; exit 1"},
            "slurm_partition: gpu",
            "does not take the jobs: sbatch: error: invalid partition specified: gpu",
        ),
        (
            {"srun": "", "sbatch": "printf '\\n sbatch: error: no time\\n' >&2; exit 1"},
            "slurm_partition: gpu",
            "does not take the jobs: sbatch: error: no time\n",
        ),
        ({"srun": ""}, "slurm_partition: gpu", "this machine has no sbatch"),
        ({}, "cluster: slurm", "this machine has no srun and no sbatch"),
    ],
)
def test_what_slurm_refuses_is_said_with_a_remedy(tmp_path, monkeypatch, capsys, programs, given, said):
    slurm_of(tmp_path, monkeypatch, **programs)
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("task: parsing\n")
    Path("cluster.yaml").write_text(given)
    assert cli.main(["sweep", "p.yaml", "seed=1,2", "--executor", "submitit", "--cluster", "cluster.yaml"]) == 2
    complaint = capsys.readouterr().err
    assert f"cluster.yaml: SLURM {said}" in complaint or f"cluster.yaml: {said}" in complaint
    assert "remedy:" in complaint


@pytest.mark.slow
def test_a_job_that_dies_is_noticed_where_slurm_keeps_no_accounts(tmp_path, monkeypatch):
    slurm_of(
        tmp_path,
        monkeypatch,
        srun="",
        sbatch="echo Submitted batch job 7",
        sacct="exit 1",
        squeue=f"cat {tmp_path}/queue; rm {tmp_path}/queue; true",
    )
    monkeypatch.setattr("seq2seq_suite.studies.slurm._LOOK", 0.0)
    monkeypatch.setattr("seq2seq_suite.studies.slurm._GRACE", 0.0)
    (tmp_path / "queue").write_text("7_0\n7_1\n")
    runs = {tmp_path / name: list for name in ("first", "second")}
    ends = Cluster(tmp_path / "jobs", None, jobs=None).run(runs)
    assert ends == {run: f"job 7_{number} left the queue without a result" for number, run in enumerate(runs)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("slurm_partion: gpu", "Unknown argument 'partion' for executor 'slurm'"),
        ("nodes: 2", "one task of one machine"),
        ("mem_gb: much", "mem_gb"),
        ("cluster: torque", "torque"),
    ],
)
def test_a_parameter_that_submitit_does_not_take_is_named_with_its_file(tmp_path, given, said):
    options = tmp_path / "cluster.yaml"
    options.write_text(given)
    with pytest.raises(ConfigError, match=rf"cluster\.yaml: .*{said}"):
        Cluster(tmp_path / "jobs", options, jobs=None)


def test_what_is_missing_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text("task: parsing\n")
    assert cli.main(["sweep", "p.yaml", "seed=1,2", "--cluster", "cluster.yaml"]) == 2
    assert "--cluster is for submitit" in capsys.readouterr().err
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "seq2seq_suite.common.lazy_imports.find_spec", lambda name: None if name == "submitit" else find(name)
    )
    assert cli.main(["sweep", "p.yaml", "seed=1,2", "--executor", "submitit"]) == 2
    assert "[cluster]'" in capsys.readouterr().err
