"""What `check` says before a run."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_run import few_rows, small_config, write_rows, write_trees
from torch import nn

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import check
from seq2seq_suite.prediction import build
from seq2seq_suite.prediction.open_task import open_task


def found(config: Config) -> tuple[dict[str, str], list[str]]:
    rows = check.examine(config)
    return dict(rows), [text for what, text in rows if what == "warning"]


def changed(config: Config, section: str, **values: object) -> Config:
    return Config.model_validate({**config.model_dump(), section: {**config.model_dump()[section], **values}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


def test_sizes_lengths_plan_and_costs_are_reported(folder):
    rows, warnings = found(small_config(folder))
    assert rows["train"].startswith("40 examples; source length median ")
    assert rows["validation"].startswith("8 examples") and rows["test"].startswith("8 examples")
    assert re.fullmatch(r"right-branching trees \d+\.\d\d", rows["test without learning, f1"])
    assert rows["planned"].startswith("20 updates of 1 batch") and "epochs" in rows["planned"]
    assert "% of them padding" in rows["batches an epoch"]
    assert "front-end" in rows["parameters"] and "optimiser" in rows["memory of a step"]
    assert re.search(r"\), plus [\d,]{3,} MiB for Python, PyTorch and these data$", rows["memory of a step"])
    shares = [int(share) for share in re.findall(r"(\d+) %", rows["parameters"])]
    assert len(shares) > 2 and 95 <= sum(shares) <= 105
    assert rows["targets against the constraint"] == rows["targets longer than the limit"] == "none"
    assert "6 * source length + 20" in rows["search limit"]
    assert not any("constraint" in text or "learning rate" in text for text in warnings)


def test_the_sample_shows_unknown_words_and_the_linearised_target(folder):
    rows, warnings = found(changed(small_config(folder), "parsing", min_count=1000))
    words = rows["sample source"].split()
    assert rows["as the model sees it"] == " ".join(["<unknown>"] * len(words))
    assert rows["what it learns to predict"].split().count("SHIFT") == len(words)
    assert rows["unknown source symbols"].startswith("train 100.00 %")
    assert any("source symbols of train are unknown" in text for text in warnings)


@pytest.mark.parametrize("kind", ["autoregressive", "slots"])
def test_pictures_are_checked_as_training_reads_them_and_sampled_by_name(folder, kind):
    pytest.importorskip("PIL", reason="comes with the extra `vision`")
    small = small_config(folder).model_dump(include={"training", "backbone", "device", "seed"})
    with few_rows(20):
        rows, _ = found(
            Config.model_validate(
                {
                    **small,
                    "task": "detection",
                    "data": {"path": "miniworld", "size": 50},
                    "strategy": {"kind": kind},
                    "detection": {"instances": 8},
                }
            )
        )
    assert rows["sample source"] == "picture 1 of train"
    assert rows["train pictures"] == "96 x 96 to 96 x 96 pixels"
    assert "examples, 41 target symbols wide" in rows["largest batch"]  # eight objects or noise, and the end


def test_a_target_that_the_decoder_has_no_positions_for_is_named(tmp_path):
    deep = "(TOP " + "(NP " * 120 + "(NN x)" + ")" * 121
    for split in ("train", "validation", "test"):
        write_rows(tmp_path / f"{split}.jsonl", ["(TOP (S (NP (NNP Ann)) (VP (VBZ reads))))", deep])
    config = changed(small_config(tmp_path), "data", path=str(tmp_path), max_length=20)
    with pytest.raises(DataError, match=r"train\.jsonl:2: a target of \d+ symbols") as caught:
        check.examine(changed(config, "backbone", max_positions=200))
    assert "backbone.max_positions is 200" in caught.value.expected


def test_shared_and_repeated_sentences_are_found(tmp_path, folder):
    trees = ["(TOP (S (NP (NNP Ann)) (VP (VBZ reads))))", "(TOP (S (NP (NNP Bob)) (VP (VBZ reads))))"]
    write_rows(tmp_path / "train.jsonl", [*trees, trees[0]])
    write_rows(tmp_path / "validation.jsonl", [trees[1]])
    write_rows(tmp_path / "test.jsonl", ["(TOP (S (NP (NNP Eve)) (VP (VBZ reads))))"])
    rows, warnings = found(small_config(tmp_path))
    assert rows["repeated in train"].startswith("1 of 3 ")
    assert (
        rows["validation also in train"].startswith("1 of 1 ")
        and "validation.jsonl:1" in rows["validation also in train"]
    )
    assert rows["test also in train"] == "0 of 1 sources"
    assert [text for text in warnings if "validation shares sources with train" in text]


def test_gold_outputs_that_no_search_can_give_are_named(tmp_path):
    chain = "(TOP (S (VP (NP (QP (ADJP (NNP Ann)))))))"
    for split in ("train", "validation", "test"):
        write_rows(tmp_path / f"{split}.jsonl", ["(TOP (S (NP (NNP Bob)) (VP (VBZ reads))))"])
    write_rows(tmp_path / "train.jsonl", ["(TOP (S (NP (NNP Bob)) (VP (VBZ reads))))", chain])
    rows, warnings = found(small_config(tmp_path))
    assert rows["targets against the constraint"] == f"train 1 of 2 (50.00 %): {tmp_path / 'train.jsonl'}:2"
    assert any("train are against the constraint" in text for text in warnings)
    assert any("validation has target symbols" in text for text in warnings) is False

    tight = changed(small_config(tmp_path), "search", max_length_factor=1.0, max_length_extra=1)
    assert "train.jsonl:2" in found(tight)[0]["targets longer than the limit"]
    free = changed(small_config(tmp_path), "search", constraint=False)
    assert "targets against the constraint" not in found(free)[0]


def test_settings_that_cannot_work_are_warned_of(folder):
    text = "\n".join(found(small_config(folder, warmup_updates=50, validate_every=100, batch_tokens=16))[1])
    for key in ("training.warmup_updates=50", "training.validate_every", "training.batch_tokens is 16"):
        assert key in text
    once = small_config(folder, max_updates=40, warmup_updates=2, validate_every=40)
    text = "\n".join(found(once)[1])
    assert "training.validate_every" not in text and "training.warmup_updates" not in text


class Known:
    """Stands for a decoder: its loss keeps its input and an exponential, 100 and 50 numbers for each row."""

    task = SimpleNamespace(name="test")

    def __init__(self):
        self.learner, self.rows = Counting(self), []


class Counting(nn.Module):
    def __init__(self, known):
        super().__init__()
        self.linear, self.known = nn.Linear(100, 50), [known]
        self.eval()

    def forward(self, batch):
        assert self.training
        self.known[0].rows.append(len(batch.target))
        return self.linear(torch.randn(len(batch.target), 100)).exp().sum()


@pytest.mark.parametrize(("measured", "rows"), [(1e9, 12), (5000 * 7 * 6, 6), (5000 * 7 * 5 - 1, 4), (1, 1)])
def test_activations_are_what_the_backward_pass_needs_of_the_rows_that_are_run(monkeypatch, measured, rows):
    """Weights are no activations; of 12 rows of 7 symbols as many are run as weights times symbols allow."""
    monkeypatch.setattr(check, "_MEASURED", measured)
    known, items = Known(), [Encoded(np.ones(3, np.int64), np.ones(7, np.int64))] * 12
    assert check._activations(items, known, 5000) == 4 * (100 + 50) * 12
    assert known.rows == [rows] and not known.learner.training


def test_activations_grow_with_the_batch_and_part_of_a_large_model_stands_for_the_whole(folder, monkeypatch):
    config = small_config(folder)
    task = open_task("parsing", config)
    examples = task.read("train")
    task.fit(examples)
    decoder = build.build_predictor(config, task, device=torch.device("cpu"))
    item, parameters = task.encode(examples)[0], decoder.learner.num_parameters()
    eight, sixteen, whole = (check._activations([item] * count, decoder, parameters) for count in (8, 16, 32))
    assert whole - sixteen == pytest.approx(2 * (sixteen - eight), rel=0.001)
    monkeypatch.setattr(check, "_MEASURED", 8 * parameters * len(item.target))
    assert check._activations([item] * 32, decoder, parameters) == 4 * eight == pytest.approx(whole, rel=0.05)
