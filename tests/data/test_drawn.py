"""Examples that read differently in each epoch: a stopped run reads on exactly as the whole one."""

import json

import pytest
from small_run import metrics, start, weights

from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.batching import Bucketed
from seq2seq_suite.experiments import check
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.fields.text import Subwords, Text

WORDS = ["der", "Hund", "sieht", "einen", "kleinen", "Mann", "und", "die", "Frau", "liest", "heute", "ein", "Buch"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pairs")
    for split, first, size in (("train", 0, 30), ("validation", 30, 6), ("test", 36, 6)):
        texts = [
            " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 4 + number % 5))
            for number in range(first, first + size)
        ]
        (path / f"{split}.jsonl").write_text(
            "".join(json.dumps({"src": text.lower(), "tgt": text}) + "\n" for text in texts)
        )
    return path


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    """Each epoch reads other parts of the texts."""
    for side in (Subwords, Text):
        monkeypatch.setattr(side, "varies", True)
        monkeypatch.setattr(side, "draw", lambda self, text, seed: self.encode(text, {})[-1 - seed % 9 :])


def config(folder, *, joint=True, **training) -> Config:
    return Config.model_validate(
        {
            "task": "translation",
            "device": "cpu",
            "data": {"path": str(folder)},
            "backbone": {
                "width": 32,
                "feed_forward_width": 64,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "dropout": 0.1,
            },
            "translation": {"vocabulary_size": 60, "joint": joint},
            "training": {
                "max_updates": 16,
                "batch_tokens": 128,
                "warmup_updates": 2,
                "precision": "float32",
                "ema_decay": 0.9,
                "schedule": "constant",
                "validate_every": 8,
                "save_every": 4,
                "log_every": 2,
                "threads": 1,
                **training,
            },
        }
    )


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="joint"),
        pytest.param({"joint": False, "accumulate": 2}, id="separate", marks=pytest.mark.slow),
        pytest.param({"precision": "bfloat16"}, id="bfloat16", marks=pytest.mark.slow),
    ],
)
def test_a_run_goes_on_as_if_never_stopped(folder, tmp_path, options):
    start(config(folder, **options), tmp_path / "whole")
    start(config(folder, **options, max_updates=7, save_every=7), tmp_path / "parts")
    start(config(folder, **options), tmp_path / "parts", resume=True)
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    rows = [[row for row in metrics(tmp_path / name) if row["split"] == "train"] for name in ("whole", "parts")]
    assert rows[0][-1] == rows[1][-1] and rows[0][-1]["epoch"] > 1


def test_each_epoch_is_cut_by_the_lengths_it_has(folder):
    task = open_task("translation", config(folder))
    examples = task.read("train")
    task.fit(examples)
    bucketed = Bucketed(
        task.encode(examples),
        task.name,
        batch_tokens=96,
        seed=1,
        encode_epoch=lambda epoch: task.encode_epoch(examples, epoch),
    )
    stream, sizes, seen = bucketed.batches(0), [], {0: [], 1: []}
    while (item := next(stream))[0] < 2:
        epoch, _, batch = item
        sizes.append(batch.target.numel())
        seen[epoch] += [
            (index, tuple(row[mask].tolist()))
            for index, row, mask in zip(batch.indices, batch.target, batch.target_mask, strict=True)
        ]
    assert max(sizes) <= 96
    for epoch in seen:
        assert dict(seen[epoch]) == {
            item.index: tuple(item.target.tolist()) for item in task.encode_epoch(examples, epoch)
        }
    assert dict(seen[0]) != dict(seen[1])
    # From the middle of an epoch the same batches follow.
    again = bucketed.batches(1, position=2)
    stream = (item for item in bucketed.batches(0) if item[0] == 1 and item[1] > 2)
    assert next(again)[2].target.tolist() == next(stream)[2].target.tolist()


def test_check_tells_what_it_tells_of_any_task_and_points_out_tokenised_text(folder, tmp_path):
    rows = dict(check.examine(config(folder)))
    assert rows["train"].startswith("30 examples") and rows["targets longer than the limit"] == "none"
    assert "validation also in train" in rows and rows["what it learns to predict"].startswith("▁")
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text('{"src": "a dog .", "tgt": "ein Hund ."}\n' * 10)
    warnings = [text for what, text in check.examine(config(tmp_path)) if what == "warning"]
    assert any(text.startswith("test: the references look tokenised already") for text in warnings)
