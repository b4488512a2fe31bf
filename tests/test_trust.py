"""No verb runs code that a run brings along, in whatever way the run names it."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from small_run import in_forks, small_config, start, write_trees

import seq2seq_suite as s2s
from seq2seq_suite import cli
from seq2seq_suite.experiments import sweep
from seq2seq_suite.serve.runs import open_runs
from seq2seq_suite.types import ConfigError, DataError
from seq2seq_suite.user_code import trusting

CODE = """open({marker!r}, "a").write("ran")
from seq2seq_suite.model.attention import attention as attend
from seq2seq_suite.tasks.parsing.task import ParsingTask
class T(ParsingTask): pass
"""
WAYS = ("task", "component", "inner", "part", "drafter", "rescorer", "begun")
PLACES = {"within": "evil.py", "beside": "../lib/evil.py", "linked": "linked.py", "around": "code/../../lib/evil.py",
          "absolute": "{}/lib/evil.py", "linked folder": "folder/evil.py", "hard": "hard.py"}


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
    return {"predict": ("predict", run, "The dog sleeps ."), "ensemble": ("predict", good, run, "The dog sleeps ."),
            "evaluate": ("evaluate", run), "search": ("evaluate", run, *search), "compare": ("compare", good, run),
            "card": ("export", run, "out", "--to", "model-card"), "hub": ("export", run, "out"),
            "marian": ("export", run, "out", "--to", "transformers"), "distill": ("distill", run, "--output", "out"),
            "score": ("score", f"{run}/evil.py:T", good / "config.yaml", good / "config.yaml"),
            "resume": ("run", f"{run}/config.yaml", "training.max_updates=3", "--resume", "--output", run),
            "again": ("check", f"{run}/config.yaml")}


@pytest.mark.parametrize(("way", "place"), [*((way, "beside") for way in WAYS), *(("task", place) for place in PLACES)])
def test_no_verb_runs_code_that_a_run_names(download, way, place, capsys):
    download.name(way, place)
    for verb, words in verbs(download.run, download.good).items():
        code = call(*words)
        said = capsys.readouterr().err
        assert not download.marker.exists(), verb
        if way not in ("inner", "part", "begun") and verb in ("predict", "evaluate", "hub"):
            assert code == 2 or (verb, way) in (("hub", "drafter"), ("hub", "rescorer")), (verb, said)
            assert code == 0 or ("is code, which is not trusted" in said and "--trust-code" in said
                                 and "config.yaml:" in said)
    for python in (lambda: s2s.load(download.run).predict(["The dog sleeps ."]),
                   lambda: s2s.load(download.run).evaluate(), lambda: s2s.compare(download.run, download.good),
                   lambda: s2s.compare(download.good, download.run, speed=True),
                   lambda: s2s.read_config(download.run / "config.yaml"),
                   lambda: open_runs([download.run], [], trust_code=False, folder=download.folder)):
        with suppress(ConfigError, DataError):
            python()
        assert not download.marker.exists()


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
            own = {**{key: own[key] for key in ("device", "backbone", "training")}, "task": "multitask",
                   "tasks": {"a": {"yaml": str(download.run / "config.yaml")}}}
        case _:
            own["search"][key] = str(download.run)
    Path("own.yaml").write_text(yaml.safe_dump(own))
    monkeypatch.setattr(sweep, "subprocess", in_forks(download.folder.parent))
    few = ("training.max_updates=1", "training.validate_every=1")
    for words in (("check", "own.yaml"), ("run", "own.yaml", *few, "--output", "new"),
                  ("sweep", "own.yaml", *few, "seed=1,2", "--output", "swept")):
        code = call(*words)
        assert not download.marker.exists() and (code == 0 or "--trust-code" in capsys.readouterr().err or
                                                 words[0] == "sweep")


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
