"""Targets without room: counted as the loss leaves them out, with a remedy that helps, and never as a loss of 0."""

import json
import math
import re

import pytest
import torch

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import collate
from seq2seq_suite.experiments import check, verbs
from seq2seq_suite.experiments.prepare import encode, fit, read_splits
from seq2seq_suite.experiments.room import without_room
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.terminal.progress import Progress

LONG = {"train": "aabbccddeeffgg" * 2, "validation": "abcdefgabcdefg" * 2}


def write(folder, *, short: int = 6, long: int = 2):
    for split, text in LONG.items():
        rows = [{"src": "one two", "tgt": "abcdefg"[: number % 7 + 1]} for number in range(short)]
        rows += [{"src": "one", "tgt": text}] * long
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def config(folder, kind: str, **options) -> Config:
    return Config.model_validate(
        {
            "task": "translation",
            "device": "cpu",
            "data": {"path": str(folder), "test_splits": [], "max_length": 220},
            "translation": {"source_subwords": "characters", "target_subwords": "characters", "joint": False},
            "backbone": {
                "width": 16,
                "feed_forward_width": 16,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "max_positions": 4096,
            },
            "strategy": {"kind": kind, **options},
            "search": {
                "beam_size": 1,
                "max_length_factor": 1.0,
                "max_length_extra": 60 if kind != "autoregressive" else 20,
            },
            "training": {
                "max_updates": 2,
                "batch_tokens": 512,
                "warmup_updates": 1,
                "validate_every": 2,
                "save_every": 2,
                "log_every": 1,
                "threads": 1,
            },
        }
    )


def prepared(config: Config, split: str):
    torch.manual_seed(0)
    task = open_task(config.task, config)
    splits = read_splits(config, task)
    fit(task, splits["train"])
    return task, encode(config.backbone, task, splits[split])


def missing(own: Config, task, items):
    return without_room(own.strategy, own.search, task, items)


@pytest.mark.parametrize("split", LONG)
@pytest.mark.parametrize(("kind", "factor"), [("ctc", 2.0), ("ctc", 5.7), ("ctc", 10.0), ("dag", 2.0), ("dag", 5.0)])
def test_what_is_counted_is_what_the_loss_leaves_out(tmp_path, kind, factor, split):
    own = config(write(tmp_path), kind, factor=factor)
    task, items = prepared(own, split)
    loss = build_predictor(own, task, device=torch.device("cpu")).learner(collate(items, task.name))
    assert len(missing(own, task, items)[0]) == loss.sums["too_long"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [("ctc", {"factor": 2.0}), ("dag", {"factor": 2.0}), ("cut_at_end", {"factor": 1.0, "extra": 3})],
)
def test_the_factor_that_is_named_gives_all_targets_their_room_and_less_does_not(tmp_path, kind, options):
    folder = write(tmp_path)
    task, items = prepared(config(folder, kind, **options), "train")
    places, why = missing(config(folder, kind, **options), task, items)
    factor = float(re.search(r"strategy\.factor to ([\d.]+)", why)[1])
    assert places.tolist() == [6, 7]
    assert not len(missing(config(folder, kind, **{**options, "factor": factor}), task, items)[0])
    assert len(missing(config(folder, kind, **{**options, "factor": factor - 0.35}), task, items)[0])
    if kind == "cut_at_end":
        extra = int(re.search(r"strategy\.extra by (\d+)", why)[1])
        for more, left in ((extra, 0), (extra - 1, 2)):
            assert len(missing(config(folder, kind, **{**options, "extra": 3 + more}), task, items)[0]) == left


@pytest.mark.parametrize("kind", ["length_head", "mask_predict"])
def test_lengths_that_are_never_predicted_are_counted(tmp_path, kind):
    folder = write(tmp_path)
    (tmp_path / "train.jsonl").write_text(
        json.dumps({"src": "one", "tgt": "ab" * 100}) + "\n" + json.dumps({"src": "one", "tgt": "ab"}) + "\n"
    )
    task, items = prepared(config(folder, kind), "train")
    places, why = missing(config(folder, kind), task, items)
    ratio = float(re.search(r"strategy\.length_ratio to ([\d.]+)", why)[1])
    assert places.tolist() == [0]
    assert not len(missing(config(folder, kind, length_ratio=ratio), task, items)[0])


@pytest.mark.parametrize(
    ("kind", "key"),
    [("ctc", "strategy.factor"), ("cut_at_end", "strategy.extra"), ("autoregressive", "search.max_length_factor")],
)
def test_check_and_run_count_them_and_name_the_key(tmp_path, capsys, kind, key):
    own = config(write(tmp_path), kind, **({"factor": 1.0, "extra": 6} if kind == "cut_at_end" else {}))
    rows = check.examine(own)
    finding = dict(rows)["targets longer than the " + ("limit" if kind == "autoregressive" else "positions")]
    assert finding.startswith("train 2 of 8 (25.00 %): ") and "train.jsonl:7" in finding
    assert any(key in text for what, text in rows if what == "warning")
    verbs.run(own, tmp_path / "run", resume=False, overwrite=False, command=["run"])
    said = capsys.readouterr().out
    for split in LONG:
        line = next(line for line in said.splitlines() if line.startswith(f"{split}: 2 of 8 targets are longer"))
        assert key in line and f"{split}.jsonl:7" in line


@pytest.mark.parametrize("kind", ["ctc", "dag", "cut_at_end"])
def test_a_run_of_which_no_target_has_room_is_refused_with_the_remedy(tmp_path, kind):
    own = config(write(tmp_path, short=0), kind, factor=1.0, **({"extra": 0} if kind == "cut_at_end" else {}))
    for start in (
        check.examine,
        lambda one: verbs.run(one, tmp_path / "run", resume=False, overwrite=False, command=[]),
    ):
        with pytest.raises(DataError, match=r"train\.jsonl:1: all targets of train are longer") as caught:
            start(own)
        assert "strategy.factor" in caught.value.remedy
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["ctc", "dag"])
def test_a_loss_of_nothing_is_no_number(tmp_path, kind, capsys):
    folder = write(tmp_path)
    (folder / "validation.jsonl").write_text(json.dumps({"src": "one", "tgt": LONG["validation"]}) + "\n")
    verbs.run(config(folder, kind, factor=4.0), tmp_path / "run", resume=False, overwrite=False, command=["run"])
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    name = {"ctc": "loss_ctc_target", "dag": "loss_paths"}[kind]
    assert [row[name] for row in rows if row["split"] == "validation"] == [None]
    assert all(row[name] > 0.0 for row in rows if row["split"] == "train")
    Progress(2).update(1, fraction=0.5, loss=math.nan, tokens_per_second=1.0, learning_rate=1.0)
    assert "loss n/a (no target fits)" in capsys.readouterr().out
