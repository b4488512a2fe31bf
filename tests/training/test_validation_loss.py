"""The losses on the validation split."""

from dataclasses import replace

import pytest
import torch
from small_run import metrics, small_config, start, write_trees

from seq2seq_suite.experiments.joint import build_trainer, read_parts
from seq2seq_suite.runs.run_directory import RunDirectory


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("trees"))


@pytest.fixture(params=["autoregressive", "mask_predict"])
def trained(folder, tmp_path, request):
    """A trainer, its predictor, and the validation split."""
    config = small_config(folder)
    strategy = {
        "autoregressive": {"kind": "autoregressive", "scheduled_sampling": 0.5},
        "mask_predict": {"kind": "mask_predict"},
    }[request.param]
    config = type(config).model_validate(
        {**config.model_dump(), "strategy": strategy, "parsing": {"max_characters": 8, "guide": False}}
    )
    directory = RunDirectory(tmp_path)
    (part,) = parts = read_parts(config, directory)
    trainer, predictors = build_trainer(config, directory, parts, resume=False, command=[])
    return trainer, predictors[part.name], part.encoded["validation"]


def test_losses_are_the_same_each_time_and_draw_nothing_from_training(trained):
    trainer, predictor, encoded = trained
    trainer.learner.train()
    before = torch.get_rng_state()
    found = predictor.losses(encoded)
    torch.rand(3)
    assert predictor.losses(encoded) == found and min(found.values()) > 0
    torch.set_rng_state(before)
    predictor.losses(encoded)
    assert torch.equal(torch.get_rng_state(), before)
    assert trainer.learner.training and all(parameter.grad is None for parameter in trainer.learner.parameters())


def test_losses_are_means_over_symbols_whatever_the_batches(folder, tmp_path):
    config, directory = small_config(folder), RunDirectory(tmp_path)
    (part,) = parts = read_parts(config, directory)
    predictor = build_trainer(config, directory, parts, resume=False, command=[])[1][part.name]
    encoded = part.encoded["validation"]
    whole, single = (
        replace(predictor, options=predictor.options.changed(batch_sentences=size)).losses(encoded) for size in (8, 1)
    )
    assert whole == pytest.approx(single, rel=1e-4)


def test_the_examples_of_the_losses_are_spread_over_the_split(folder, tmp_path, monkeypatch):
    config, directory = small_config(folder), RunDirectory(tmp_path)
    (part,) = parts = read_parts(config, directory)
    for most, chosen in ((2, [0, 4]), (3, [0, 3, 6]), (8, range(8)), (100, range(8))):
        monkeypatch.setattr("seq2seq_suite.experiments.joint._FEW", most)
        trainer, predictors = build_trainer(config, directory, parts, resume=False, command=[])
        assert len(part.encoded["validation"]) == 8
        expected = predictors[part.name].losses([part.encoded["validation"][place] for place in chosen])
        found = trainer.validate(lambda: None)
        assert {name: found[f"loss_{name}"] for name in expected} == pytest.approx(expected)


def test_rows_of_validation_have_the_losses_of_training_and_the_symbols_read(folder, tmp_path):
    start(small_config(folder), tmp_path / "run")
    rows = metrics(tmp_path / "run")
    train, validation = ([row for row in rows if row["split"] == split] for split in ("train", "validation"))
    names = [{name for name in row if name.startswith("loss_")} for row in (train[-1], validation[-1])]
    assert names[0] == names[1] and len(names[0]) > 0
    assert validation[-1]["tokens"] == train[-1]["tokens"]
    assert next(iter(validation[-1])) == "update" and not list(validation[-1])[3].startswith("loss_")
