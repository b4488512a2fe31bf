"""The verbs: what a run leaves behind, and that every way to the model gives the same figures."""

import json
import math
import shutil

import numpy as np
import pytest
import yaml
from safetensors import safe_open
from small_run import small_config, start, write_rows, write_trees

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.examples import Encoded
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import verbs
from seq2seq_suite.experiments.resuming import fingerprint
from seq2seq_suite.prediction import load_run as opening
from seq2seq_suite.report.compared import differences
from seq2seq_suite.report.variants import settings
from seq2seq_suite.runs.records import read_predictions
from seq2seq_suite.studies.compare import compare_runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_trees(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    directory = tmp_path_factory.mktemp("run") / "run"
    start(small_config(folder, max_updates=30, learning_rate=1e-2), directory)
    return directory


def evaluate(directory, *overrides, split="test", data=None):
    return verbs.evaluate(directory, split=split, data=data, overrides=list(overrides))


def test_a_run_leaves_everything_it_promises(run):
    assert {path.name for path in run.iterdir()} == {
        "config.yaml",
        "provenance.json",
        "metrics.jsonl",
        "log.txt",
        "summary.json",
        "checkpoints",
        "vocabulary",
        "predictions",
        "inspection",
        "report.html",
    }
    assert {path.name for path in (run / "checkpoints").iterdir()} >= {"best", "last"}
    for name in ("best", "last"):
        with safe_open(run / "checkpoints" / name / "model.safetensors", "pt") as file:
            assert file.keys()
    assert not [path for path in run.rglob("*") if path.suffix in (".pt", ".pth", ".pkl", ".bin")]
    assert not [path for path in run.rglob(".*")]


def test_the_summary_has_its_keys(run):
    summary = json.loads((run / "summary.json").read_text())
    assert summary.keys() == {
        "task",
        "primary_metric",
        "higher_is_better",
        "splits",
        "signature",
        "formula",
        "failures",
        "intervals",
        "search",
        "seconds",
        "updates",
        "best_update",
        "tokens",
        "parameters",
        "core_parameters",
        "learning_parameters",
        "tokens_per_second",
        "peak_memory_mb",
        "phase_seconds",
        "baselines",
        "baseline",
        "ceiling",
        "decoding",
        "likelihood",
    }
    phases = summary["phase_seconds"]
    assert list(phases) == ["data", "train", "validation", "test"] and min(phases.values()) >= 0
    assert phases["train"] + phases["validation"] == pytest.approx(summary["seconds"], abs=0.02)
    assert 50 < summary["peak_memory_mb"] < 100_000
    assert 0 < summary["core_parameters"] < summary["parameters"] and summary["tokens"] > 0
    assert summary["failures"]["test"].keys() == {"invalid", "empty", "repeated", "truncated"}
    assert summary["splits"].keys() == {"test", "validation"}
    assert summary["splits"]["test"]["invalid_rate"] == 0.0 and summary["signature"].startswith("evalb|")
    assert summary["parameters"] > 0 and summary["updates"] == 30 and math.isfinite(summary["tokens_per_second"])


def test_evaluating_gives_the_run_s_own_figures(run):
    summary = json.loads((run / "summary.json").read_text())
    before = (run / "predictions" / "test.jsonl").read_bytes()
    assert evaluate(run)["splits"]["test"] == summary["splits"]["test"]
    assert (run / "predictions" / "test.jsonl").read_bytes() == before
    validation = evaluate(run, split="validation")["splits"]["validation"]
    assert validation["f1"] == summary["splits"]["validation"]["f1"]


@pytest.mark.parametrize("override", ["search.batch_sentences=1", "search.batch_sentences=3", "search.beam_size=2"])
def test_figures_do_not_depend_on_how_many_are_decoded_together(run, folder, tmp_path, override):
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    reference = evaluate(copy, *(["search.beam_size=2", "search.batch_sentences=1"] if "beam" in override else []))
    assert evaluate(copy, override)["splits"] == reference["splits"]


def test_other_data_can_be_evaluated_and_the_run_s_predictions_stay(run, tmp_path):
    from seq2seq_suite.prediction.open_task import open_task

    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    before = (copy / "predictions" / "test.jsonl").read_bytes()
    task = open_task("parsing", small_config(copy))
    loaded = opening.open_run(copy, [])
    sentence = task.from_text("the cat sleeps .")
    tree = next(loaded.predict([sentence]))[0][0]
    write_rows(tmp_path / "other.jsonl", [str(tree)])
    figures = evaluate(copy, data=str(tmp_path / "other.jsonl"))["splits"]["test-other"]
    assert figures["f1"] == 100.0 and figures["exact_match"] == 100.0
    assert (copy / "predictions" / "test.jsonl").read_bytes() == before
    assert len((copy / "predictions" / "test-other.jsonl").read_text().splitlines()) == 1


def test_predictions_come_in_the_order_of_the_input_and_equal_those_of_one_at_a_time(run):
    loaded = opening.open_run(run, ["search.batch_sentences=3"])
    examples = [
        loaded.task.from_text(text)
        for text in (
            "a dog",
            "The man and a woman go to Berlin .",
            "cats",
            "These girls painted the mouse .",
            "a word unheard of",
            "The happy man sleeps on Saturday .",
            "dogs bark",
        )
    ]
    together = list(loaded.predict(examples))
    for example, hypotheses in zip(examples, together, strict=True):
        ((tree, score),) = next(loaded.predict([example]))
        assert tuple(tree.words()) == example.source
        assert hypotheses[0][0] == tree and hypotheses[0][1] == pytest.approx(score, abs=1e-4)


def test_several_hypotheses_come_best_first(run):
    loaded = opening.open_run(run, [])
    (hypotheses,) = loaded.predict([loaded.task.from_text("The man goes to Berlin .")], num_hypotheses=4)
    assert len(hypotheses) == 4 and len({str(tree) for tree, _ in hypotheses}) == 4
    assert [score for _, score in hypotheses] == sorted((score for _, score in hypotheses), reverse=True)


def test_rows_of_predictions_carry_their_own_figures(run):
    rows = [json.loads(line) for line in (run / "predictions" / "test.jsonl").read_text().splitlines()]
    assert len(rows) == 8
    for row in rows:
        assert row.keys() == {
            "source",
            "reference",
            "prediction",
            "origin",
            "counts",
            "figures",
            "equal",
            "kinds",
            "length",
            "facts",
        }
        assert 0.0 <= row["figures"]["f1"] <= 100.0
        assert row["prediction"] != row["reference"] or row["figures"]["f1"] == 100.0
    details = json.loads((run / "predictions" / "test.details.json").read_text())
    assert details["labels"] and len(details["sentences"]) == 8


def test_another_model_task_or_data_is_refused_when_resuming(run, folder, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    values = small_config(folder, max_updates=30, learning_rate=1e-2).model_dump()
    for section, changes, key in (
        ("backbone", {"width": 64}, "backbone.width"),
        ("parsing", {"guide": False}, "parsing.guide"),
        ("data", {"path": "miniworld"}, "data.path"),
    ):
        with pytest.raises(ConfigError, match=key) as caught:
            start(Config.model_validate({**values, section: {**values[section], **changes}}), copy, resume=True)
        assert "--overwrite" in str(caught.value)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_changed_data_are_refused_when_resuming(tmp_path, split):
    folder = write_trees(tmp_path / "data")
    config = small_config(folder, max_updates=2)
    start(config, tmp_path / "run")
    before = (tmp_path / "run" / "provenance.json").read_bytes()
    lines = (folder / f"{split}.jsonl").read_text().splitlines(keepends=True)
    (folder / f"{split}.jsonl").write_text("".join(lines[1:]))
    with pytest.raises(DataError, match=f"the split '{split}' is no longer"):
        start(small_config(folder, max_updates=3), tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "provenance.json").read_bytes() == before


@pytest.mark.parametrize("changed", ["source", "target", "tags", "ctc"])
def test_the_hash_of_a_split_tells_whatever_is_learned_from(changed):
    values = {name: np.arange(4) for name in ("source", "target", "tags", "ctc")}
    one, other = (
        fingerprint(
            [Encoded(given["source"], given["target"], auxiliary={name: given[name] for name in ("tags", "ctc")})]
        )
        for given in (values, values | {changed: np.arange(1, 5)})
    )
    assert one != other


def test_a_directory_that_is_no_run_and_a_run_without_checkpoint_are_refused(run, tmp_path):
    with pytest.raises(DataError, match=r"no config\.yaml"):
        opening.open_run(tmp_path, [])
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(DataError, match="no checkpoint"):
        opening.open_run(copy, [])
    broken = shutil.copytree(run, tmp_path / "broken", symlinks=True)
    path = broken / "checkpoints" / "best" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="truncated: 100 of"):
        opening.open_run(broken, [])


def test_a_missing_test_split_is_found_before_training(tmp_path):
    folder = write_trees(tmp_path / "data")
    (folder / "test.jsonl").unlink()
    with pytest.raises(DataError, match="test"):
        start(small_config(folder), tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_the_same_seed_gives_the_same_run_and_another_seed_another(run, folder, tmp_path):
    config = small_config(folder, max_updates=2)
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        start(Config.model_validate({**config.model_dump(), "seed": seed}), tmp_path / name)
    one, two, three = (
        (tmp_path / name / "checkpoints" / "last" / "model.safetensors").read_bytes()
        for name in ("one", "two", "three")
    )
    assert one == two != three


def test_a_run_without_test_splits_has_its_validation_figures(folder, tmp_path):
    config = small_config(folder, max_updates=2)
    summary = start(
        config.model_copy(update={"data": config.data.model_copy(update={"test_splits": ()})}), tmp_path / "run"
    )
    assert list(summary["splits"]) == ["validation"] and summary["signature"] == summary["formula"] == ""
    assert (tmp_path / "run" / "report.html").is_file()
    evaluate(tmp_path / "run")
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert list(found["splits"]) == ["validation", "test"] and list(found["failures"]) == ["test"]
    assert compare_runs([tmp_path / "run"], measure=False).rows[0].split == "test"


def test_the_summary_says_what_the_predictions_say(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    before = json.loads((copy / "summary.json").read_text())
    evaluate(copy)
    again = json.loads((copy / "summary.json").read_text())
    took, before_took = again["decoding"].pop("test"), before["decoding"].pop("test")
    assert again == before and took | {"milliseconds_per_sentence": 0} == before_took | {"milliseconds_per_sentence": 0}
    found, name = (
        evaluate(copy, "search.max_length_factor=0.01", "search.max_length_extra=1"),
        "test@max_length_factor=0.01,max_length_extra=1",
    )
    after = json.loads((copy / "summary.json").read_text())
    assert list(found["splits"]) == [name] and after["splits"] == before["splits"] | found["splits"]
    assert after["failures"][name]["truncated"] == 100.0 and after["intervals"][name] == found["intervals"][name]
    assert after["settings"] == {name: {"search.max_length_factor": 0.01, "search.max_length_extra": 1}}
    assert after["failures"]["test"] == before["failures"]["test"] and after["signature"] == before["signature"]
    assert (copy / "predictions" / "test.jsonl").read_bytes() == (run / "predictions" / "test.jsonl").read_bytes()
    written = [json.loads(line)["prediction"] for line in (copy / "predictions" / f"{name}.jsonl").open()]
    assert len(written) == 8 and written != [row.prediction for row in read_predictions(copy, "test")]


def test_every_combination_of_settings_has_a_row(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    grid = ["search.beam_size=1,2", "search.max_length_extra=1,20"]
    assert cli.main(["evaluate", str(copy), *grid]) == 0
    names = ["test@max_length_extra=1", "test", "test@beam_size=2,max_length_extra=1", "test@beam_size=2"]
    header, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == names and header[0] == "split" and "passes per symbol" in " ".join(header)
    summary = json.loads((copy / "summary.json").read_text())
    assert set(names) <= set(summary["splits"]) and set(summary["settings"]) == set(names) - {"test"}
    assert set(names) <= set(summary["decoding"])
    assert not list((copy / "inspection").glob("*@*")) and names[-1] in (copy / "report.html").read_text()
    assert evaluate(copy, "search.beam_size=2")["splits"] == {"test@beam_size=2": summary["splits"]["test@beam_size=2"]}
    assert cli.main(["evaluate", str(copy), "search.beam_size=3,4"]) == 0
    assert "test@beam_size=4" in (copy / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["search.beam_size=2,0"], "search.beam_size"),
        (["search.batch_sentences=1,64"], "search.batch_sentences=64 has the outputs of search.batch_sentences=1"),
        (["search.beam_size=2,2"], "given 2 times"),
    ],
)
def test_a_wrong_combination_is_found_before_any_is_decoded(run, tmp_path, capsys, given, said):
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    assert cli.main(["evaluate", str(copy), *given]) == 2
    assert said in capsys.readouterr().err
    assert (copy / "summary.json").read_bytes() == (run / "summary.json").read_bytes()


def test_a_row_of_other_settings_is_on_all_pages_and_tested_against_the_run_s_own(run, tmp_path, capsys):
    copy, name = shutil.copytree(run, tmp_path / "run", symlinks=True), "test@beam_size=2"
    assert cli.main(["evaluate", str(copy), "search.beam_size=2", "search.batch_sentences=3"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["metric", name]
    summary = json.loads((copy / "summary.json").read_text())
    found = compare_runs([copy, run], measure=False)
    assert [(row.run, row.split, row.figure) for row in found.rows] == [
        (f"{copy.parent.name}/run", "test", summary["splits"]["test"]["f1"]),
        (f"{copy.parent.name}/run@beam_size=2", name, summary["splits"][name]["f1"]),
        (f"{run.parent.name}/run", "test", summary["splits"]["test"]["f1"]),
    ]
    assert len(found.pairs) == 3
    assert cli.main(["compare", str(copy), "--html", str(tmp_path / "page.html")]) == 0
    assert "run@beam_size=2" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text()
    assert f">{name}</td>" in page
    rows = found.plain()["rows"][:2]
    assert differences(settings(rows))["rows"] == [("search.beam_size", "1", "2")]  # no seeds of one
    report = (copy / "report.html").read_text()
    assert f'<th scope="col">{name}</th>' in report and f" of {name}" not in report
    assert compare_runs([copy], split=name, measure=True).rows[0].latency_ms > 0
    assert cli.main(["export", str(copy), str(tmp_path / "card"), "--to", "model-card"]) == 0
    head = next(yaml.safe_load_all((tmp_path / "card" / "README.md").read_text()))
    of_split = [one for one in head["model-index"][0]["results"] if name in one["dataset"]["name"]]
    assert [one["dataset"]["split"] for one in of_split] == ["test"]
    assert of_split[0]["metrics"][0]["args"] == {"search.beam_size": 2}
    assert f"| {name} | " in (tmp_path / "card" / "README.md").read_text()


def test_figures_of_the_run_s_own_settings_never_change_in_silence(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "run", symlinks=True)
    evaluate(copy)
    assert not capsys.readouterr().err
    summary = json.loads((copy / "summary.json").read_text())
    summary["splits"]["test"]["f1"] = 12.3456
    (copy / "summary.json").write_text(json.dumps(summary))
    evaluate(copy)
    assert "test: f1 was 12.35 in" in capsys.readouterr().err


def test_settings_too_long_for_a_file_s_name_have_different_names_that_fit():
    names = [verbs._suffix({"search.rescorer": f"{'a/' * 200}{end}"}) for end in ("one", "two")]
    assert len(set(names)) == 2 and max(map(len, names)) < 120 and "/" not in "".join(names)
