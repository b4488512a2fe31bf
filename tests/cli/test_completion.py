"""A shell completes verbs, presets and runs, by the script that `completion` prints."""

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from seq2seq_suite.cli import app as cli
from seq2seq_suite.cli import completion as cli_completion
from seq2seq_suite.cli.export import export
from seq2seq_suite.config.config_file import key_list
from seq2seq_suite.export.hub import KINDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("runs/one", "runs/two"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "config.yaml").write_text("")
    (tmp_path / "runs" / "more").mkdir()
    (tmp_path / "runs/one/predictions").mkdir()
    (tmp_path / "runs/one/predictions/compositional.jsonl").write_text("")
    (tmp_path / "mine.yaml").write_text("")
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def test_runs_and_experiments_are_found_from_their_beginning():
    assert cli_completion.runs("ru") == ["runs/"] and cli_completion.runs("runs/o") == ["runs/one"]
    assert cli_completion.runs("runs/") == ["runs/more/", "runs/one", "runs/two"]
    assert cli_completion.experiments("m") == [
        "mine.yaml",
        *sorted(path.stem for path in (ROOT / "tasks").glob("m*.yaml")),
    ]
    assert cli_completion.runs("nothing/x") == [] and "notes.txt" not in cli_completion.experiments("n")


@pytest.mark.slow
def test_bash_completes_what_was_typed(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "seq2seq_suite"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m seq2seq_suite "$@"\n')
    program.chmod(0o755)
    script = """eval "$(seq2seq_suite completion bash)"
ask() {
  COMP_WORDS=(seq2seq_suite "$@"); COMP_CWORD=$#; _seq2seq_suite_completion seq2seq_suite; echo "${COMPREPLY[@]}"
}
ask eval
ask run parsing-g
ask compare runs/t
ask run parsing backbone.num_he
ask evaluate runs/one --split compo
ask score pars
ask lab gra
ask export runs/one out --to model
ask sweep translation strat"""
    done = subprocess.run(
        [bash, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )
    found = done.stdout.splitlines()
    assert done.stderr == "" and found[0] == "evaluate" and found[2] == "runs/two"
    assert found[3:] == ["backbone.num_heads=", "compositional", "parsing", "grade", "model-card", "strategy."]
    assert set(found[1].split()) == {path.stem for path in (ROOT / "tasks").glob("parsing-g*.yaml")}


def test_keys_are_completed_section_by_section_and_are_those_of_the_configuration():
    assert cli_completion.keys("backb") == ["backbone."] and cli_completion.keys("see") == ["seed="]
    assert cli_completion.keys("backbone.norm=r") == ["backbone.norm=rms"]
    assert cli_completion.keys("search.compile=") == ["search.compile=true", "search.compile=false"]
    assert "strategy.kind=ctc" in cli_completion.keys("strategy.kind=") and cli_completion.keys("no.such") == []
    found = [
        key
        for section in cli_completion.keys("")
        for key in (cli_completion.keys(section) if section.endswith(".") else [section])
    ]
    assert {key.rstrip("=") for key in found} >= {key for key in key_list() if key.count(".") < 2}


def test_the_kinds_of_export_are_those_on_the_command_line():
    kinds, _ = get_args(inspect.signature(export, eval_str=True).parameters["to"].annotation)
    assert set(get_args(kinds)) == set(KINDS)


def test_an_unknown_shell_is_refused(capsys):
    assert cli.main(["completion", "tcsh"]) == 2
    assert "tcsh" in capsys.readouterr().err


def test_a_quiet_run_prints_nothing_and_a_verbose_one_every_key(tmp_path, capsys):
    from small_run import small_config, write_trees

    from seq2seq_suite.config.config_file import dump

    config = small_config(write_trees(tmp_path / "data"), max_updates=2, validate_every=2)
    Path("p.yaml").write_text(dump(config), encoding="utf-8")
    assert cli.main(["run", "p.yaml", "--quiet", "--output", "a"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "" and (tmp_path / "a" / "log.txt").read_text().count("\n") > 2
    assert cli.main(["run", "p.yaml", "--verbose", "--output", "b"]) == 0
    printed = capsys.readouterr().out
    assert "max_updates: 2" in printed and "validation" in printed.split("the run is in")[0].splitlines()[-2]
