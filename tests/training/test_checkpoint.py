"""What a checkpoint holds and what it refuses."""

import json
import resource

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.model.decoder import TransformerDecoder
from seq2seq_suite.model.variants.real_positions import MaskedDecoder
from seq2seq_suite.options.training import Training
from seq2seq_suite.runs import weights
from seq2seq_suite.training import checkpoint
from seq2seq_suite.training.checkpoint import Progress
from seq2seq_suite.training.optimizer import MovingAverage, build_optimizer


class Tied(nn.Module):
    def __init__(self, width: int = 3):
        super().__init__()
        self.embedding = nn.Embedding(4, width)
        self.output = nn.Linear(width, 4)
        self.output.weight = self.embedding.weight


def parts(*, seed: int = 1, updates: int = 2, decay: float = 0.5):
    torch.manual_seed(seed)
    model = Tied()
    optimizer, average = build_optimizer(model, Training()), MovingAverage(model, decay)
    for update in range(1, updates + 1):
        model.output(model.embedding(torch.tensor([0, 1]))).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update(model, update)
    return model, optimizer, average


def save(folder, parts_, progress, keep=2):
    return checkpoint.save(folder, *parts_, progress, keep=keep)


def test_everything_comes_back(tmp_path):
    saved = parts()
    save(tmp_path, saved, Progress(update=2, epoch=1, position=3, seconds=1.5, best_update=2, best_figure=0.25))
    drawn = torch.rand(3)
    model, optimizer, average = parts(seed=2, updates=0)
    progress, complaints = checkpoint.load_newest(tmp_path, model, optimizer, average)
    assert progress == Progress(update=2, epoch=1, position=3, seconds=1.5, best_update=2, best_figure=0.25)
    assert complaints == [] and torch.equal(torch.rand(3), drawn)
    assert torch.equal(model.embedding.weight, saved[0].embedding.weight)
    assert model.output.weight is model.embedding.weight
    assert all(torch.equal(average.weights[name], value) for name, value in saved[2].weights.items())
    for mine, theirs in zip(model.parameters(), saved[0].parameters(), strict=True):
        for key, value in saved[1].state[theirs].items():
            assert torch.equal(optimizer.state[mine][key], value)


def test_the_weights_to_use_are_the_averaged_ones_and_tied_ones_are_kept_once(tmp_path):
    saved = parts()
    path = save(tmp_path, saved, Progress(update=2))
    tensors = load_file(path / "model.safetensors")
    assert sorted(tensors) == ["embedding.weight", "output.bias"]
    assert torch.equal(tensors["embedding.weight"], saved[2].weights["embedding.weight"])
    assert not torch.equal(tensors["embedding.weight"], saved[0].embedding.weight)


def test_best_last_and_the_newest_are_kept(tmp_path):
    for update in range(1, 7):
        save(tmp_path, parts(), Progress(update=update, best_update=min(update, 2), best_figure=1.0))
    assert [path.name for path in weights.steps(tmp_path)] == ["step-2", "step-5", "step-6"]
    assert (tmp_path / "best").resolve().name == "step-2" and (tmp_path / "last").resolve().name == "step-6"


def test_nothing_in_a_checkpoint_needs_pickle(tmp_path):
    path = save(tmp_path, parts(), Progress(update=1))
    assert sorted(file.name for file in path.iterdir()) == ["model.safetensors", "state.json", "training.safetensors"]
    for name in ("model.safetensors", "training.safetensors"):
        with safe_open(path / name, "pt") as file:
            assert list(file.keys())
    assert json.loads((path / "state.json").read_text())["progress"]["update"] == 1


def test_weights_of_another_model_are_refused(tmp_path):
    path = save(tmp_path, parts(), Progress(update=1))
    with pytest.raises(DataError, match="shape"):
        weights.load_weights(path, Tied(width=5))
    with pytest.raises(DataError, match=r"another model's.*1 missing, 1 unexpected|another model's"):
        weights.load_weights(path, nn.Linear(2, 2))
    (path / "state.json").unlink()  # weights may come alone
    save_file({"x": torch.ones(1)}, path / "model.safetensors")
    with pytest.raises(DataError, match="another model's"):
        weights.load_weights(path, Tied())
    (path / "model.safetensors").unlink()
    with pytest.raises(DataError, match="no such file"):
        weights.load_weights(path, Tied())


def flip(path):
    data = path.read_bytes()
    path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])


@pytest.mark.parametrize("joint", [False, True])
def test_weights_are_what_was_written_or_are_refused(tmp_path, joint):
    model, folder = parts()[0], tmp_path / "checkpoints"
    if joint:
        checkpoint.export(folder, model)
    else:
        save(folder, parts(), Progress(update=1, best_update=1, best_figure=0.5))
    loads = [
        lambda: weights.load_best(tmp_path, model),
        lambda: weights.load_weights(folder / "best", model),
        lambda: weights.load_parts(folder / "best", model, []),
    ]
    for load in loads:
        load()
    flip(folder / "best" / "model.safetensors")
    for load in loads:
        with pytest.raises(DataError, match=r"model\.safetensors: its contents do not match its hash"):
            load()


def test_a_best_checkpoint_that_gives_way_to_a_better_one_while_it_is_read_is_no_mistake(tmp_path, monkeypatch):
    folder, load, first = tmp_path / "checkpoints", weights.load_weights, []
    save(folder, parts(), Progress(update=1, best_update=1, best_figure=0.5))

    def late(path, model):
        if not first:
            first.append(path)
            save(folder, parts(), Progress(update=2, best_update=2, best_figure=1.0), keep=1)
        return load(path, model)

    monkeypatch.setattr(weights, "load_weights", late)
    weights.load_best(tmp_path, parts(seed=2)[0])
    assert first[0].name == "step-1" and not first[0].exists()


def test_a_convolution_that_weights_lack_begins_by_adding_nothing(tmp_path, layer_shape, roughen):
    torch.manual_seed(1)
    without, grown = (
        nn.ModuleDict({"decoder": MaskedDecoder(layer_shape(encoder_kernel=kernel), 2, has_memory=False)})
        for kernel in (0, 3)
    )
    save_file(
        {name: tensor.clone() for name, tensor in roughen(without).state_dict().items()}, tmp_path / "model.safetensors"
    )
    with pytest.raises(DataError, match="missing"):
        weights.load_weights(tmp_path, grown)
    x, mask = torch.randn(2, 5, 16), torch.arange(5) < torch.tensor([[3], [5]])
    wanted, _ = without["decoder"](x, mask.unsqueeze(1), None)

    def count(model: nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    for load in (
        lambda: weights.load_weights(tmp_path, grown, grown=True),
        lambda: weights.load_parts(tmp_path, grown, ["decoder"]),
    ):
        roughen(grown)
        new = count(grown) - count(without)
        assert load().endswith(f"{count(without):,} parameters, and {new:,} new ones that add nothing")
        torch.testing.assert_close(grown["decoder"](x, mask.unsqueeze(1), None)[0][mask], wanted[mask])
    assert any(parameter.any() for name, parameter in grown.named_parameters() if ".convolution.depthwise" in name)
    with pytest.raises(DataError, match="does not fit"):
        weights.load_parts(
            tmp_path, nn.ModuleDict({"decoder": TransformerDecoder(layer_shape(), 3, has_memory=False)}), ["decoder"]
        )


def test_a_best_checkpoint_that_is_gone_is_forgotten_and_named(tmp_path):
    save(tmp_path, parts(), Progress(update=2, best_update=1, best_figure=0.5, validations_since_best=3))
    (tmp_path / "best").symlink_to("step-1")
    progress, complaints = checkpoint.load_newest(tmp_path, *parts())
    assert progress.best_update == -1 and progress.best_figure != progress.best_figure
    assert "step-1" in complaints[0] and not (tmp_path / "best").is_symlink()


def test_a_checkpoint_that_the_disk_has_no_room_for_leaves_the_one_before_it_as_it_was(tmp_path):
    folder = tmp_path / "checkpoints"
    save(folder, parts(), Progress(update=1, best_update=1, best_figure=0.5))
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (0, 300):  # bytes: neither file of tensors, or only the smaller one
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(OSError, match="File too large") as caught:
                save(folder, parts(), Progress(update=2, best_update=2, best_figure=1.0))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert caught.value.filename == str(folder / "step-2")
        assert before == {path: path.read_bytes() for path in folder.rglob("*.*")}
        assert sorted(path.name for path in folder.iterdir()) == ["best", "last", "step-1"]


def test_no_directory_is_made_anew_for_a_checkpoint(tmp_path):
    for write in (
        lambda folder: save(folder, parts(), Progress(update=1)),
        lambda folder: checkpoint.export(folder, parts()[0]),
    ):
        with pytest.raises(FileNotFoundError):
            write(tmp_path / "deleted" / "checkpoints")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_best_checkpoint_is_as_good_as_gone(tmp_path):
    save(tmp_path, parts(), Progress(update=1, best_update=1, best_figure=0.5))
    save(tmp_path, parts(), Progress(update=2, best_update=1, best_figure=0.5))
    flip(tmp_path / "step-1" / "model.safetensors")
    progress, complaints = checkpoint.load_newest(tmp_path, *parts())
    assert progress.update == 2 and progress.best_update == -1
    assert "step-1" in complaints[0] and "do not match its hash" in complaints[0]


def test_an_empty_folder_holds_nothing_to_resume(tmp_path):
    (tmp_path / ".step-5.partial").mkdir()
    assert checkpoint.load_newest(tmp_path, *parts()) == (None, [])
    assert checkpoint.load_newest(tmp_path / "absent", *parts()) == (None, [])


def test_averaging_can_be_switched_on_and_off_between_sessions(tmp_path):
    model, optimizer, average = parts()
    save(tmp_path, (model, optimizer, average), Progress(update=2))
    other, its_optimizer, _ = parts(seed=3, updates=0)
    checkpoint.load_newest(tmp_path, other, its_optimizer, None)
    assert torch.equal(other.embedding.weight, model.embedding.weight)
    save(tmp_path, (other, its_optimizer, None), Progress(update=3))
    third = parts(seed=4, updates=0)
    checkpoint.load_newest(tmp_path, *third)
    assert torch.equal(third[2].weights["embedding.weight"], model.embedding.weight)


@pytest.mark.parametrize("older", [False, True], ids=["", "of 0.1.0"])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_state_of_another_optimizer_is_refused(tmp_path, optimizer, older):
    torch.manual_seed(1)
    models = [nn.Linear(3, 3) for _ in range(2)]
    first, second = (
        build_optimizer(model, Training(optimizer=name))
        for model, name in zip(models, (optimizer, {"adamw": "muon", "muon": "adamw"}[optimizer]), strict=True)
    )
    models[0](torch.ones(1, 3)).sum().backward()
    first.step()
    state = save(tmp_path, (models[0], first, None), Progress(update=1)) / "state.json"
    facts = json.loads(state.read_text())
    assert "weight" in facts["optimizers"][optimizer]
    if older:  # it said nothing of optimisers
        del facts["optimizers"]
        state.write_text(json.dumps(facts))
    checkpoint.load_newest(tmp_path, models[0], build_optimizer(models[0], Training(optimizer=optimizer)), None)
    with pytest.raises(DataError, match=f"another optimizer updated 'weight': {optimizer}"):
        checkpoint.load_newest(tmp_path, models[1], second, None)
