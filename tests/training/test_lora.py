"""Low-rank changes: they begin as nothing, they alone learn, and without them a run has the same outputs."""

import json
import math
import shutil

import pytest
import torch
from making import strategy_of
from pydantic import ValidationError
from safetensors.torch import load_file
from small_run import metrics, small_config, start, write_trees
from torch import nn

import seq2seq_suite as s2s
from seq2seq_suite import kernels
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.config import config_file
from seq2seq_suite.config.schema import Config
from seq2seq_suite.model.build import build_model
from seq2seq_suite.options.backbone import Backbone, Lora
from seq2seq_suite.options.training import Training
from seq2seq_suite.prediction.load_run import open_run
from seq2seq_suite.runs.tensors import CHANGES, with_changes
from seq2seq_suite.runs.weights import load_weights
from seq2seq_suite.strategies.assisted import Assisted
from seq2seq_suite.strategies.learner import Learner
from seq2seq_suite.training import checkpoint
from seq2seq_suite.training.lora import LowRankLinear, adapt
from seq2seq_suite.training.optimizer import build_optimizer

ALL = ("query", "key", "value", "output", "feed_forward")
CONVOLVED = (*ALL, "convolution")
BOTH = ("encoder", "decoder")
SHAPE = Shape(TokenShape(11), TargetShape(7))
KINDS = {
    "pre": {},
    "post": {"norm_placement": "post", "activation": "swish"},
    "t5": {"positions": "t5", "norm": "rms", "activation": "geglu"},
    "rotary": {"positions": "rotary"},
    "additive": {"attention_score": "additive"},
    "experts": {"experts": 3},
    "repeated": {"encoder_steps": 2, "decoder_steps": 2},
    "recurrent": {"decoder": "rnn"},
    "convolved": {"encoder_kernel": 3},
}


def parts_of(kind):
    return CONVOLVED if kind == "convolved" else ALL


def learner_of(kind="pre", kernel="fast"):
    sizes = {"width": 16, "feed_forward_width": 24, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 1}
    backbone = Backbone.model_validate({**sizes, "dropout": 0.0, "max_positions": 32, **KINDS[kind]})
    torch.manual_seed(3)
    learner = Learner(build_model(backbone, SHAPE), strategy_of(Assisted, target=SHAPE.target))
    kernels.accelerate(learner, kernel)
    return learner


def moved(learner, seed=1):
    """The learner with random changes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in learner.modules():
            if isinstance(module, LowRankLinear):
                module.lora_b.copy_(torch.randn(module.lora_b.shape, generator=generator) * 0.3)
    return learner


def merged(learner, kind, kernel="fast"):
    """A learner without changes whose matrices have them."""
    plain = learner_of(kind, kernel)
    plain.load_state_dict(with_changes(learner.state_dict()))
    return plain


@pytest.fixture
def batch(make_batch):
    return make_batch([5, 3, 4], [4, 2, 3], target_symbols=7)


@pytest.fixture(params=["fast", "plain"])
def kernel(request):
    return request.param


def loss_of(learner, batch):
    loss = learner(batch)
    return sum(loss.sums.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_loss_is_that_of_the_base_bit_for_bit_and_nothing_else_is_drawn(kind, batch, kernel):
    base, changed = learner_of(kind, kernel), learner_of(kind, kernel)
    state = torch.get_rng_state()
    adapt(changed, Lora(rank=2, parts=parts_of(kind)), BOTH)
    assert torch.equal(torch.get_rng_state(), state)
    for training in (True, False):
        assert float(loss_of(base.train(training), batch)) == float(loss_of(changed.train(training), batch))


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_with_their_changes_have_the_same_outputs(kind, batch, kernel):
    changed = learner_of(kind, kernel)
    adapt(changed, Lora(rank=2, alpha=3.0, parts=parts_of(kind)), BOTH)
    moved(changed)
    plain = merged(changed, kind, kernel)
    base = float(loss_of(learner_of(kind, kernel), batch))
    for training in (True, False):
        loss = float(loss_of(changed.train(training), batch))
        assert loss == pytest.approx(float(loss_of(plain.train(training), batch)), rel=1e-5)
        assert abs(loss - base) > 1e-3
    limit = torch.tensor([6, 6, 6])
    with torch.inference_mode():
        found, wanted = (
            one.eval().generate(batch, options=Config(task="translation").search, limit=limit)
            for one in (changed, plain)
        )
    for ours, theirs in zip(found, wanted, strict=True):
        assert [one.symbols for one in ours] == [one.symbols for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)


def test_a_layer_is_its_equation_with_its_gradient():
    torch.manual_seed(4)
    layer = nn.Linear(5, 3)
    x, own = torch.randn(2, 4, 5, requires_grad=True), layer.weight.detach().clone()
    LowRankLinear.put(layer, 2, 6.0)
    with torch.no_grad():
        layer.lora_b.normal_()
    wanted = x @ own.t() + 6.0 / 2 * (x @ layer.lora_a.t() @ layer.lora_b.t()) + layer.bias
    for training in (True, False):
        found = layer.train(training)(x)
        torch.testing.assert_close(found, wanted)
        parameters = [x, layer.lora_a, layer.lora_b]
        given = torch.autograd.grad(found.square().sum(), parameters, retain_graph=True)
        torch.testing.assert_close(given, torch.autograd.grad(wanted.square().sum(), parameters, retain_graph=True))


def test_a_scale_and_not_the_rank_decides_how_large_a_change_is():
    one, two = nn.Linear(4, 4), nn.Linear(4, 4)
    LowRankLinear.put(one, 1, 8.0)
    LowRankLinear.put(two, 4, 8.0)
    assert (float(one.lora_scale), float(two.lora_scale)) == (8.0, 2.0)
    assert one.lora_a.shape == (1, 4) and two.lora_b.shape == (4, 4) and not two.lora_b.any()


def changed_names(learner):
    return {name for name, module in learner.named_modules() if isinstance(module, LowRankLinear)}


def test_parts_are_these_layers():
    learner = learner_of()
    adapt(learner, Lora(rank=1, parts=("query",)), {"decoder", "frontend"})
    layer = "model.decoder.layers.0"
    assert changed_names(learner) == {f"{layer}.attention.query", f"{layer}.cross_attention.query"}
    adapt(learner, Lora(rank=1, parts=("feed_forward", "output")), {"encoder"})
    names = {name for name in changed_names(learner) if ".encoder." in name}
    inner = ("attention.output", "feed_forward.inner", "feed_forward.outer")
    assert names == {f"model.encoder.layers.{number}.{name}" for number in (0, 1) for name in inner}
    convolved = learner_of("convolved")
    adapt(convolved, Lora(rank=1, parts=("convolution",)), BOTH)
    layers = [f"model.encoder.layers.{number}.convolution" for number in (0, 1)]
    assert changed_names(convolved) == {f"{layer}.{name}" for layer in layers for name in ("inner", "outer")}
    untouched = learner_of()
    adapt(untouched, Lora(), BOTH)
    assert not changed_names(untouched)


def test_what_has_no_such_layer_is_refused_by_name():
    with pytest.raises(
        ConfigError, match=r"backbone\.lora\.parts: decoder, which init_from gives, .* with query"
    ) as at:
        adapt(learner_of("recurrent"), Lora(rank=1), ["decoder"])
    assert "query, key, value, output, feed_forward, convolution" in at.value.expected


def test_muon_leaves_changes_to_adamw():
    learner = learner_of()
    adapt(learner, Lora(rank=2), BOTH)
    optimizer = build_optimizer(learner, Training(optimizer="muon"))
    kinds = {one: group["kind"] for group in optimizer.param_groups for one in group["params"]}
    assert kinds.keys() == set(learner.parameters())
    assert {kinds[one] for name, one in learner.named_parameters() if name.endswith(CHANGES)} == {"adamw"}


def test_changes_are_saved_loaded_and_added_where_a_model_has_none(tmp_path):
    changed = learner_of()
    adapt(changed, Lora(rank=2), BOTH)
    moved(changed)
    checkpoint.export(tmp_path, changed)
    again = learner_of()
    adapt(again, Lora(rank=2), BOTH)
    load_weights(tmp_path / "best", again)
    ours, theirs = changed.state_dict(), again.state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    plain, wanted = learner_of(), merged(changed, "pre")
    load_weights(tmp_path / "best", plain)
    assert all(torch.equal(one, plain.state_dict()[name]) for name, one in wanted.state_dict().items())
    grown = learner_of()
    adapt(grown, Lora(rank=3, parts=ALL), BOTH)  # of another rank
    load_weights(tmp_path / "best", grown, grown=True)
    found = grown.state_dict()
    assert all(torch.equal(one, found[name]) for name, one in wanted.state_dict().items())
    assert not any(one.any() for name, one in found.items() if name.endswith(CHANGES[1]))


# -- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


def tuned(folder, base, *, init_parts=("all",), lora=None, **training):
    values = small_config(folder, weight_decay=0.5, **training).model_dump()
    values |= {"init_from": str(base), "init_parts": init_parts}
    values["backbone"]["lora"] = {"rank": 2, "parts": ("query", "value", "feed_forward"), **(lora or {})}
    return Config.model_validate(values)


@pytest.fixture(scope="module")
def place(folder, tmp_path_factory):
    """A base, and runs from it: in one piece, in two, of a fresh decoder, and from a run with changes."""
    place = tmp_path_factory.mktemp("runs")
    start(small_config(folder, max_updates=4, validate_every=4), place / "base")
    start(tuned(folder, place / "base", max_updates=20), place / "whole")
    start(tuned(folder, place / "base", max_updates=10), place / "halves")
    start(tuned(folder, place / "base", max_updates=20), place / "halves", resume=True)
    start(tuned(folder, place / "base", init_parts=("frontend", "encoder")), place / "fresh")
    start(tuned(folder, place / "whole", max_updates=2), place / "again")
    return place


def tensors(directory, name="last"):
    return load_file(directory / "checkpoints" / name / "model.safetensors")


def test_only_changes_learn(place):
    base, whole = tensors(place / "base", "best"), tensors(place / "whole")
    assert all(torch.equal(base[name], whole[name]) for name in base)
    added = whole.keys() - base.keys()
    assert added and all(name.endswith(CHANGES) for name in added)
    assert all(whole[name].any() for name in added)
    summary = json.loads((place / "whole" / "summary.json").read_text())
    assert summary["learning_parameters"] == sum(
        whole[name].numel() for name in added if not name.endswith("lora_scale")
    )
    training = load_file(place / "whole" / "checkpoints" / "last" / "training.safetensors")
    assert {name for name in training if name.startswith("model.") and not name.endswith(CHANGES)} <= {
        f"model.{name}" for name in base if name.rpartition(".")[2] in ("unknown_probability", "table")
    }


def test_what_the_base_does_not_give_learns_too(place):
    base, fresh = tensors(place / "base", "best"), tensors(place / "fresh")
    kept = {name for name in base if name.startswith(("model.encoder.", "model.frontend."))}
    assert all(torch.equal(base[name], fresh[name]) for name in kept)
    assert not any(name.endswith(CHANGES) for name in fresh if ".decoder." in name)
    assert any(name.endswith(CHANGES) for name in fresh if ".encoder." in name)
    first = {name for name in base.keys() - kept if name.endswith(".weight") and torch.equal(base[name], fresh[name])}
    assert not first


def test_ten_updates_and_ten_more_are_twenty(place):
    assert metrics(place / "halves") == metrics(place / "whole")
    one, two = tensors(place / "halves"), tensors(place / "whole")
    assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_the_first_loss_of_a_run_is_that_of_its_base(folder, place, tmp_path):
    plain = small_config(folder, max_updates=2, log_every=1, weight_decay=0.5).model_dump()
    start(Config.model_validate(plain | {"init_from": str(place / "base"), "init_parts": ("all",)}), tmp_path / "plain")
    start(tuned(folder, place / "base", max_updates=2, log_every=1), tmp_path / "low")
    ours, theirs = (metrics(tmp_path / name)[:2] for name in ("low", "plain"))
    losses = [{key: row[key] for key in row if key.startswith("loss_")} for row in (ours[0], theirs[0])]
    assert losses[0] == losses[1] and ours[1] != theirs[1]


def test_a_run_is_opened_with_its_changes_in_its_matrices(place):
    run = open_run(place / "whole", ["device=cpu"])
    state = run.predictor.learner.state_dict()
    wanted = with_changes(tensors(place / "whole", "best"))
    assert not changed_names(run.predictor.learner)
    assert all(torch.equal(state[name], one) for name, one in wanted.items())
    query = "model.decoder.layers.0.attention.query"
    stored = tensors(place / "whole", "best")
    change = 16.0 / 2 * stored[f"{query}.lora_b"] @ stored[f"{query}.lora_a"]
    torch.testing.assert_close(state[f"{query}.weight"], stored[f"{query}.weight"] + change)


def test_a_run_begins_from_one_with_changes_and_from_their_sum(place):
    whole, again = with_changes(tensors(place / "whole", "best")), tensors(place / "again")
    assert all(torch.equal(one, again[name]) for name, one in whole.items())


def test_evaluate_predict_and_export_take_it(place, tmp_path, capsys):
    before = json.loads((place / "whole" / "summary.json").read_text())["splits"]["test"]
    shutil.copytree(place / "whole", tmp_path / "run", symlinks=True)
    assert cli.main(["evaluate", str(tmp_path / "run")]) == 0
    after = json.loads((tmp_path / "run" / "summary.json").read_text())["splits"]["test"]
    assert {name: value for name, value in after.items() if not math.isnan(value)} == pytest.approx(
        {name: value for name, value in before.items() if not math.isnan(value)}, abs=0.01
    )
    assert cli.main(["export", str(tmp_path / "run"), "--to", "hub-folder", str(tmp_path / "hub")]) == 0
    capsys.readouterr()
    text = "the dog sleeps"
    assert s2s.load(tmp_path / "hub").predict([text])[0].text == s2s.load(place / "whole").predict([text])[0].text
    kept = load_file(tmp_path / "hub" / "checkpoints" / "best" / "model.safetensors")
    assert not any(name.endswith(CHANGES) for name in kept)


def test_another_rank_is_no_resumption(folder, place):
    with pytest.raises(ConfigError, match=r"backbone\.lora\.rank is 3, but the run was started with 2"):
        start(tuned(folder, place / "base", lora={"rank": 3}), place / "halves", resume=True)


def test_a_run_without_a_base_is_refused_with_its_line(folder, place, tmp_path, capsys):
    values = tuned(folder, place / "base").model_dump()
    with pytest.raises(ValidationError, match=r"init_from names none"):
        Config.model_validate(values | {"init_from": ""})
    with pytest.raises(ValidationError, match=r"training\.shard does not go with backbone\.lora\.rank 2: set it to"):
        tuned(folder, place / "base", shard=True)
    path = tmp_path / "mine.yaml"
    path.write_text(config_file.dump(Config.model_validate(values | {"init_parts": ("decoder",)})))
    for change, said in (
        ("init_from=", "backbone.lora.rank 2 changes the weights of another run"),
        ("backbone.decoder=rnn", "backbone.lora.parts: decoder, which init_from gives, have no Transformer layer with"),
        ("backbone.lora.parts=[queries]", "one of query, key, value, output, feed_forward, convolution"),
    ):
        assert cli.main(["run", str(path), change, "--output", str(tmp_path / "run")]) == 2
        error = capsys.readouterr().err
        assert said in error and ("mine.yaml:" in error or "command line" in error), error
