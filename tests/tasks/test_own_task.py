"""A task from outside the package: that of the guide, and what happens to code that came with a run."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from task_tools import make_task

import seq2seq_suite
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.user_code import load_code, trusting
from seq2seq_suite.config.config_file import dump, load
from seq2seq_suite.config.schema import Config
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks.presentation import Judgement, Presentation

GUIDE = Path(seq2seq_suite.__file__).parent / "tasks" / "README.md"
SMALL = (
    "device=cpu",
    "backbone.width=16",
    "backbone.feed_forward_width=16",
    "backbone.num_heads=2",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
    "training.max_updates=2",
    "training.validate_every=2",
    "training.threads=1",
)
MONTHS = ("January", "May", "July")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The guide's files, and data."""
    monkeypatch.chdir(tmp_path)
    code, yaml = (
        re.search(rf"```{kind}\n(.*?)```", GUIDE.read_text(), re.DOTALL).group(1) for kind in ("python", "yaml")
    )
    assert len([line for line in code.splitlines() if line.strip()]) < 60
    Path("dates.py").write_text(code)
    Path("dates.yaml").write_text(yaml)
    Path("data").mkdir()
    for split in ("train", "validation", "test"):
        rows = [
            {"written": f"{day} {month} 1999", "iso": f"1999-{7 * number + 1:02}-{day:02}"}
            for day in range(1, 5)
            for number, month in enumerate(MONTHS)
        ]
        Path("data", f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def call(*words: str) -> int:
    return cli.main(list(words))


def test_the_guides_task_is_checked_trained_and_predicted_with(folder, capsys):
    assert call("check", "dates.yaml", *SMALL) == 0
    assert f"{folder / 'dates.py'}:Dates is run for task" in " ".join(capsys.readouterr().out.split()).replace("│ ", "")
    for kind in ("autoregressive", "ctc"):
        assert call("run", "dates.yaml", *SMALL, f"strategy.kind={kind}", "--output", kind) == 0
        capsys.readouterr()
        assert call("predict", kind, "4 July 1999", "--trust-code") == 0
        assert capsys.readouterr().out.count("\n") == 1
    provenance = json.loads(Path("ctc/provenance.json").read_text())
    assert provenance["components"]["task"].startswith(f"{folder / 'dates.py'}:Dates sha256 ")
    Path("gold.txt").write_text("1999-07-04\n")
    assert call("score", "dates.py:Dates", "gold.txt", "gold.txt", "--trust-code") == 0
    assert "100.00" in capsys.readouterr().out


def test_its_options_are_a_section_like_any_other(folder):
    config = load(Path("dates.yaml"), ["dates.iso_column=day"], own=True)
    assert config.options.iso_column == "day" and config.task == f"{folder / 'dates.py'}:Dates"
    Path("other.yaml").write_text(dump(config))
    with trusting(config.code.values()):
        assert load(Path("other.yaml")) == config
    with pytest.raises(ConfigError, match=r"did you mean dates\.iso_column"):
        load(Path("dates.yaml"), ["dates.iso_colum=day"], own=True)
    with pytest.raises(ConfigError, match="a section of another task"):
        load(Path("dates.yaml"), ["qa.pointer=true"], own=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file"),
        ("import nothing_of_this_name", "the code fails: ModuleNotFoundError"),
        ("class Date: pass", "has no function or class Dates"),
        ("class Dates: pass", "is no task"),
    ],
)
def test_code_that_is_no_task_is_answered_plainly(folder, text, message, capsys):
    Path("own").mkdir()
    if text is not None:
        Path("own/dates.py").write_text(text)
    Path("own/dates.yaml").write_text("task: dates.py:Dates\n")
    assert call("check", "own/dates.yaml") == 2
    assert message in capsys.readouterr().err


def test_a_run_brings_its_code_along_and_works_where_it_is_moved(folder, capsys):
    assert call("run", "dates.yaml", *SMALL, "--output", "here") == 0
    before = Path("dates.py").read_bytes()
    assert (
        Path("here/code/dates.py").read_bytes() == before
        and "task: code/dates.py:Dates" in Path("here/config.yaml").read_text()
    )
    Path("here").rename("elsewhere")
    Path("dates.py").unlink()
    assert call("predict", "elsewhere", "4 July 1999") == 2
    assert "config.yaml:2: task: " in (said := capsys.readouterr().err) and "--trust-code" in said
    assert call("predict", "elsewhere", "4 July 1999", "--trust-code") == 0
    assert call("evaluate", "elsewhere", "--trust-code") == 0


def test_files_that_the_code_imports_come_along_and_are_its_own(folder):
    """Two tasks whose helpers have the same names: a module, and a package with a module of its own."""
    code = Path("dates.py").read_text()
    for name, sign in (("one", "-"), ("other", "/")):
        (folder / name / "pieces").mkdir(parents=True)
        (folder / name / "dates.py").write_text(
            f"import shaping\nfrom pieces import sign as joint\n{code}\nSIGN = shaping.SIGN + joint.SIGN\n"
        )
        (folder / name / "shaping.py").write_text(f"import pieces.sign\nSIGN = {sign!r}\n")
        (folder / name / "pieces/__init__.py").write_text("")
        (folder / name / "pieces/sign.py").write_text(f"SIGN = {sign!r}\n")
        (folder / name / "dates.yaml").write_text(Path("dates.yaml").read_text().replace("path: data", "path: ../data"))
        assert call("run", f"{name}/dates.yaml", *SMALL, f"data.path={folder / 'data'}", "--output", f"run-{name}") == 0
        shutil.rmtree(folder / name)
    for name, sign in (("one", "-"), ("other", "/")):
        copies = Path(f"run-{name}/code")
        kept = sorted(path.relative_to(copies).as_posix() for path in copies.rglob("*.py"))
        assert kept == ["dates.py", "pieces/__init__.py", "pieces/sign.py", "shaping.py"]
        with trusting(True):
            task = load_code(f"{folder / f'run-{name}/code/dates.py'}:Dates", key="task")
        assert task.__init__.__globals__["SIGN"] == 2 * sign
        assert call("predict", f"run-{name}", "4 July 1999", "--trust-code") == 0
    assert "shaping" not in sys.modules and "pieces" not in sys.modules


def test_a_run_is_resumed_with_the_code_that_it_was_started_with(folder, capsys):
    assert call("run", "dates.yaml", *SMALL, "--output", "here") == 0
    longer = ["run", "dates.yaml", *SMALL, "training.max_updates=4", "--output", "here", "--resume"]
    assert call(*longer) == 0 and "update 4" in Path("here/log.txt").read_text()
    Path("dates.py").write_text(Path("dates.py").read_text() + "\n")
    assert call(*longer) == 2 and "not the code that the run was started with" in capsys.readouterr().err


def test_a_configuration_of_ones_own_task_is_made_in_python_too(folder):
    with trusting(True):
        config = Config.model_validate({"task": f"{folder / 'dates.py'}:Dates", "dates": {"iso_column": "day"}})
    assert config.options.iso_column == "day" and config.target == "text"


def test_a_task_that_presents_its_outputs_itself_as_in_0_1_0_still_does(folder):
    """Its own methods are used under the names that `Presentation` has for them; what it does not define is not."""
    Path("old.py").write_text(f"""{Path("dates.py").read_text()}
from seq2seq_suite.tasks.base import Judgement


class OldText(Text):
    nothing = "(no date)"


class Old(Dates):
    drawing, baselines = "tags", ("most frequent output",)

    def __init__(self, *options, **others):
        super().__init__(*options, **others)
        self.target = OldText("iso", "characters", 200, column="iso")

    def judge(self, prediction, reference, example):
        return Judgement(prediction == reference, ("wrong",))

    def shown(self, example, prediction):
        return {{"text": f"<{{prediction}}>"}}

    def panels(self, examples, predictions):
        return [{{"title": self.name}}]
""")
    with trusting(True):
        config = Config.model_validate({"task": f"{folder / 'old.py'}:Old"})
        presentation = open_task(config.task, config).presentation
    example = Example("a", "b")
    assert (presentation.drawing, presentation.baselines) == ("tags", ("most frequent output",))
    assert presentation.judge("a", "b", example).kinds == ("wrong",)
    assert presentation.output_data(example, "b") == {"text": "<b>"}
    assert presentation.source_data(example) == {"text": "a"} and presentation.for_terminal("") == "(no date)"
    assert presentation.charts([example], ["b"]) == [{"title": "dates"}]
    assert presentation.length(example) == 1.0 and presentation.pipeline_tag == "other"


def test_the_guides_presentation_is_found_by_its_task(folder):
    _, code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    names = {"Presentation": Presentation, "Judgement": Judgement, "Task": object}
    exec(code, names)
    assert names["Dates"].presented_by is names["DatePresentation"]
    presentation = names["DatePresentation"](make_task("translation"))
    assert presentation.judge("1999-01-02", "1998-01-02", Example("")).kinds == ("year",)
    assert presentation.judge("1999-01-02", "1999-01-02", Example("")).equal
