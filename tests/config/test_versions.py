"""The format of runs: which ones can be read, and what becomes of their keys."""

import json
import re
import shutil
from pathlib import Path

import pytest
from small_run import small_config, start, write_trees

import seq2seq_suite as s2s
from seq2seq_suite.cli import app as cli
from seq2seq_suite.config import config_file
from seq2seq_suite.config import versions as run_format
from seq2seq_suite.tasks import TASKS

ROOT = Path(__file__).parents[2]
FIXTURES = Path(__file__).parents[1] / "fixtures"
OLD, NEW = "older than 0.1.0, which can no longer be read", "written by a newer seq2seq_suite: format 2"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("format")
    start(small_config(write_trees(folder / "data"), max_updates=2, validate_every=2, save_every=2), folder / "run")
    return folder / "run"


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run", symlinks=True)


def renumber(path: Path, number: int | None) -> None:
    """Give a file of a run another format, or none."""
    text = path.read_text()
    line = "" if number is None else f"format: {number}\n" if path.suffix == ".yaml" else f'"format": {number},'
    changed = re.sub(r"^format: 1\n|\"format\": 1,", line, text)
    assert changed != text
    path.write_text(changed)


@pytest.mark.parametrize(("number", "said"), [(None, OLD), (0, OLD), (2, NEW)])
def test_a_run_of_another_format_is_refused_in_a_line_and_left_as_it_is(run, capsys, number, said):
    yaml = run.parent / "own.yaml"
    yaml.write_text((run / "config.yaml").read_text())
    renumber(run / "config.yaml", number)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for command in (
        ["predict", str(run), "the cat sleeps"],
        ["evaluate", str(run)],
        ["compare", str(run), str(run)],
        ["run", str(yaml), "--output", str(run), "--resume"],
    ):
        assert cli.main(command) == 2
        shown = capsys.readouterr().err
        assert said in shown and "config.yaml" in shown and "Traceback" not in shown
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("number", "said"), [(None, OLD), (2, NEW)])
def test_a_checkpoint_of_another_format_is_refused_as_such_and_not_as_broken(run, capsys, number, said):
    renumber(run / "checkpoints" / "best" / "state.json", number)
    yaml = run / "config.yaml"
    begin = ["run", str(yaml), f"init_from={run}", "init_parts=[all]", "--output", str(run.parent / "other")]
    resume = ["run", str(yaml), "training.max_updates=4", "--output", str(run), "--resume"]
    for command in (["predict", str(run), "the cat sleeps"], begin, resume):
        assert cli.main(command) == 2
        assert said in capsys.readouterr().err
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["best", "last", "step-2"]


def test_both_files_of_a_run_have_the_number(run):
    assert (run / "config.yaml").read_text().startswith(f"format: {run_format.FORMAT}\n")
    state = json.loads((run / "checkpoints" / "best" / "state.json").read_text())
    assert state["format"] == run_format.FORMAT


def test_a_key_that_an_old_run_lacks_has_its_default(run):
    config, wanted = run / "config.yaml", s2s.load(run).config
    text = config.read_text()
    without = re.sub(r"^  (clip_norm|length_penalty|max_row_megabytes): .*\n|^kernels: .*\n", "", text, flags=re.M)
    assert text.count("\n") - without.count("\n") == 4
    config.write_text(without)
    assert s2s.load(run).config == wanted
    config.write_text(text + "never_there: 1\n")
    with pytest.raises(s2s.ConfigError, match="never_there: unknown key"):
        s2s.load(run)


def test_keys_of_older_formats_are_renamed_or_left_out(monkeypatch):
    monkeypatch.setattr(run_format, "FORMAT", 3)
    monkeypatch.setattr(
        run_format,
        "RENAMED",
        ((1, "training.rate", "training.learning_rate"), (2, "beam", "search.beam_size"), (2, "parsing.gone", "")),
    )
    part = {"task": "parsing", "training": {"rate": 0.5}, "beam": 4, "parsing": {"gone": 1, "guide": False}}
    first, second = (
        config_file.from_mapping({"format": number, **given})
        for number, given in ((1, part), (2, {**part, "training": {"learning_rate": 0.25}}))
    )
    assert (first.training.learning_rate, second.training.learning_rate) == (0.5, 0.25)
    assert first.search.beam_size == second.search.beam_size == 4 and not first.parsing.guide
    for number, key in ((2, "training.rate"), (3, "beam")):
        with pytest.raises(s2s.ConfigError, match=f"{key}: unknown key"):
            config_file.from_mapping({"format": number, **part})
    joint = config_file.from_mapping(
        {"format": 2, "task": "multitask", "tasks": {"a": {"task": "parsing", "beam": 4}, "b": {"task": "multilabel"}}}
    )
    assert joint.tasks["a"].search.beam_size == 4


@pytest.mark.parametrize(("key", "only"), run_format.FIXED.items())
def test_a_key_that_is_gone_may_say_what_the_code_does_and_nothing_else(key, only):
    section, _, name = key.partition(".")
    part = {"task": section if section in TASKS else "translation"}
    assert config_file.from_mapping({**part, section: {name: only}}) == config_file.from_mapping(part)
    joint = {"task": "multitask", "tasks": {"a": {**part, section: {name: [only]}}, "b": {"task": "qa"}}}
    for given in ({**part, section: {name: [only]}}, joint):
        with pytest.raises(s2s.ConfigError, match=f"{key} .*: this key is gone"):
            config_file.from_mapping(given)


def test_a_run_of_format_1_with_keys_that_are_gone_loads(tmp_path):
    run = shutil.copytree(FIXTURES / "run-0.1.0", tmp_path / "run", symlinks=True)
    text = (run / "config.yaml").read_text()
    assert "max_unary: 3" in text and s2s.load(run).config.task == "parsing"
    assert s2s.load(run).config.data.unicode == "none"
    assert s2s.load(run, settings=["data.unicode=nfc"]).config.data.unicode == "nfc"
    (run / "config.yaml").write_text(text.replace("max_unary: 3", "max_unary: 5"))
    with pytest.raises(s2s.ConfigError, match=r"config\.yaml: parsing\.max_unary 5: this key is gone"):
        s2s.load(run)


def test_a_users_own_file_needs_no_number_but_may_have_it(tmp_path):
    yaml = tmp_path / "own.yaml"
    for line in ("", "format: 1\n"):
        yaml.write_text(f"{line}task: parsing\n")
        assert config_file.load(yaml) == config_file.from_mapping({"task": "parsing"})
    yaml.write_text("format: 2\ntask: parsing\n")
    with pytest.raises(s2s.DataError, match=NEW):
        s2s.check(yaml)


def test_the_version_is_the_same_everywhere(capsys):
    assert cli.main(["--version"]) == 0
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    newest = re.search(r"^## (\d\S*) \(20\d\d-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert s2s.__version__ == cited == newest == capsys.readouterr().out.split()[-1]
    assert 'version = { attr = "seq2seq_suite.__version__" }' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("version", [path.name for path in sorted(FIXTURES.glob("run-*"))])
def test_a_run_of_an_earlier_release_predicts_and_scores_as_it_did(version, tmp_path):
    old = s2s.load(shutil.copytree(FIXTURES / version, tmp_path / version))
    wanted = json.loads((old.path / "expected.json").read_text())
    del wanted["figures"]["tagging_accuracy"]  # of the treebank's own tags: no figure any more
    found = old.predict(wanted["sentences"])
    assert [one.text for one in found] == wanted["trees"]
    assert [one.score for one in found] == pytest.approx(wanted["scores"], abs=1e-3)
    assert old.evaluate("test", data=old.path / "data") == pytest.approx(wanted["figures"])


def test_the_first_release_is_among_the_runs_that_are_kept():
    assert (FIXTURES / "run-0.1.0" / "checkpoints" / "best" / "model.safetensors").stat().st_size < 150_000
