"""Two processes that divide the weights train as one does, and any number of processes reads their checkpoints."""

import shutil
from pathlib import Path

import pytest
import torch
from small_run import metrics, small_config, start, weights, write_trees
from two_processes import launch, results, without_chance

from seq2seq_suite.config import Config
from seq2seq_suite.training import distributed
from seq2seq_suite.types import ConfigError


def configured(folder: Path, *, shard: bool, updates: int = 4) -> Config:
    return without_chance(small_config(folder, shard=shard, accumulate=2, max_updates=updates, validate_every=2,
                                       weight_decay=0.1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def place(folder, tmp_path_factory):
    """`one`: four updates of one process; `two`: of two in shards; `one-two` and `two-one`: four more by the others."""
    place = tmp_path_factory.mktemp("shards")
    start(configured(folder, shard=False), place / "one")
    shutil.copytree(place / "one", place / "one-two", symlinks=True)

    def work() -> tuple[int, str]:
        found = results(folder, place, shard=True)
        start(configured(folder, shard=True), place / "two")
        start(configured(folder, shard=True, updates=8), place / "one-two", resume=True)
        torch.save(found, place / f"results-{distributed.ranks().rank}.pt")
        return 0, ""

    ends = launch(lambda: distributed.together(work)[0], place)
    assert [code for code, _, _ in ends] == [0, 0], ends
    shutil.copytree(place / "two", place / "two-one", symlinks=True)
    start(configured(folder, shard=True, updates=8), place / "two-one", resume=True)
    start(configured(folder, shard=False, updates=8), place / "one", resume=True)
    return place


@pytest.mark.parametrize("norm", ["layer", "power"])
def test_shards_have_the_loss_and_the_gradient_of_one_process(folder, place, tmp_path, norm):
    alone = results(folder, tmp_path)[norm]
    for rank in (0, 1):
        found = torch.load(place / f"results-{rank}.pt")[norm]
        assert found["tokens"] == alone["tokens"] and found["shared"] < 0.6
        for kind in ("losses", "gradients", "buffers"):
            assert found[kind].keys() == alone[kind].keys()
            for name, tensor in found[kind].items():
                assert torch.allclose(tensor, alone[kind][name], rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("run", ["two", "one-two", "two-one"])
def test_shards_are_trained_as_one_process_is_and_resumed_by_any_number(place, run):
    expected = metrics(place / "one")
    found = metrics(place / run)
    assert len(found) == len(expected) // (2 if run == "two" else 1)
    for row, same in zip(found, expected[: len(found)], strict=True):
        assert row.pop("split") == same.pop("split")
        assert row == pytest.approx(same, rel=1e-3)


def test_a_checkpoint_of_shards_is_one_of_one_process(place):
    files = [{name: len(content) for name, content in weights(place / run).items()} for run in ("one-two", "one")]
    assert files[0] == files[1]


@pytest.mark.parametrize(("key", "value"), [("training.optimizer", "muon"), ("backbone.decoder", "rnn")])
def test_what_cannot_be_divided_is_refused(folder, key, value):
    values = small_config(folder, shard=True).model_dump()
    section, name = key.split(".")
    values[section][name] = value
    with pytest.raises((ConfigError, ValueError), match=rf"training\.shard does not go with {key} {value}"):
        Config.model_validate(values)
