"""The suite as a library does what the command line does, and says what is wrong in the same way."""

import ast
import subprocess
import sys
from pathlib import Path
from unicodedata import normalize
from xml.etree import ElementTree

import pytest
from small_run import small_config, start, write_trees

import seq2seq_suite as s2s
from seq2seq_suite import model, strategies, tasks
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.trees import Tree
from seq2seq_suite.config.config_file import dump, load


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    config = small_config(write_trees(folder / "data"), max_updates=4, validate_every=2, log_every=2)
    (folder / "p.yaml").write_text(dump(config), encoding="utf-8")
    rows = []
    found = s2s.train(folder / "p.yaml", output=folder / "run", callbacks=[rows.append])
    found.rows = rows
    return found


def test_the_import_leaves_torch_alone():
    code = "import sys, seq2seq_suite as s; assert 'torch' not in sys.modules and 'pydantic' not in sys.modules; s.load"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_everything_promised_is_there():
    assert all(callable(getattr(s2s, name)) and name in dir(s2s) for name in s2s.__all__)
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        _ = s2s.tarin


def test_a_file_a_dictionary_and_a_configuration_train_alike(run, tmp_path):
    config = load(run.path.parent / "p.yaml")
    plain = s2s.train(config.model_dump(), output=tmp_path / "a")
    start(config, tmp_path / "b")
    for other in (plain, s2s.load(tmp_path / "b")):
        assert other.summary["splits"] == run.summary["splits"]
        assert (other.path / "config.yaml").read_bytes() == (run.path / "config.yaml").read_bytes()


def test_a_notebook_shows_runs_predictions_and_trees(run, tmp_path):
    shown = run._repr_html_()
    assert f'href="{run.path}/report.html"' in shown and "<td>f1</td>" in shown
    assert "not finished" in s2s.Run(tmp_path / "a<b")._repr_html_() and "a&lt;b" in s2s.Run("a<b")._repr_html_()
    tree = Tree("S", (Tree("NN", ("dogs",)), Tree("VB", ("bark",))))
    picture = ElementTree.fromstring(s2s.Prediction(str(tree), tree, -0.5)._repr_html_())
    words = [one.text for one in picture.iter() if one.tag.endswith("text")]
    assert {"S", "NN", "dogs", "VB", "bark"} <= set(words) and picture[-1].text == "score -0.5"
    assert s2s.Prediction("a < b", "a < b", 1.0)._repr_html_() == "<div><pre>a &lt; b</pre><small>score 1</small></div>"


def test_the_package_lists_what_it_is_for():
    assert [name for name in dir(s2s) if not name.startswith("__")] == sorted(s2s.__all__)


def test_callbacks_see_every_row_of_the_metrics(run):
    assert [(row["update"], row["split"]) for row in run.rows] == [
        (1, "train"),
        (2, "train"),
        (2, "validation"),
        (4, "train"),
        (4, "validation"),
    ]
    assert run.rows[0]["loss_cross_entropy"] > 0 and "f1" in run.rows[2]


def test_an_exception_of_a_callback_ends_the_training_and_resume_goes_on(run, tmp_path):
    def enough(row):
        if row["update"] == 2 and row["split"] == "validation":
            raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        s2s.train(run.config, output=tmp_path / "run", callbacks=[enough])
    again = s2s.train(run.config, output=tmp_path / "run", resume=True)
    assert again.summary["splits"] == run.summary["splits"]


def test_predictions_are_those_of_the_command_line(run, capsys):
    texts = ["the cat sleeps", "a dog sees the bird"]
    assert cli.main(["predict", str(run.path), *texts]) == 0
    assert [str(one) for one in run.predict(texts)] == capsys.readouterr().out.splitlines()
    several = run.predict(texts, n_best=3)
    assert [len(one) for one in several] == [3, 3]
    assert cli.main(["predict", str(run.path), *texts, "--n-best", "3"]) == 0
    lines = [f"{one.score:.6g}\t{one.text}" for found in several for one in found]
    assert lines == capsys.readouterr().out.splitlines()
    narrow = run.predict(texts, n_best=2, settings={"search.beam_size": 2, "search.length_penalty": 0.0})
    assert [one.score for one in narrow[0]] != [one.score for one in several[0][:2]]


def test_inputs_that_look_alike_are_one_input(run):
    texts = [normalize(form, "d\u00e9j\u00e0 vu") for form in ("NFC", "NFD")]
    examples = [run.example(text) for text in texts]
    assert texts[0] != texts[1] and examples[0] == examples[1]
    one, other = run.predict(texts)
    assert one == other


def test_figures_are_those_of_the_run(run):
    assert run.evaluate("test") == run.summary["splits"]["test"]
    assert s2s.load(run.path, settings=["search.beam_size=2"]).config.search.beam_size == 2
    assert run.opened.predictor.learner.num_parameters() == run.summary["parameters"] and not run.model.training


def test_runs_are_compared(run):
    found = s2s.compare(run, run.path)
    assert found.pairs[0].p_value == 1.0 and found.pairs[0].verdict == "tie"
    assert found.rows[0].figure == found.rows[1].figure


def test_mistakes_are_errors_with_place_and_remedy(run, tmp_path):
    with pytest.raises(s2s.ConfigError, match=r"backbone\.n_heads: unknown key"):
        s2s.train({"task": "parsing", "backbone": {"n_heads": 4}}, output=tmp_path / "run")
    with pytest.raises(s2s.DataError, match="not a run directory"):
        s2s.load(tmp_path)
    with pytest.raises(s2s.DataError, match=r"inputs:2: the input is empty"):
        run.predict(["a cat", " "])
    with pytest.raises(s2s.DataError, match="inputs:1: the input is not UTF-8"):
        run.predict(["a \udcff b"])
    with pytest.raises(s2s.ConfigError, match=r"search\.beam=4: unknown key, did you mean search\.beam_size"):
        run.predict(["a cat"], settings={"search.beam": 4})
    assert not (tmp_path / "run").exists()


def test_a_check_says_what_the_command_line_says(run, capsys):
    rows = s2s.check(run.path.parent / "p.yaml", settings={"backbone.width": 64})
    assert cli.main(["check", str(run.path.parent / "p.yaml"), "backbone.width=64"]) == 0
    printed = capsys.readouterr().out
    assert all(what in printed for what, _ in rows)


@pytest.mark.parametrize("package", [model, strategies, tasks])
def test_classes_are_imported_from_one_place_each(package):
    found = {name: getattr(package, name) for name in dir(package) if name[0].isupper() and name.upper() != name}
    assert all(isinstance(one, type) for name, one in found.items() if name != "Any") and len(found) > 9
    with pytest.raises(AttributeError, match="no attribute 'NoSuchClass'"):
        _ = package.NoSuchClass


def test_no_class_of_the_model_is_left_out():
    folder = Path(model.__file__).parent
    classes = {
        node.name
        for path in folder.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    assert classes == {
        name
        for name in dir(model)
        if name[0].isupper()
        and isinstance(getattr(model, name), type)
        and getattr(model, name).__module__.startswith(model.__name__)
    }
