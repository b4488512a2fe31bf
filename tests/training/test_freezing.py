"""What `training.freeze` names stays as it began, bit for bit, and costs no state."""

import json
import shutil

import pytest
import torch
from making import auxiliaries_of, strategy_of
from safetensors.torch import load_file
from small_run import metrics, small_config, start, write_trees
from torch import nn

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.model.build import build_model
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.options.training import OPTIMIZERS, Training
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.training.freezing import freeze
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer, learning

FIRST = {"validate_every": 1, "max_updates": 1, "learning_rate": 1e-12}


def learner_of(*, norm: str = "layer", positions: str = "learned") -> Learner:
    backbone = Backbone.model_validate(
        {
            "width": 16,
            "feed_forward_width": 16,
            "num_heads": 2,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "max_positions": 9,
            "norm": norm,
            "positions": positions,
        }
    )
    shape = Shape(TokenShape(11), TargetShape(7))
    heads = auxiliaries_of(shape, ctc=0.5, transcript=7)
    return Learner(build_model(backbone, shape), strategy_of(Assisted, target=shape.target, auxiliaries=heads))


def frozen_of(learner: nn.Module) -> set[str]:
    return {name for name, one in learner.named_parameters() if not one.requires_grad}


def under(learner: nn.Module, *prefixes: str) -> set[str]:
    return {name for name, _ in learner.named_parameters() if name.startswith(prefixes)}


MEANT = {
    "encoder": ["model.encoder."],
    "decoder": ["model.decoder."],
    "embeddings": ["model.frontend.", "model.embedding.", "model.positions."],
    "frontend": ["model.frontend."],
    "ctc": ["strategy.auxiliaries.ctc."],
    "model.encoder.layers.[1-9].*": ["model.encoder.layers.1."],
    "*.decoder.layers.0.attention.query.*": ["model.decoder.layers.0.attention.query."],
}


@pytest.mark.parametrize("name", MEANT)
def test_a_name_means_these_parameters_and_no_others(name):
    learner = learner_of()
    freeze(learner, [name])
    assert frozen_of(learner) == under(learner, *MEANT[name]) != set()
    freeze(learner, [])
    assert not frozen_of(learner)


def test_a_matrix_that_two_parts_share_is_frozen_with_either():
    learner = learner_of()
    names = freeze(learner, ["output"])
    assert not learner.model.embedding.weight.requires_grad
    assert names == ["model.embedding.weight", "model.output.bias", "model.output.weight"]


@pytest.mark.parametrize("wanted", [["encodr"], ["embedding"], ["model.encoder.layers.7.*"], [""]])
def test_what_means_nothing_is_refused_with_what_there_is(wanted):
    with pytest.raises(ConfigError, match="means no parameter") as caught:
        freeze(learner_of(), ["encoder", *wanted])
    assert caught.value.expected.startswith("embeddings, frontend, encoder, decoder, output, ctc, or a glob")
    assert wanted != ["encodr"] or caught.value.remedy == "did you mean encoder?"


def test_to_freeze_everything_is_refused():
    with pytest.raises(ConfigError, match="leaves nothing to learn"):
        freeze(learner_of(), ["model.*", "strategy.*"])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_only_what_learns_has_state(name):
    learner = learner_of()
    freeze(learner, ["encoder", "embeddings"])
    optimizer = build_optimizer(learner, Training(optimizer=name, weight_decay=0.5))
    assert {one for group in optimizer.param_groups for one in group["params"]} == set(learning(learner))
    average = MovingAverage(learner, 0.9)
    assert average.weights.keys() == {name for name, one in learner.named_parameters() if one.requires_grad}
    before = {name: one.clone() for name, one in learner.named_parameters()}
    for one in learning(learner):
        nn.init.zeros_(one)
    average.update(learner, 5)
    with average.swapped(learner):
        changed = {name for name, one in learner.named_parameters() if not torch.equal(one, before[name])}
        assert changed <= average.weights.keys() and changed
    assert not any(bool(one.detach().any()) for one in learning(learner))


def test_a_frozen_norm_keeps_its_statistics():
    learner = learner_of(norm="power")
    freeze(learner, ["encoder"])
    buffers = {name: one.clone() for name, one in learner.named_buffers()}
    learner.train().set_fraction_done(0.0)
    torch.manual_seed(1)
    source, mask = torch.randint(4, 11, (3, 5)), torch.ones(3, 5, dtype=torch.bool)
    learner.model(source, mask, torch.randint(4, 7, (3, 4)))
    changed = {name for name, one in learner.named_buffers() if not torch.equal(one, buffers[name])}
    assert changed and all(name.startswith("model.decoder.") for name in changed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


def tensors(directory, name="last"):
    return load_file(directory / "checkpoints" / name / "model.safetensors")


@pytest.fixture(scope="module")
def pair(folder, tmp_path_factory):
    """A run, and one that begins from its weights with frozen parts, in one piece and in two."""
    place = tmp_path_factory.mktemp("runs")
    start(small_config(folder, max_updates=4, validate_every=4), place / "first")

    def second(updates):
        values = small_config(
            folder, freeze=["encoder", "frontend", "embeddings"], max_updates=updates, weight_decay=0.5
        )
        kept = {"init_from": str(place / "first"), "init_parts": ["all"]}
        return Config.model_validate(values.model_dump() | kept)

    start(second(20), place / "whole")
    start(second(10), place / "halves")
    start(second(20), place / "halves", resume=True)
    return place


def test_frozen_weights_are_those_of_the_run_that_they_come_from(pair):
    before, after = tensors(pair / "first", "best"), tensors(pair / "whole")
    same = {name for name in before if torch.equal(before[name], after[name])}
    frozen = {name for name in before if name.startswith(("model.encoder.", "model.frontend.", "model.embedding."))}
    assert frozen <= same and before.keys() - same > {"model.decoder.layers.0.feed_forward.inner.weight"}
    log = (pair / "whole" / "log.txt").read_text()
    assert "random weights" not in log


def test_ten_updates_and_ten_more_are_twenty(pair):
    assert metrics(pair / "halves") == metrics(pair / "whole")
    for name in ("model.safetensors", "training.safetensors"):
        one, two = (load_file(pair / run / "checkpoints" / "last" / name) for run in ("halves", "whole"))
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_a_checkpoint_has_no_second_copy_and_no_state_of_what_is_frozen(pair):
    names = load_file(pair / "whole" / "checkpoints" / "last" / "training.safetensors")
    assert not [name for name in names if ".model.encoder." in name or ".model.embedding." in name]


def test_the_summary_counts_what_learns(pair):
    first, whole = (json.loads((pair / run / "summary.json").read_text()) for run in ("first", "whole"))
    assert first["learning_parameters"] == first["parameters"] == whole["parameters"]
    state = tensors(pair / "whole")
    frozen = ("model.encoder.", "model.frontend.", "model.embedding.")
    learned = sum(one.numel() for name, one in state.items() if not name.startswith(frozen))
    assert 0 < whole["learning_parameters"] <= learned  # buffers do not learn
    counts = f"{whole['learning_parameters']:,} of {whole['parameters']:,} parameters"
    assert counts in (pair / "whole" / "log.txt").read_text()


def test_a_resumed_run_may_thaw_or_freeze_further_parts(pair, folder, tmp_path):
    for name, parts in (("thaw", []), ("more", ["encoder", "embeddings", "output"])):
        shutil.copytree(pair / "whole", tmp_path / name, symlinks=True)
        values = small_config(folder, freeze=parts, max_updates=22, weight_decay=0.5).model_dump()
        config = Config.model_validate(values | {"init_from": str(pair / "first"), "init_parts": ["all"]})
        start(config, tmp_path / name, resume=True)
        before, after = tensors(pair / "whole"), tensors(tmp_path / name)
        learned = load_file(pair / "whole" / "checkpoints" / "last" / "training.safetensors")  # not their averages
        before |= {key[6:]: one for key, one in learned.items() if key.startswith("model.")}
        changed = {key for key in before if not torch.equal(before[key], after[key])}
        assert ("model.encoder.layers.0.feed_forward.inner.weight" in changed) == (not parts)
        assert "model.decoder.layers.0.feed_forward.inner.weight" in changed
        assert ("model.output.bias" in changed) == (not parts)


def test_fresh_parts_that_are_frozen_are_named(folder, tmp_path):
    start(small_config(folder, freeze=["encoder"], **FIRST), tmp_path / "run")
    said = "training.freeze: random weights of encoder never change, for init_from names no run"
    assert said in (tmp_path / "run" / "log.txt").read_text()


def test_the_command_names_file_and_line(folder, tmp_path, capsys):
    path, config = tmp_path / "mine.yaml", small_config(folder, freeze=["encodre"])
    path.write_text(config_file.dump(config))
    line = next(at for at, text in enumerate(path.read_text().split("\n"), 1) if "freeze" in text)
    for verb in (["check"], ["run", "--output", str(tmp_path / "run")]):
        assert cli.main([verb[0], str(path), *verb[1:]]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"{path}:{line}: training.freeze: 'encodre' means no parameter"), said
        assert cli.main([verb[0], str(path), "training.freeze=[decodr]", *verb[1:]]) == 2
        assert "command line: training.freeze=[decodr]: 'decodr' means no parameter" in capsys.readouterr().err
