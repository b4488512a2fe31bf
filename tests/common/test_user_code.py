"""No verb runs code that a run brings along, in whatever way the run names it."""

import hashlib
import io
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file, save_file
from small_run import in_forks, small_config, start, write_trees

import seq2seq_suite as s2s
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common import files
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.user_code import trusting
from seq2seq_suite.serve.runs import open_runs
from seq2seq_suite.studies import sweep

CODE = """open({marker!r}, "a").write("ran")
from seq2seq_suite.model.attention import attention as attend
from seq2seq_suite.tasks.parsing.task import ParsingTask
class T(ParsingTask): pass
"""
WAYS = ("task", "component", "inner", "part", "drafter", "rescorer", "begun")
PLACES = {
    "within": "evil.py",
    "beside": "../lib/evil.py",
    "linked": "linked.py",
    "around": "code/../../lib/evil.py",
    "absolute": "{}/lib/evil.py",
    "linked folder": "folder/evil.py",
    "hard": "hard.py",
}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("good")
    start(small_config(write_trees(folder / "data"), max_updates=2, validate_every=2), folder / "run")
    return folder / "run"


class Download:
    """A run of somebody else that names code."""

    def __init__(self, good: Path, folder: Path):
        self.good, self.folder, self.run, self.marker = good, folder, folder / "run", folder.parent / "ran"
        folder.mkdir()
        shutil.copytree(good, self.run)
        for place in (folder / "lib", self.run / "code"):
            place.mkdir()
        for file in (folder / "lib" / "evil.py", self.run / "evil.py"):
            file.write_text(CODE.format(marker=str(self.marker)))
        (self.run / "linked.py").symlink_to("../lib/evil.py")
        (self.run / "folder").symlink_to("../lib")
        os.link(folder / "lib" / "evil.py", self.run / "hard.py")

    def name(self, way: str, place: str, run: Path | None = None) -> None:
        run, code = run or self.run, PLACES[place].format(self.folder)
        config = yaml.safe_load((run / "config.yaml").read_text())
        match way:
            case "task":
                config["task"] = f"{code}:T"
            case "component":
                config["components"] = {"attention": f"{code}:attend"}
            case "inner":
                (run / "inner.yaml").write_text(f"task: {code}:T\n")
                config |= {"task": "multitask", "tasks": {"a": {"yaml": "inner.yaml"}}}
            case "part":
                config |= {"task": "multitask", "tasks": {"a": {"task": f"{code}:T"}}}
            case _:
                helper = self.folder / "helper"
                shutil.copytree(self.run, helper, symlinks=True)
                self.name("task", place, helper)
                if way == "begun":
                    config |= {"init_from": str(helper), "init_parts": ["encoder"]}
                else:
                    config["search"][way] = str(helper)
        (run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


@pytest.fixture
def download(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Download(good, tmp_path / "downloaded")


def call(*words: object) -> int:
    return cli.main([str(word) for word in words])


def verbs(run: Path, good: Path) -> dict[str, tuple[object, ...]]:
    """Command lines that open a run."""
    search = ("search.beam_size=2",)
    return {
        "predict": ("predict", run, "The dog sleeps ."),
        "ensemble": ("predict", good, run, "The dog sleeps ."),
        "evaluate": ("evaluate", run),
        "search": ("evaluate", run, *search),
        "compare": ("compare", good, run),
        "card": ("export", run, "out", "--to", "model-card"),
        "hub": ("export", run, "out"),
        "marian": ("export", run, "out", "--to", "transformers"),
        "distill": ("distill", run, "--output", "out"),
        "score": ("score", f"{run}/evil.py:T", good / "config.yaml", good / "config.yaml"),
        "resume": ("run", f"{run}/config.yaml", "training.max_updates=3", "--resume", "--output", run),
        "again": ("check", f"{run}/config.yaml"),
    }


@pytest.mark.parametrize(
    ("way", "place"),
    [
        ("component", "beside"),
        ("task", "within"),
        *(pytest.param(way, "beside", marks=pytest.mark.slow) for way in WAYS if way != "component"),
        *(pytest.param("task", place, marks=pytest.mark.slow) for place in PLACES if place != "within"),
    ],
)
def test_no_verb_runs_code_that_a_run_names(download, way, place, capsys):
    download.name(way, place)
    for verb, words in verbs(download.run, download.good).items():
        code = call(*words)
        said = capsys.readouterr().err
        assert not download.marker.exists(), verb
        if way not in ("inner", "part", "begun") and verb in ("predict", "evaluate", "hub"):
            assert code == 2 or (verb, way) in (("hub", "drafter"), ("hub", "rescorer")), (verb, said)
            assert code == 0 or (
                "is code, which is not trusted" in said and "--trust-code" in said and "config.yaml:" in said
            )
    for python in (
        lambda: s2s.load(download.run).predict(["The dog sleeps ."]),
        lambda: s2s.load(download.run).evaluate(),
        lambda: s2s.compare(download.run, download.good),
        lambda: s2s.compare(download.good, download.run, speed=True),
        lambda: s2s.read_config(download.run / "config.yaml"),
        lambda: open_runs([download.run], [], trust_code=False, folder=download.folder),
    ):
        with suppress(ConfigError, DataError):
            python()
        assert not download.marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize("way", ("task", "component"))
@pytest.mark.parametrize("key", ("drafter", "rescorer", "init_from", "yaml"))
def test_a_configuration_of_ones_own_does_not_trust_what_it_names(download, way, key, capsys, monkeypatch):
    download.name(way, "beside")
    own = yaml.safe_load((download.good / "config.yaml").read_text())
    del own["format"]
    match key:
        case "init_from":
            own |= {"init_from": str(download.run), "init_parts": ["encoder"]}
        case "yaml":
            own = {
                **{key: own[key] for key in ("device", "backbone", "training")},
                "task": "multitask",
                "tasks": {"a": {"yaml": str(download.run / "config.yaml")}},
            }
        case _:
            own["search"][key] = str(download.run)
    Path("own.yaml").write_text(yaml.safe_dump(own))
    monkeypatch.setattr(sweep, "subprocess", in_forks(download.folder.parent))
    few = ("training.max_updates=1", "training.validate_every=1")
    for words in (
        ("check", "own.yaml"),
        ("run", "own.yaml", *few, "--output", "new"),
        ("sweep", "own.yaml", *few, "seed=1,2", "--output", "swept"),
    ):
        code = call(*words)
        assert not download.marker.exists() and (
            code == 0 or "--trust-code" in capsys.readouterr().err or words[0] == "sweep"
        )


def test_what_is_trusted_is_run(download, capsys):
    download.name("task", "beside")
    assert call("predict", download.run, "The dog sleeps .", "--trust-code") == 0 and download.marker.exists()
    assert call("predict", download.run, "The dog sleeps .") == 2, "trust ends with the command"
    assert "--trust-code" in capsys.readouterr().err
    assert s2s.load(download.run, trust_code=True).predict(["The dog sleeps ."])
    with pytest.raises(ConfigError, match="not trusted"):
        s2s.load(download.run)
    with trusting(False), pytest.raises(ConfigError, match="not trusted"):
        s2s.load(download.run)


def test_ones_own_code_is_run_without_a_word_and_for_the_run_that_it_trains(download):
    own = yaml.safe_load((download.good / "config.yaml").read_text())
    own |= {"task": "lib/evil.py:T", "components": {"attention": "lib/evil.py:attend"}}
    del own["format"]
    (download.folder / "own.yaml").write_text(yaml.safe_dump(own))
    few = {"training.max_updates": 1, "training.validate_every": 1}
    assert s2s.check(download.folder / "own.yaml") and download.marker.exists()
    assert s2s.train(download.folder / "own.yaml", output="new", settings=few).predict(["The dog sleeps ."])
    assert sorted(file.name for file in Path("new/code").iterdir()) == ["evil.py"]


@pytest.mark.parametrize(
    "name", ["vocabulary/extra.json", "checkpoints/best/model.safetensors", "summary.json", "vocabulary", "hard"]
)
def test_no_file_outside_a_run_is_exported(download, name, capsys):
    secret = download.folder / ("run/../helper" if name == "vocabulary" else "secret")
    if name == "vocabulary":
        secret.mkdir()
        (secret / "words.txt").write_text("SECRET")
    else:
        shutil.copy(download.run / "summary.json", secret)
    path = download.run / ("vocabulary/extra.json" if name == "hard" else name)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    os.link(secret, path) if name == "hard" else path.symlink_to(secret)
    assert call("export", download.run, "out") == 2 and not Path("out").exists()
    said = capsys.readouterr().err
    assert "remedy" in said and str(download.run) in said


@pytest.mark.parametrize("name", ["summary.json", "predictions", "predictions/test.jsonl", "log.txt"])
def test_evaluate_writes_nothing_outside_a_run(download, name, capsys):
    path, other = download.run / name, Path("other")
    if path.is_dir():
        shutil.move(path, other)
    else:
        shutil.copy(path if path.exists() else download.run / "config.yaml", other)
        path.unlink(missing_ok=True)
    path.symlink_to(other.resolve())
    before = sorted((file, file.stat().st_mtime_ns) for file in (other, *other.glob("*")))
    assert call("evaluate", download.run) == 2 and "no file of the run" in capsys.readouterr().err
    assert before == sorted((file, file.stat().st_mtime_ns) for file in (other, *other.glob("*")))


def test_weights_that_are_not_finite_are_said(download, capsys):
    path = download.run / "checkpoints" / "best"
    tensors = load_file(path / "model.safetensors")
    first = sorted(tensors)[0]
    tensors[first] = tensors[first] * float("nan")
    save_file(tensors, path / "model.safetensors")
    state = json.loads((path / "state.json").read_text())
    content = (path / "model.safetensors").read_bytes()
    state["files"]["model.safetensors"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (path / "state.json").write_text(json.dumps(state))
    for words in (("predict", download.run, "The dog ."), ("evaluate", download.run), ("export", download.run, "out")):
        assert call(*words) == 2 and f"not finite, such as {first}" in capsys.readouterr().err
    with pytest.raises(DataError, match="not finite"):
        open_runs([download.run], [], trust_code=False, folder=download.folder)


@pytest.mark.parametrize("raised", ["SystemExit('away')", "SystemExit(0)", "GeneratorExit()"])
def test_code_that_ends_the_program_is_said_with_its_line(download, raised, capsys):
    config = yaml.safe_load((download.run / "config.yaml").read_text())
    (download.run / "own.py").write_text(f"def attend(*given, **named):\n    raise {raised}\n")
    config["components"] = {"attention": "own.py:attend"}
    (download.run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    assert call("predict", download.run, "The dog sleeps .", "--trust-code") == 2
    assert "own.py:2: the code" in (said := capsys.readouterr().err) and raised.partition("(")[0] in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_outputs_are_utf_8_whatever_the_streams_say(download, encoding, monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    assert call("predict", download.run, "漢字 sleeps", "search.constraint=true") == 0
    written.getvalue().decode("utf-8")


def test_without_a_home_the_cache_is_a_temporary_folder_and_said(monkeypatch, capsys, tmp_path):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    files._temporary.cache_clear()
    root = files.cache_root()
    assert files.cache_root() == root and root.stat().st_mode & 0o777 == 0o700
    assert capsys.readouterr().err.count(f"what is cached is in {root}") == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "seq2seq_suite").mkdir(mode=0o777)
    assert files.cache_root() == tmp_path / "seq2seq_suite" and files.cache_root().stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert files.cache_root().parent == root.parent and "another user's" in capsys.readouterr().err
