"""Every key with its default, as tests/defaults.yaml lists them: whoever leaves a key out relies on it."""

from pathlib import Path
from typing import Any

import yaml

from seq2seq_suite.config.config_file import dump, key_list
from seq2seq_suite.config.schema import Config
from seq2seq_suite.options.backbone import SIZES
from seq2seq_suite.tasks import TASKS

KINDS = dict.fromkeys(("autoregressive", "length_head", "mask_predict", "cut_at_end", "ctc", "dag"), "translation") | {
    "slots": "detection"}


def resolved(**given: Any) -> dict[str, Any]:
    found = yaml.safe_load(dump(Config.model_validate(given)))
    del found["format"]
    return found


def defaults() -> dict[str, Any]:
    """Key -> default: of all tasks, of each kind of strategy, and of each size of the backbone."""
    found = {key: value for task in TASKS for key, value in resolved(task=task).items()} | {"task": "translation"}
    by_size = {size: resolved(task="translation", backbone={"size": size})["backbone"] for size in SIZES}
    by_kind = {kind: resolved(task=task, strategy={"kind": kind})["strategy"] for kind, task in KINDS.items()}
    return found | {"backbone": by_size["small"], "strategy": by_kind,
                    "sizes": {size: {key: backbone[key] for key in SIZES[size]} for size, backbone in by_size.items()}}


def test_defaults_are_those_that_are_listed():
    listed = yaml.safe_load((Path(__file__).parents[1] / "defaults.yaml").read_text(encoding="utf-8"))
    found = defaults()
    for section, value in listed.items():
        assert found[section] == value, section
    assert found.keys() == listed.keys()


def test_no_key_is_left_out_of_the_list():
    listed = yaml.safe_load((Path(__file__).parents[1] / "defaults.yaml").read_text(encoding="utf-8"))
    del listed["sizes"]
    listed["strategy"] = dict.fromkeys(key for kind in listed["strategy"].values() for key in kind)
    keys = {f"{section}.{key}" for section, inside in listed.items() if isinstance(inside, dict) and inside
            for key in inside} | {key for key, inside in listed.items() if not isinstance(inside, dict) or not inside}
    assert keys == set(key_list())
