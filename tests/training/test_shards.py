"""Two processes that divide the weights train as one does, and any number of processes reads their checkpoints."""

import shutil
import warnings
from pathlib import Path

import pytest
import torch
from small_run import few_rows, metrics, small_config, start, weights, write_trees
from two_processes import launch, results, without_chance

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.runs import distributed

pytestmark = pytest.mark.slow
PRESETS = Path(__file__).parents[2] / "tasks"
# Preset and settings: a guide without symbols, layers used several times, paths in a graph, frozen parts, two
# passes in one.
SHAPES = {
    "tags": ("parsing-nat", ["parsing.unknown_rate=0"]),
    "steps": ("translation", ["backbone.encoder_steps=2"]),
    "graph": ("translation-nat", ["strategy.kind=dag", "strategy.glancing=[0,0]"]),
    "frozen": ("translation", ["training.freeze=[encoder, embeddings]", "training.ema_decay=0.5"]),
    "twice": ("translation", ["strategy.consistency=0.5", "strategy.scheduled_sampling=1e-9"]),
}


def shaped(name: str, *, shard: bool) -> Config:
    preset, settings = SHAPES[name]
    small = [
        "data.size=32",
        "data.test_splits=[]",
        "backbone.width=16",
        "backbone.feed_forward_width=16",
        "backbone.num_heads=2",
        "backbone.encoder_layers=1",
        "backbone.decoder_layers=1",
        "backbone.dropout=0",
        "training.optimizer=adamw",
        "training.precision=float32",
        "training.max_updates=3",
        "training.log_every=1",
        "training.validate_examples=2",
        "training.threads=1",
        f"training.shard={str(shard).lower()}",
    ]
    return config_file.load(PRESETS / f"{preset}.yaml", [*small, *settings])


def configured(folder: Path, *, shard: bool, updates: int = 4) -> Config:
    return without_chance(
        small_config(folder, shard=shard, accumulate=2, max_updates=updates, validate_every=2, weight_decay=0.1)
    )


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
        found = results(folder, place, shard=True, decode=False)
        start(configured(folder, shard=True), place / "two")
        start(configured(folder, shard=True, updates=8), place / "one-two", resume=True)
        with warnings.catch_warnings(action="error", category=UserWarning), few_rows(8):
            for name in SHAPES:
                start(shaped(name, shard=True), place / name)
        torch.save(found, place / f"results-{distributed.ranks().rank}.pt")
        return 0, ""

    ends = launch(lambda: distributed.together(work)[0], place)
    assert [code for code, _, _ in ends] == [0, 0], "\n".join(errors for _, _, errors in ends)
    shutil.copytree(place / "two", place / "two-one", symlinks=True)
    start(configured(folder, shard=True, updates=8), place / "two-one", resume=True)
    start(configured(folder, shard=False, updates=8), place / "one", resume=True)
    return place


@pytest.fixture(scope="module")
def alone(folder, tmp_path_factory):
    return results(folder, tmp_path_factory.mktemp("alone"), decode=False)


@pytest.mark.parametrize("norm", ["layer", "power"])
def test_shards_have_the_loss_and_the_gradient_of_one_process(place, alone, norm):
    alone = alone[norm]
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
    assert len(found) == len([row for row in expected if run != "two" or row["update"] <= 4])
    for row, same in zip(found, expected[: len(found)], strict=True):
        assert row.pop("split") == same.pop("split")
        assert row == pytest.approx(same, rel=1e-3)


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_divided_may_have_any_shape(place, tmp_path, name):
    with few_rows(8):
        start(shaped(name, shard=False), tmp_path / "one")
    losses = [
        [row[key] for row in metrics(path) for key in row if key.startswith("loss_")]
        for path in (tmp_path / "one", place / name)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and len(losses[0]) >= 3


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


def test_a_head_with_a_number_of_its_own_is_refused():
    with pytest.raises(ConfigError, match=r"training\.shard does not go with multilabel\.pointer true"):
        config_file.load(PRESETS / "multilabel.yaml", ["training.shard=true", "training.optimizer=adamw"])
