"""An optimiser of the user's own: one file, one key."""

import json
import re
from pathlib import Path

import pytest
import torch
from small_run import small_config, start, write_trees

from seq2seq_suite import training
from seq2seq_suite.common.errors import ConfigError, RunError
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.config.config_file import dump, load
from seq2seq_suite.runs.weights import load_tensors

PAGE = Path(training.__file__).with_name("README.md")
OTHERS = """


def nothing(groups, lr):
    return None


def some(groups, lr):
    return torch.optim.SGD(groups[:1], lr=lr)


def breaks(groups, lr):
    return 1 / 0


class Counts(Signs):
    def step(self, closure=None):
        super().step()
        for state in self.state.values():
            state["steps"], state["rate"] = state.get("steps", 0) + 1, 0.1


class Notes(Signs):
    def step(self, closure=None):
        super().step()
        next(iter(self.state.values()))["note"] = "text"
"""


@pytest.fixture
def yaml(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    code = next(one for one in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "class Signs" in one)
    Path("mine/signs.py").write_text(code + OTHERS)
    return Path("mine/own.yaml")


def config_of(yaml: Path, name: str = "Signs", options: str = "{}"):
    """The configuration of a file that names the optimiser as a user does."""
    values = small_config(
        write_trees(Path("data").resolve()), max_updates=4, save_every=2, validate_every=2, log_every=1
    )
    yaml.write_text(
        dump(values)
        .replace("format: 1\n", "")
        .replace("optimizer: adamw\n", f"optimizer: signs.py:{name}\n")
        .replace("optimizer_options: {}", f"optimizer_options: {options}")
    )
    return load(yaml, own=True)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_tensors(run / "checkpoints" / "last" / "training.safetensors")


def test_it_trains_and_resumes_like_one_of_the_suite(yaml, capsys):
    whole = config_of(yaml, options="{momentum: 0.5}")
    start(whole, Path("whole"))
    start(load(yaml, ["training.max_updates=2"], own=True), Path("halves"))
    start(whole, Path("halves"), resume=True)
    once, twice = weights(Path("whole")), weights(Path("halves"))
    assert once.keys() == twice.keys() and all(torch.equal(once[name], twice[name]) for name in once)
    assert [name for name in once if name.startswith("optimizer.mean.")]
    state = json.loads(Path("whole/checkpoints/last/state.json").read_text())
    assert state["optimizers"].keys() == {"Signs"}
    facts = json.loads(Path("whole/provenance.json").read_text())["components"]
    assert facts["training.optimizer"].startswith(f"{Path('mine/signs.py').resolve()}:Signs sha256 ")
    kept = Path("whole/config.yaml")
    assert f"optimizer: {Path('whole/code/signs.py')}".replace("whole/", "") in kept.read_text()
    with pytest.raises(ConfigError, match=r"training\.optimizer: .*signs\.py:Signs is code, which is not trusted"):
        load(kept, of_run=True)
    with trusting(True), pytest.raises(ConfigError, match=r"training\.optimizer_options is .* but the run was started"):
        start(load(yaml, ["training.optimizer_options.momentum=0.4"], own=True), Path("halves"), resume=True)


def test_numbers_of_its_state_are_kept_exactly_and_other_things_refused(yaml):
    start(config_of(yaml, "Counts"), Path("run"))
    found = weights(Path("run"))
    assert {value.item() for name, value in found.items() if name.startswith("optimizer.steps.")} == {4}
    assert {value.item() for name, value in found.items() if name.startswith("optimizer.rate.")} == {0.1}
    with pytest.raises(RunError, match=r"training\.optimizer keeps 'note', a str, of .* no checkpoint can hold"):
        start(config_of(yaml, "Notes"), Path("notes"))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("Signs", "{speed: 1}", r"signs\.py.*Signs fails: TypeError: .*unexpected keyword argument 'speed'"),
        ("nothing", "{}", "it gives NoneType, no torch.optim.Optimizer"),
        ("some", "{}", "it does not have exactly the parameters that it was given"),
        ("breaks", "{}", r"signs\.py:\d+: training\.optimizer: breaks fails: ZeroDivisionError"),
        ("other", "{}", "it has no function or class other"),
    ],
)
def test_what_it_gets_wrong_is_said(yaml, name, options, said):
    with pytest.raises(ConfigError, match=said):
        start(config_of(yaml, name, options), Path("run"))


def test_a_file_that_is_not_there_is_named_with_its_line(yaml):
    config_of(yaml)
    Path("mine/signs.py").unlink()
    with pytest.raises(ConfigError, match=r"own\.yaml:\d+: training\.optimizer: there is no file .*mine/signs\.py"):
        load(yaml, own=True)


def test_it_does_not_go_with_shards(yaml):
    config_of(yaml)
    with pytest.raises(ConfigError, match=r"training\.shard does not go with training\.optimizer"):
        load(yaml, ["training.shard=true"], own=True)
