"""Which implementation a model gets: the one chosen where it is built, fast by default, or the user's own."""

import copy
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from seq2seq_suite import kernels
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config.config_file import dump, load
from seq2seq_suite.experiments import check, verbs
from seq2seq_suite.kernels.dropout import dropout as fast_dropout
from seq2seq_suite.kernels.places import Dropout
from seq2seq_suite.kernels.plain import dropout as plain_dropout
from seq2seq_suite.prediction import load_run as opening

TINY = (
    "backbone.width=8",
    "backbone.feed_forward_width=8",
    "backbone.num_heads=2",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
    "training.max_updates=1",
    "training.validate_every=1",
)
MINE = "def halve(x, rate):\n    return x / 2\n"


def layer(kind: str = "fast", components: dict | None = None) -> nn.Dropout:
    made = nn.Sequential(nn.Dropout(0.5))
    kernels.accelerate(made, kind, components)
    return made[0]


def test_what_is_built_is_plain_until_it_is_accelerated():
    assert type(layer("plain")) is nn.Dropout
    assert layer().dropout is fast_dropout
    assert layer("plain", {"attention": lambda *given: None}).dropout is plain_dropout


def test_a_second_choice_takes_the_place_of_the_first(make_model):
    model = make_model()
    for function in (plain_dropout, fast_dropout):
        kernels.accelerate(model, components={"dropout": function})
        assert {part.dropout for part in model.modules() if isinstance(part, nn.Dropout)} == {function}


def test_a_copy_of_a_model_reads_with_its_own_weights(make_model, make_batch):
    model, batch = make_model(), make_batch([5, 3], [2, 2])
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.encoder.parameters():
            parameter.zero_()
    assert not other.encode(batch).values.any() and model.encode(batch).values.any()


def test_a_function_or_the_name_of_one_takes_the_place_of_both(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    for given in (lambda x, rate: x / 2, f"{tmp_path / 'mine.py'}:halve"):
        with trusting(True):
            made = layer("plain", {"dropout": given})
        torch.testing.assert_close(made(torch.tensor([4.0, 2.0])), torch.tensor([2.0, 1.0]))


def test_components_of_a_block_hold_where_none_is_given():
    with kernels.using({"dropout": plain_dropout}), kernels.using({}):
        assert layer().dropout is plain_dropout
        assert layer("fast", {"dropout": fast_dropout}).dropout is fast_dropout


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (MINE, "third", r"mine\.py: .*no function or class third\n *expected: one of halve"),
        ("x = 1\ny = x.z\n", "y", r"mine\.py:2: .*AttributeError"),
        ("def f(:\n", "f", r"mine\.py:1: .*SyntaxError"),
        ("raise SystemExit('away')\n", "f", r"mine\.py:1: .*SystemExit: away"),
        ("class Odd(BaseException): pass\nraise Odd\n", "f", r"mine\.py:2: .*Odd"),
    ],
)
def test_a_component_that_cannot_be_loaded_says_where_it_fails(tmp_path, text, name, said):
    (tmp_path / "mine.py").write_text(text)
    mine = f"{tmp_path / 'mine.py'}:{name}"
    with pytest.raises(ConfigError, match=said), trusting([mine]):
        layer("fast", {"dropout": mine})


def test_kinds_and_slots_that_there_are_not_are_refused():
    for kind, components in (("quick", {}), ("fast", {"drop": plain_dropout})):
        with pytest.raises(ConfigError, match="expected: one of"):
            layer(kind, components)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working directory with a YAML in a folder below, and beside it the user's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "mine.py").write_text(MINE)
    tree = '{"tree": "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"}\n'
    (tmp_path / "data").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "data" / f"{split}.jsonl").write_text(tree)
    return tmp_path / "course"


def write(folder: Path, component: str) -> Path:
    yaml = folder / "lab.yaml"
    yaml.write_text(
        f"task: parsing\nkernels: plain\ncomponents:\n  {component}\ndata: {{path: data}}\nparsing: {{min_count: 1}}\n"
    )
    return yaml


@pytest.mark.parametrize(
    ("component", "said"),
    [
        ("drop: mine.py:halve", r"lab\.yaml:4: components\.drop: there is no such slot: choose one of .*dropout"),
        ("dropout: your.py:halve", r"lab\.yaml:4: components\.dropout: there is no file .*course/your\.py"),
        ("dropout: mine.py", r"lab\.yaml:4: components\.dropout: got 'mine\.py' \(text\)\n.*FILE\.py:NAME"),
        ("dropout: 3", r"lab\.yaml:4: components\.dropout: got 3"),
    ],
)
def test_a_component_that_cannot_be_is_named_with_its_line(folder, component, said):
    with pytest.raises(ConfigError, match=said):
        load(write(folder, component), own=True)


def test_a_run_with_a_component_says_so_and_predicts_with_it(folder):
    config = load(write(folder, "dropout: mine.py:halve"), TINY, own=True)
    component = config.components["dropout"]
    assert component == f"{folder / 'mine.py'}:halve"
    assert ("your code", f"{component} is run for components.dropout") in check.examine(config)
    run = folder.parent / "run"
    verbs.run(config, run, resume=False, overwrite=False, command=[])
    facts = json.loads((run / "provenance.json").read_text())
    assert facts["kernels"] == "plain" and facts["components"]["dropout"].startswith(f"{component} sha256 ")
    with trusting(True):
        again, model = load(run / "config.yaml"), opening.open_run(run, []).predictor.model
    assert again.components == {"dropout": f"{run / 'code' / 'mine.py'}:halve"} and "kernels: plain" in dump(config)
    layers = [part for part in model.modules() if isinstance(part, Dropout)]
    assert layers and all(layer.dropout(2.0, 0.5) == 1.0 for layer in layers)
