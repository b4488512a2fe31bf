"""Studies whose variants begin from one another, and are decoded in several ways."""

import importlib.util
import json

import pytest
from small_run import in_forks
from task_tools import write_rows

from benchmarks import surface
from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.studies import chain, study

EXPERIMENT = """task: translation
device: cpu
data: {path: DATA}
translation: {source_subwords: characters, target_subwords: characters, joint: false}
backbone: {width: 16, feed_forward_width: 16, num_heads: 2, encoder_layers: 1, decoder_layers: 1, dropout: 0.0}
search: {max_length_factor: 1.0, max_length_extra: 4}
training: {validate_every: 4, threads: 1, precision: float32, warmup_updates: 1}
"""
STUDY = """question: What do blocks give?
yamls: [t.yaml]
seeds: [1]
settings: {training.max_updates: 8}
variants:
  left: {}
  begun: {strategy.kind: blocks, init_from: "{half}", init_parts: [all], training.max_updates: 1/2}
  both: {strategy.kind: blocks, init_from: "{half}", init_parts: [all], data.path: "{its outputs}",
         training.max_updates: 1/4}
  half: {training.max_updates: 1/2}
distilled: {its outputs: half}
searches: ["search.order=left search.threshold=0,0.9", search.order=verified]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("seq2seq_suite.studies.sweep.subprocess", in_forks(tmp_path))
    for split in ("train", "validation", "test"):
        rows = [{"src": "a b c d"[:length], "tgt": "D C B A"[:length]} for length in range(3, 8)]
        write_rows(tmp_path, rows, split=split)
    (tmp_path / "t.yaml").write_text(EXPERIMENT.replace("DATA", str(tmp_path)))
    (tmp_path / "s.yaml").write_text(STUDY)
    return tmp_path


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "report.html"}


@pytest.mark.slow
def test_a_chain_counts_the_updates_of_what_it_began_from_and_ends_in_rows_for_each_search(folder, capfd):
    runs = folder / "runs"
    cells = study.run(folder / "s.yaml", runs)
    found = {cell.name: cell for cell in cells}
    said = [line for line in capfd.readouterr().out.splitlines() if "left out" in line]
    assert [line.split(" searches")[0] for line in said] == [f"t, {name}: 2 of 3" for name in ("left", "half")]
    assert "search.threshold=0: search.threshold 0.0 has no effect with strategy.kind autoregressive" in said[0]
    searches = ("order=left threshold=0", "order=verified")  # 0.9 is the run's own
    assert list(found) == [
        "left",
        *(f"{name}{end}" for name in ("begun", "both") for end in ("", *(f" @ {one}" for one in searches))),
        "half",
    ]
    spent = {name: cell.runs[0]["updates"] for name, cell in found.items() if not cell.search}
    assert spent == {"left": 8, "begun": 8, "both": 6, "half": 4}
    at_once, verified = (found[f"begun @ {one}"].cost("passes") for one in searches)
    assert at_once < verified <= 1.0 == found["left"].cost("passes") and found["begun"].cost("nats") > 0.0
    summary = json.loads((runs / "t" / "begun-1" / "summary.json").read_text())
    assert len(summary["failures"]) == 3 and "compositional" not in summary["failures"]
    config = (runs / "t" / "both-1" / "config.yaml").read_text()
    assert f"init_from: {runs}/t/half-1" in config and f"path: {runs}/distilled/t-its_outputs-1" in config
    assert [row[1] for row in study.tests(cells)] == ["begun", "both", "half"]
    done = times(runs)
    assert study.run(folder / "s.yaml", runs) == cells and times(runs) == done
    # a call that was killed between two searches, and one that was killed while it wrote the outputs
    path = runs / "t" / "begun-1" / "summary.json"
    short = {**summary, "failures": {name: one for name, one in summary["failures"].items() if "verified" not in name}}
    path.write_text(json.dumps(short))
    (runs / "distilled" / "t-its_outputs-1" / "provenance.json").unlink()
    capfd.readouterr()
    again = study.run(folder / "s.yaml", runs)
    assert [cell.figures for cell in again] == [cell.figures for cell in cells]
    said = capfd.readouterr().out
    assert said.count("outputs of") == 1 and said.count(": evaluate ") == 1 and "evaluate search.order=verified" in said
    if importlib.util.find_spec("matplotlib"):
        measured = surface.timed(cells, [f"drafts={runs}/t/left-1:search.drafter={runs}/t/half-1"], 3)
        assert {name for _, name in measured} == {*found, "drafts"}
        for name, cell in found.items():
            one = measured["t", name]
            assert (one.figure, one.passes) == (cell.figures[0], cell.cost("passes"))
            surface.judge(one)
            assert (one.figure, one.passes) == pytest.approx((cell.figures[0], cell.cost("passes")))
            assert one.alone > 0.0 and one.in_batches > 0.0
        assert measured["t", "drafts"].figure == found["left"].figures[0]
        assert len([line for line in surface.rows_of_times(measured, 3) if line.startswith("| t |")]) == len(measured)
        surface.plot_surface(cells, folder / "picture.png", measured)
        assert (folder / "picture.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"{half}"', '"{hlaf}"', "variant 'begun': there is no variant 'hlaf'"),
        ("half: {", 'half: {init_from: "{begun}", ', "variant 'begun' begins from one that needs it first"),
        ("its outputs: half", "left: half", "distilled.left: a variant has that name"),
        ("its outputs: half", "its outputs: hlaf", "distilled.its outputs: there is no variant 'hlaf'"),
        ("search.order=verified]", "search.ordre=verified]", "searches: no variant takes search.ordre=verified"),
        ("training.max_updates: 1/2}\n  both", "training.max_updates: 1/0}\n  both", "training.max_updates"),
    ],
)
def test_what_is_wrong_with_a_chain_is_said_before_anything_runs(folder, old, new, said):
    (folder / "s.yaml").write_text(STUDY.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        study.run(folder / "s.yaml", folder / "runs")
    assert said in str(caught.value) and "s.yaml" in str(caught.value) and not (folder / "runs").exists()


def test_outputs_that_cannot_be_data_are_refused_before_anything_runs(folder):
    (folder / "s.yaml").write_text(STUDY.replace("its outputs: half", "its outputs: left"))
    with pytest.raises(ConfigError, match=r"variant .left. of language_model.yaml: .* cannot be replaced by outputs"):
        study.run(folder / "s.yaml", folder / "runs", yamls=[config_file.find("language_model")])
    assert not (folder / "runs").exists()


def test_a_share_of_updates_is_one_of_what_the_command_line_says(folder):
    cells = study._cells(study.load(folder / "s.yaml"), folder / "s.yaml", ["training.max_updates=20"])
    assert [own[-1] for *_, own in cells] == [f"training.max_updates={number}" for number in (20, 10, 5, 10)]


def test_rows_with_data_of_their_own_leave_out_how_the_others_are_generated(folder):
    (folder / "t.yaml").write_text(EXPERIMENT.replace("DATA", "miniworld") + "miniworld: {world: rich}\n")
    words = ["miniworld.words=50"]
    cells = study._cells(study.load(folder / "s.yaml", overrides=words), folder / "s.yaml", words)
    assert [name for name, _, own in cells if words[0] in own] == ["left", "begun", "half"]


def test_a_key_of_one_kind_of_decoder_reaches_its_rows_alone(folder):
    text = STUDY.replace("left: {}", "left: {strategy.kind: autoregressive}")
    (folder / "s.yaml").write_text(text.replace("half: {", "half: {strategy.kind: autoregressive, "))
    ratio = ["strategy.copy_ratio=0.5"]
    cells = study._cells(study.load(folder / "s.yaml", overrides=ratio), folder / "s.yaml", ratio)
    found = {name: config_file.load(yaml, own).strategy for name, yaml, own in cells}
    assert [getattr(one, "copy_ratio", None) for one in found.values()] == [None, 0.5, 0.5, None]


def test_what_no_name_is_in_braces_stays():
    assert chain.named({"a": "x{y}z{u}", "b": 3, "c": "plain"}) == ["y", "u"]
    assert chain.filled({"qa.note": "1/2", chain.UPDATES: 7}, {}, 100) == {"qa.note": "1/2", chain.UPDATES: 7}
