import math
import re
from itertools import takewhile
from pathlib import Path

import pytest
import typer

from seq2seq_suite import ConfigError, check
from seq2seq_suite.cli import app as cli
from seq2seq_suite.cli import presets as cli_presets
from seq2seq_suite.config.config_file import PRESETS, find, load, preset
from seq2seq_suite.studies import study

# Spoken sentences take minutes.
EMBEDDED = sorted(
    name
    for name, config in {path.stem: load(path) for path in PRESETS.glob("*.yaml")}.items()
    if config.data.path == "miniworld" and config.task not in ("asr", "speech_translation", "multitask")
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_preset_is_found_by_its_name():
    for name in ("parsing", "parsing.yaml"):
        assert find(name) == PRESETS / "parsing.yaml"
    assert find("norms") == PRESETS / "studies" / "norms.yaml"
    assert find("tasks/parsing.yaml") == find("parsing") and find("tasks/studies/norms.yaml") == find("norms")
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
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    embedded, real, studies = _parts(text)
    assert embedded.keys() | real.keys() | studies.keys() == {path.stem for path in PRESETS.rglob("*.yaml")}
    configs = {path.stem: load(path) for path in PRESETS.glob("*.yaml")}
    assert embedded.keys() == {
        name
        for name, one in configs.items()
        if all(part.data.path == "miniworld" for part in one.tasks.values() or [one])
    }
    worlds = {part.miniworld.world for name in embedded for part in configs[name].tasks.values() or [configs[name]]}
    assert worlds == {"rich"}
    for name, config in configs.items():
        limit = config.training.max_minutes
        shown = re.match(r"(\d+) min  ", {**embedded, **real}[name])
        assert shown is None if limit == math.inf else 0 <= int(shown.group(1)) - limit < 1
        assert 0 < len(cli_presets.title(PRESETS / f"{name}.yaml")) <= 50


def _parts(text):
    """What `tasks` says of each preset: embedded ones, those on real data, and studies."""
    return [
        {
            line.split()[0]: line.split(maxsplit=1)[1]
            for line in part.splitlines()
            if line.strip() and line[0] != " " and not line.endswith(":")
        }
        for part in re.split(r"(?m)^[^ ].*:$\n", text)[1:]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_preset_takes_all_rows_of_its_data(name):
    check(name, settings={"init_from": ""})


def test_a_copy_of_a_preset_can_be_edited_and_is_never_overwritten(capsys):
    assert cli.main(["init", "multitask"]) == 0
    assert load(find("multitask")) == load(PRESETS / "multitask.yaml")  # the tasks that it names are presets
    Path("multitask.yaml").write_text("mine")
    assert cli.main(["init", "multitask"]) == 2
    assert "already exists" in capsys.readouterr().err and Path("multitask.yaml").read_text() == "mine"
    assert cli.main(["init", "multitaks"]) == 2
    assert "tasks` lists them" in capsys.readouterr().err


def test_a_copy_ends_in_yaml_and_says_how_it_is_started(capsys):
    for name, file, written, verb in (
        ("asr", "x-asr", "x-asr.yaml", "run"),
        ("depth", "d.v2", "d.v2.yaml", "sweep"),
        ("norms", "n.yml", "n.yml", "sweep"),
        ("qa", None, "qa.yaml", "run"),
    ):
        assert cli.main(["init", name, *([file] if file else [])]) == 0
        assert f"then `{cli.PROGRAM} {verb} {written}`" in capsys.readouterr().out
        text = Path(written).read_text()
        assert f"{cli.PROGRAM} {verb} {written}" in text and f"{cli.PROGRAM} {verb} {name}\n" not in text
    assert load(find("x-asr")) == load(PRESETS / "asr.yaml") and study.load(find("d.v2")).seeds == (1, 2, 3)


@pytest.mark.parametrize("name", ["norms", "mine", "misspelt"])
def test_a_study_is_answered_with_sweep_where_an_experiment_belongs(name, capsys):
    Path("mine.yaml").write_text("question: a?\nyamls: [parsing]\nvariants: {a: {}, b: {seed: 2}}\n")
    Path("misspelt.yaml").write_text("question: a?\nyamls: [parsing]\nvarients: {a: {}}\n")
    for verb in ("run", "check"):
        assert cli.main([verb, name]) == 2
        said = capsys.readouterr().err
        assert f"{name}.yaml: this is a study\n  expected: an experiment\n  remedy:   {cli.PROGRAM} sweep " in said
    with pytest.raises(ConfigError, match="this is a study"):
        check(name)


def test_every_example_finds_its_files_in_an_empty_folder():
    group = typer.main.get_command(cli.app)
    texts = [
        group.help,
        *(group.get_command(None, verb).help for verb in cli.VERBS),
        *(path.read_text() for path in PRESETS.rglob("*.yaml")),
    ]
    given = [
        words.split()
        for text in texts
        for words in re.findall(rf"{cli.PROGRAM} ((?:run|check|sweep|init) .*?)(?:\\?\n|$|`)", text)
    ]
    assert len(given) > 60
    for _, *words in given:
        experiments = list(takewhile(lambda word: not re.search("^--|=", word), words))
        assert experiments and not [
            one for one in experiments[:1] if not one.startswith("runs/") and not find(one).is_file()
        ], words


@pytest.mark.parametrize("name", ["", ".", "/", ".."])
@pytest.mark.parametrize("verb", ["check", "run"])
def test_a_folder_is_no_preset(capsys, verb, name):
    assert cli.main([verb, name]) == 2
    assert "this is a folder" in capsys.readouterr().err
