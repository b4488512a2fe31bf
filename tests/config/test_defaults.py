"""Every key with its default, as tests/defaults.yaml lists them: whoever leaves a key out relies on it."""

from pathlib import Path

import yaml

from scripts import key_reference
from seq2seq_suite.config.config_file import key_list


def test_defaults_are_those_that_are_listed():
    listed = yaml.safe_load((Path(__file__).parents[1] / "defaults.yaml").read_text(encoding="utf-8"))
    found = key_reference.defaults()
    for section, value in listed.items():
        assert found[section] == value, f"{section}: if that is meant, run python scripts/key_reference.py"
    assert found.keys() == listed.keys()


def test_no_key_is_left_out_of_the_list():
    listed = yaml.safe_load((Path(__file__).parents[1] / "defaults.yaml").read_text(encoding="utf-8"))
    del listed["sizes"]
    listed["strategy"] = dict.fromkeys(key for kind in listed["strategy"].values() for key in kind)
    lora = listed["backbone"].pop("lora")  # a section in a section
    keys = (
        {
            f"{section}.{key}"
            for section, inside in listed.items()
            if isinstance(inside, dict) and inside
            for key in inside
        }
        | {key for key, inside in listed.items() if not isinstance(inside, dict) or not inside}
        | {f"backbone.lora.{key}" for key in lora}
    )
    assert keys == set(key_list())
