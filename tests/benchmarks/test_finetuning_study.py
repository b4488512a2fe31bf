"""The study of pre-training: its arms are configurations, its table and curve say what the runs reached."""

import json
from pathlib import Path

import pytest

from benchmarks import finetuning
from seq2seq_suite.config import config_file

YAML = Path("tasks/multilabel-reuters-gpt.yaml")


def test_arms_differ_in_their_beginning_and_in_lambda():
    loaded = {
        name: config_file.load(YAML, list(overrides)) for name, overrides in finetuning.arms(Path("runs/lm")).items()
    }
    found = {
        name: (config.init_from, config.strategy.language_weight, config.init_parts) for name, config in loaded.items()
    }
    assert found == {
        finetuning.SCRATCH: ("", 0.0, ("frontend", "decoder")),
        finetuning.ALONE: ("runs/lm", 0.0, ("frontend", "decoder")),
        finetuning.BOTH: ("runs/lm", 0.5, ("frontend", "decoder", "language")),
    }


def test_the_linear_classifier_learns_from_the_share_that_the_runs_have(tmp_path):
    pytest.importorskip("sklearn", reason="comes with the multi-label task")
    rows = [("wheat rises", ["grain"]), ("corn falls", ["grain"]), ("oil rises", ["fuel"]), ("gas falls", ["fuel"])] * 3
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text(
            "".join(json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows), encoding="utf-8"
        )
    config = config_file.load(YAML, [f"data.path={tmp_path}"])
    assert finetuning.linear(config, 1.0, 1)["micro_f1"] == 100.0
    whole = config_file.load(YAML, [f"data.path={tmp_path}", "multilabel.max_words=0"])
    assert finetuning.linear(whole, 1.0, 1)["micro_f1"] == 100.0
    assert finetuning.linear(config, 0.1, 1)["micro_f1"] < 100.0  # one row, one category


def test_the_table_has_a_line_for_each_share_and_arm(tmp_path):
    figures = {("a", 0.01): [{"f1": 50.0}, {"f1": 52.0}], ("a", 1.0): [{"f1": 80.0}, {"f1": 80.0}]}
    lines = finetuning.table(figures, ["a"], [0.01, 1.0], ["f1"])
    assert lines[-2:] == ["| 1 % | a | 2 | 51.00 ± 1.41 |", "| 100 % | a | 2 | 80.00 ± 0.00 |"]
    pytest.importorskip("matplotlib", reason="comes with the extra `bench`")
    finetuning.plot(figures, ["a"], [0.01, 1.0], "f1", tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
