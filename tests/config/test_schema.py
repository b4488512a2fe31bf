"""The schema for editors takes every preset and refuses what is misspelt."""

import importlib.util
import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from seq2seq_suite.cli import app as cli
from seq2seq_suite.config.config_file import PRESETS, SCHEMA, parse

ROOT = Path(__file__).resolve().parents[2]
YAMLS = sorted(PRESETS.glob("*.yaml"))


@pytest.fixture(scope="module")
def validator():
    found = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
def test_every_preset_names_the_schema_and_keeps_it(validator, path):
    assert path.read_text(encoding="utf-8").startswith("# yaml-language-server: $schema=schema.json\n# ")
    assert [error.message for error in validator.iter_errors(json.loads(json.dumps(parse(path))))] == []


@pytest.mark.parametrize(
    "text",
    [
        "task: parsin",
        "task: parsing\nbackbon: {width: 64}",
        "task: parsing\nbackbone: {widht: 64}",
        "task: parsing\nbackbone: {width: wide}",
        "task: parsing\nbackbone: {norm: batch}",
        "task: parsing\nstrategy: {kind: ctcc}",
        "task: parsing\nstrategy: {kind: ctc, label_smoothing: 0.1}",
        "task: multitask\ntasks: {a: {task: parsin}}",
        "task: parsing\nseed: -1",
    ],
)
def test_a_mistake_is_refused(validator, text):
    assert not validator.is_valid(yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "task: parsing\nstrategy: {label_smoothing: 0.2}",
        "task: my_task.py:MyTask\nmy_task: {anything: 1}",
        "task: multitask\ntasks: {a: {task: parsing, data: {size: 10}}}",
        "task: parsing\nstrategy: {kind: mask_predict}",
    ],
)
def test_what_is_right_is_accepted(validator, text):
    assert [error.message for error in validator.iter_errors(yaml.safe_load(text))] == []


def test_keys_have_their_meaning(validator):
    keys = validator.schema["$defs"]["Search"]["properties"]
    assert keys["beam_size"] == {
        "default": 1,
        "description": "1 is greedy",
        "exclusiveMinimum": 0,
        "maximum": 10000,
        "type": "integer",
    }


def test_the_file_is_of_today(validator):
    spec = importlib.util.spec_from_file_location("key_reference", ROOT / "scripts" / "key_reference.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.schema() == validator.schema, "run python scripts/key_reference.py"


def test_a_copy_names_the_installed_schema_and_the_verb_prints_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "parsing"]) == 0 and cli.main(["check", "--help"]) == 0
    assert Path("parsing.yaml").read_text().splitlines()[0] == f"# yaml-language-server: $schema={SCHEMA.as_uri()}"
    capsys.readouterr()
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "An experiment of seq2seq_suite"
