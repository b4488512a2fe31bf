"""The tables of parts: every row is a class, and a class of a user's file is a part as the suite's own are."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import nn

from seq2seq_suite.common import parts
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.shapes import Shape, TargetShape, TokenShape
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config.config_file import load
from seq2seq_suite.experiments import check, verbs
from seq2seq_suite.model.build import build_model, part_of
from seq2seq_suite.options.backbone import Backbone
from seq2seq_suite.prediction import load_run

MINE = """import torch
from torch import nn


class GainedNorm(nn.Module):
    def __init__(self, width, *, gain=1.0):
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), gain))

    def forward(self, x):
        return self.gain * x / x.abs().amax(-1, keepdim=True).clamp(min=1e-6)


class Network(nn.Linear):
    def __init__(self, shape):
        super().__init__(shape.width, shape.width)


class Positions(nn.Module):
    def __init__(self, width, max_positions):
        super().__init__()

    def forward(self, x, offset=0):
        return x + 1.0


def cube(x):
    return x ** 3


class Broken(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = width.gain
"""
YAML = """task: parsing
data: {path: data}
parsing: {min_count: 1}
backbone: {size: tiny, width: 8, feed_forward_width: 8, num_heads: 2, encoder_layers: 1, decoder_layers: 1, norm: NORM}
training: {max_updates: 2, validate_every: 2}
"""


@pytest.mark.parametrize("key", parts.TABLES)
def test_the_names_of_a_key_are_those_of_its_table_and_each_is_a_class_or_function(key):
    table = parts.TABLES[key]
    assert get_args(Backbone.model_fields[key].annotation) == tuple(table)
    for name in table:
        backbone = Backbone.model_validate({}).model_copy(update={key: name})
        assert callable(part_of(backbone, key))


def test_a_name_that_no_table_has_builds_nothing():
    with pytest.raises(KeyError):
        part_of(Backbone.model_validate({}).model_copy(update={"norm": "squares"}), "norm")


def test_what_a_part_cannot_go_with_is_refused_by_its_row(monkeypatch):
    refusal = parts.Refusal("encoder", ("rnn",), "needs self-attention", "backbone.norm=layer")
    monkeypatch.setitem(parts.NORMS, "rms", replace(parts.NORMS["rms"], refuses=(refusal,)))
    with pytest.raises(
        ValueError,
        match=r"backbone\.norm rms does not go with backbone\.encoder rnn, for it needs "
        r"self-attention: set backbone\.norm=layer",
    ):
        Backbone.model_validate({"norm": "rms", "encoder": "rnn"})


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with data, the user's file and a YAML that names the norm in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for split in ("train", "validation", "test"):
        (tmp_path / "data" / f"{split}.jsonl").write_text('{"tree": "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"}\n')
    (tmp_path / "my.py").write_text(MINE)
    (tmp_path / "own.yaml").write_text(YAML.replace("NORM", "my.py:GainedNorm"))
    return tmp_path


def test_a_norm_of_a_users_file_trains_two_updates_and_decodes_with_one_file_and_one_key(folder):
    config, run = load(folder / "own.yaml", own=True), folder / "run"
    assert config.code == {"backbone.norm": f"{folder / 'my.py'}:GainedNorm"}
    assert ("your code", f"{folder / 'my.py'}:GainedNorm is run for backbone.norm") in check.examine(config)
    verbs.run(config, run, resume=False, overwrite=False, command=[])
    assert (run / "code" / "my.py").read_text() == MINE
    with pytest.raises(ConfigError, match=r"backbone\.norm: .* is code, which is not trusted"):
        load_run.open_run(run, [])
    with trusting(True):
        model = load_run.open_run(run, []).predictor.model
    norms = {name: part for name, part in model.named_modules() if name.endswith(("_norm", "coder.norm"))}
    assert len(norms) == 7 and {type(one).__name__ for one in norms.values()} == {"GainedNorm"}
    assert any((one.gain != 1.0).any() for one in norms.values())


def built(folder: Path, **backbone) -> nn.Module:
    backbone = {key: str(folder / value) if ".py:" in value else value for key, value in backbone.items()}
    with trusting(True):
        return build_model(
            Backbone.model_validate({"width": 8, "num_heads": 2, "feed_forward_width": 8, **backbone}),
            Shape(TokenShape(11), TargetShape(9)),
        )


def test_parameters_are_arguments_of_the_class(folder):
    model = built(folder, norm="my.py:GainedNorm", parameters={"norm": {"gain": 3.0}})
    assert torch.equal(model.encoder.norm.gain, torch.full((8,), 3.0))


@pytest.mark.parametrize(
    "own", [{"feed_forward": "my.py:Network"}, {"positions": "my.py:Positions"}, {"activation": "my.py:cube"}]
)
def test_other_parts_may_be_a_users_too(folder, own):
    model = built(folder, **own)
    source = torch.randint(4, 9, (2, 5))
    logits = model(source, torch.ones(2, 5, dtype=torch.bool), source)
    logits.sum().backward()
    assert logits.shape == (2, 5, 9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"norm": "your.py:GainedNorm"}, r"backbone\.norm: there is no file .*your\.py"),
        ({"parameters": {"norm": {"gain": 2.0}}}, r"backbone\.norm names none: set it to FILE\.py:NAME"),
        (
            {"norm": "my.py:GainedNorm", "parameters": {"norm": {"loss": 2.0}}},
            r"backbone\.norm: GainedNorm fails: TypeError",
        ),
        ({"norm": "my.py:Broken"}, r"my\.py:\d+: .*backbone\.norm: Broken fails: AttributeError"),
    ],
)
def test_a_part_that_cannot_be_made_is_named_with_the_reason(folder, given, said):
    with pytest.raises((ConfigError, ValueError), match=said):
        built(folder, **given)
