"""Runs of the multi-label task end to end: every option together, resumed, and judged again."""

import json

import pytest

from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import verbs
from seq2seq_suite.miniworld import rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for split, size in {"train": 40, "validation": 12, "test": 12}.items():
        found = rows("topics", split, size=size)
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder


def config(folder, *, max_updates: int = 6, precision: str = "float32", **multilabel) -> Config:
    return Config.model_validate(
        {
            "task": "multilabel",
            "device": "cpu",
            "data": {"path": str(folder)},
            "multilabel": multilabel,
            "backbone": {
                "width": 16,
                "feed_forward_width": 16,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            "search": {"beam_size": 3, "max_length_factor": 1.0},
            "training": {
                "max_updates": max_updates,
                "batch_tokens": 256,
                "precision": precision,
                "schedule": "constant",
                "warmup_updates": 1,
                "validate_every": 3,
                "save_every": 3,
                "log_every": 1,
                "threads": 1,
            },
        }
    )


def weights(directory) -> bytes:
    return (directory / "checkpoints" / "last" / "model.safetensors").read_bytes()


ALL = {"head": "label_wise", "pointer": True, "head_mixture": 0.5, "decision": "marginals", "prior_adjustment": 0.2}


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"order": "frequency"}, {"order": "given"}, {"order": "random"}, {"order": "free", **ALL}],
    ids=lambda options: options["order"],
)
def test_a_run_resumed_halfway_equals_one_in_a_go(folder, tmp_path, options):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    verbs.run(config(folder, **options), whole, resume=False, overwrite=False, command=["run"])
    verbs.run(config(folder, **options, max_updates=3), parts, resume=False, overwrite=False, command=["run"])
    verbs.run(config(folder, **options), parts, resume=True, overwrite=False, command=["run"])
    assert weights(whole) == weights(parts)


def test_a_run_with_every_option_is_judged_again_as_it_was(folder, tmp_path):
    directory = tmp_path / "run"
    summary = verbs.run(config(folder, order="free", **ALL), directory, resume=False, overwrite=False, command=["run"])
    assert "threshold" in (directory / "log.txt").read_text()
    again = verbs.evaluate(directory, split="test", data=None, overrides=[])
    assert again["splits"]["test"] == summary["splits"]["test"]
    assert summary["splits"]["test"]["invalid_rate"] == 0.0
    table = json.loads((directory / "predictions" / "test.details.json").read_text())["per_label"]
    assert {"label", "precision", "recall", "f1", "support"} == set(table[0])


@pytest.mark.parametrize("order", ["random", "free"])
def test_low_precision_trains_every_part_to_finite_figures(folder, tmp_path, order):
    small = config(folder, precision="bfloat16", order=order, **ALL)
    summary = verbs.run(small, tmp_path / "run", resume=False, overwrite=False, command=["run"])
    assert summary["updates"] == 6 and 0.0 <= summary["splits"]["test"]["micro_f1"] <= 100.0
