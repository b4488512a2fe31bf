"""Files of weights: written and read a tensor at a time, by the names of this version."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.runs.tensors import CHANGES, is_finite, save_each, with_changes
from seq2seq_suite.runs.weights import Stored, load_tensors, put_weights


def tensors():
    torch.manual_seed(1)
    return {"b.weight": torch.randn(3, 5), "a.bias": torch.randn(7), "c": torch.tensor(2.5), "none": torch.zeros(0, 4)}


def shapes(given):
    return {name: tuple(one.shape) for name, one in given.items()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_file_that_is_written_a_tensor_at_a_time_is_one_of_safetensors(tmp_path, dtype):
    given = tensors()
    save_each(tmp_path / "x.safetensors", shapes(given), reversed([*given.items()]), dtype)
    found = load_file(tmp_path / "x.safetensors")
    assert found.keys() == given.keys()
    assert all(torch.equal(found[name], one.to(getattr(torch, dtype))) for name, one in given.items())
    size = sum(one.numel() for one in given.values()) * (4 if dtype == "float32" else 2)
    content = (tmp_path / "x.safetensors").read_bytes()
    assert len(content) == 8 + int.from_bytes(content[:8], "little") + size
    assert json.loads(content[8:-size])["c"]["shape"] == []


def test_strided_tensors_are_written_as_they_are_read(tmp_path):
    given = {"x": torch.arange(12.0).view(3, 4).t(), "y": torch.arange(10.0)[::3]}
    save_each(tmp_path / "x.safetensors", shapes(given), given.items(), "float32")
    found = load_file(tmp_path / "x.safetensors")
    assert all(torch.equal(found[name], one) for name, one in given.items())


OLD = "encoder.layers.0.attention.query_key_value"


def test_stored_tensors_are_those_that_are_loaded_at_once(tmp_path):
    given = {f"{OLD}.weight": torch.randn(6, 2), f"{OLD}.bias": torch.randn(6)} | tensors()
    save_file(given, tmp_path / "model.safetensors")
    stored, loaded = Stored(tmp_path / "model.safetensors"), load_tensors(tmp_path / "model.safetensors")
    assert stored.keys() == loaded.keys() and len(stored) == len(given) + 4
    assert stored.shapes == shapes(loaded)
    assert all(torch.equal(stored[name], one) for name, one in loaded.items())


def test_weights_of_half_the_precision_are_loaded_as_numbers(tmp_path):
    model, given = nn.Linear(3, 2), {"weight": torch.randn(2, 3).bfloat16(), "bias": torch.randn(2).half()}
    save_file(given, tmp_path / "model.safetensors")
    put_weights(tmp_path / "model.safetensors", model, grown=False)
    assert torch.equal(model.weight, given["weight"].float()) and torch.equal(model.bias, given["bias"].float())
    assert model.weight.dtype == torch.float32


def test_what_is_not_finite_is_refused_before_anything_is_loaded(tmp_path):
    model = nn.Linear(3, 2)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    save_file({"bias": torch.zeros(2), "weight": torch.full((2, 3), torch.inf)}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match="1 of 2 tensors have numbers that are not finite, such as weight"):
        put_weights(tmp_path / "model.safetensors", model, grown=False)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    for value, finite in ((torch.nan, False), (-torch.inf, False), (3e38, True)):
        assert is_finite(torch.tensor([[0.0, value], [1.0, 3e38]])) == finite
    assert is_finite(torch.tensor([1, 2])) and not is_finite(torch.tensor([1.0, torch.nan]).bfloat16())


def test_a_change_is_added_alike_to_stored_and_to_loaded_weights(tmp_path):
    given = dict(zip(CHANGES, (torch.randn(2, 5), torch.randn(3, 2), torch.tensor(1.5)), strict=True))
    given = {f"b{name}": one for name, one in given.items()} | tensors()
    save_file(given, tmp_path / "model.safetensors")
    summed, stored = with_changes(given), Stored(tmp_path / "model.safetensors")
    wanted = given["b.weight"] + 1.5 * given["b.lora_b"] @ given["b.lora_a"]
    torch.testing.assert_close(summed["b.weight"], wanted)
    assert summed.keys() == tensors().keys()
    assert all(torch.equal(stored.summed(name), one) for name, one in summed.items())
