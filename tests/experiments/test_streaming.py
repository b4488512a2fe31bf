"""A stream of files: each is an epoch, and a resumed run reads on where it was."""

import itertools
import random
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from small_run import metrics, start, weights

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments.joint import read_parts
from seq2seq_suite.experiments.prepare import encode, epoch_encoder, fit, origins, read_splits
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.runs.run_directory import RunDirectory

WORDS = ("der", "die", "das", "ein", "Hund", "Katze", "B\u00e4ume", "sieht", "liegt", "unter")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three files to train on, of 20, 25 and 30 pairs."""
    draw = random.Random(1)
    for name, count in (("train-1", 20), ("train-2", 25), ("train-3", 30), ("validation", 4), ("test", 4)):
        rows = ("\t".join(" ".join(draw.choices(WORDS, k=draw.randint(2, 8))) for _ in range(2)) for _ in range(count))
        (tmp_path / f"{name}.tsv").write_text("src\ttgt\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def config_of(folder: Path, *, max_updates: int = 12, **data: Any) -> Config:
    return Config.model_validate(
        {
            "task": "translation",
            "device": "cpu",
            "translation": {"vocabulary_size": 40},
            "data": {"path": str(folder), "streaming": True, **data},
            "backbone": {
                "width": 32,
                "feed_forward_width": 64,
                "num_heads": 2,
                "encoder_layers": 1,
                "decoder_layers": 1,
            },
            "training": {
                "max_updates": max_updates,
                "batch_tokens": 128,
                "precision": "float32",
                "schedule": "constant",
                "warmup_updates": 5,
                "validate_every": 12,
                "save_every": 5,
                "log_every": 1,
                "threads": 1,
            },
        }
    )


def test_each_file_is_an_epoch_and_after_the_last_comes_the_first(folder):
    config = config_of(folder)
    task = open_task("translation", config)
    train = read_splits(config, task)["train"]
    fit(task, train)
    for file in folder.glob("train-*"):  # the same texts as readers see them
        file.write_text(normalize("NFD", file.read_text(encoding="utf-8")), encoding="utf-8")
    whole, epochs = task.encode(task.read("train")), epoch_encoder(config.backbone, task, train)
    files = [epochs(number) for number in range(4)]
    assert list(map(len, files)) == [20, 25, 30, 20] and len(encode(config.backbone, task, train)) == 20
    for item, expected in zip(itertools.chain(*files[:3]), whole, strict=True):
        assert item.source.tolist() == expected.source.tolist() and item.target.tolist() == expected.target.tolist()
    where = origins(train)
    assert [where[files[number][7].index] for number in range(4)] == [
        f"{folder}/train-{file}.tsv:9" for file in (1, 2, 3, 1)
    ]


def test_a_resumed_run_reads_on_where_it_was(folder, tmp_path):
    start(config_of(folder), tmp_path / "whole")
    start(config_of(folder, max_updates=7), tmp_path / "parts")
    start(config_of(folder), tmp_path / "parts", resume=True)
    assert weights(tmp_path / "whole") == weights(tmp_path / "parts")
    assert {row["epoch"] for row in metrics(tmp_path / "whole") if row["split"] == "train"} >= {1, 2, 3}


def test_a_broken_row_is_named(folder):
    config = config_of(folder)
    task = open_task("translation", config)
    train = read_splits(config, task)["train"]
    with (folder / "train-2.tsv").open("a", encoding="utf-8") as file:
        file.write("ein\t\n")
    assert len(train.examples(0)) == 20
    with pytest.raises(DataError, match=r"train-2\.tsv:27"):
        train.examples(1)


def test_what_cannot_be_streamed_is_refused(folder):
    with pytest.raises(ValueError, match=r"leave out data\.split"):
        config_of(folder, split={"validation": 0.1})
    (folder / "train.en").write_text("a\n")
    (folder / "train.de").write_text("b\n")
    with pytest.raises(DataError, match="without files of rows"):
        read_parts(config_of(folder), RunDirectory(folder / "run"))
    one = {"task": "parsing", "data": {"path": str(folder), "streaming": True}}
    with pytest.raises(ConfigError, match="with task parsing"):
        read_parts(Config.model_validate(one), RunDirectory(folder / "run"))
    with pytest.raises(ConfigError, match="in a joint run"):
        read_parts(
            Config.model_validate({"task": "multitask", "tasks": {"one": one, "two": one}}),
            RunDirectory(folder / "run"),
        )
