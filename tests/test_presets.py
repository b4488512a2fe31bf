from pathlib import Path

import pytest

from seq2seq_suite import cli
from seq2seq_suite.config_file import PRESETS, find, load, preset


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_preset_is_found_by_its_name():
    for name in ("parsing", "parsing.yaml"):
        assert find(name) == PRESETS / "parsing.yaml"
    assert find("norms") == PRESETS / "studies" / "norms.yaml"
    assert preset("tasks/parsing") is None and find("no-such") == Path("no-such")


def test_a_file_of_the_same_name_wins_and_that_is_said(capsys):
    Path("parsing.yaml").write_text("task: parsing\nsee: 1\n")
    assert cli.main(["check", "parsing"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("parsing.yaml of this folder, not the preset of the same name\nparsing.yaml:2: see: unknown")


def test_a_misspelt_preset_is_answered_with_the_nearest(capsys):
    assert cli.main(["check", "parsin"]) == 2
    assert "did you mean parsing?" in capsys.readouterr().err


def test_every_preset_is_listed_with_a_line(capsys):
    assert cli.main(["tasks"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines.keys() == {path.stem for path in PRESETS.rglob("*.yaml")}
    assert "embedded" in lines["parsing"] and "up to 2 min" in lines["parsing"] and "real" in lines["parsing-genia"]
    assert "study" in lines["norms"]


def test_a_copy_of_a_preset_can_be_edited_and_is_never_overwritten(capsys):
    assert cli.main(["init", "multitask"]) == 0
    assert load(find("multitask")) == load(PRESETS / "multitask.yaml")  # the tasks that it names are presets
    Path("multitask.yaml").write_text("mine")
    assert cli.main(["init", "multitask"]) == 2
    assert "there is such a file already" in capsys.readouterr().err and Path("multitask.yaml").read_text() == "mine"
    assert cli.main(["init", "multitaks"]) == 2
    assert "tasks` lists them" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "/", ".."])
@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_folder_is_no_preset(capsys, verb, name):
    assert cli.main([verb, name]) == 2
    assert "this is a folder" in capsys.readouterr().err
