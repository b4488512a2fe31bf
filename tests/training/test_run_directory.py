import json
from pathlib import Path

import numpy
import pytest

from seq2seq_suite.training.run_directory import RunDirectory, provenance
from seq2seq_suite.types import ConfigError


def create(path: Path, *, resume: bool = False, overwrite: bool = False) -> RunDirectory:
    return RunDirectory.create(path, resume=resume, overwrite=overwrite)


def rows(run: RunDirectory) -> list[dict]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()]


def test_a_new_or_empty_directory_is_taken(tmp_path):
    assert create(tmp_path / "a" / "b").path.is_dir()
    assert create(tmp_path / "a" / "b").path.is_dir()
    assert create(tmp_path / "a" / "b", overwrite=True).path.is_dir()


def test_a_directory_in_use_is_refused_and_both_flags_are_named(tmp_path):
    create(tmp_path).write_config("task: parsing\n")
    with pytest.raises(ConfigError, match="not empty") as caught:
        create(tmp_path)
    assert "--resume" in str(caught.value) and "--overwrite" in str(caught.value)
    assert create(tmp_path, resume=True).config.read_text() == "task: parsing\n"


def test_resuming_needs_a_run_and_excludes_overwriting(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigError, match="no run to resume"):
            create(path, resume=True)
    assert not (tmp_path / "absent").exists()
    with pytest.raises(ConfigError, match="exclude each other"):
        create(tmp_path, resume=True, overwrite=True)


def test_overwriting_deletes_a_run_and_nothing_else(tmp_path):
    run = create(tmp_path / "run")
    run.write_config("x")
    run.append_metrics({"update": 1})
    run.checkpoints.mkdir()
    (run.checkpoints / "weights").write_text("w")
    assert list(create(run.path, overwrite=True).path.iterdir()) == []

    for names in (["config.yaml", "thesis.tex"], ["checkpoints"], ["notes"]):
        folder = tmp_path / names[-1]
        folder.mkdir()
        for name in names:
            (folder / name).write_text("precious")
        with pytest.raises(ConfigError, match="not deleted"):
            create(folder, overwrite=True)
        assert sorted(entry.name for entry in folder.iterdir()) == sorted(names)


def test_a_run_that_failed_before_its_configuration_was_written_can_be_overwritten(tmp_path):
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "words.txt").write_text("a")
    assert list(create(tmp_path, overwrite=True).path.iterdir()) == []


def test_a_file_in_the_place_of_a_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError):
            create(path)


def test_metrics_are_strict_json_without_nan(tmp_path):
    run = create(tmp_path)
    run.append_metrics({"update": 1, "loss": float("nan"), "inner": [float("inf"), 1.5], "f1": numpy.float32(0.5),
                        "count": numpy.int64(3)})
    run.append_metrics({"update": 2, "word": "größer"})
    assert rows(run) == [{"update": 1, "loss": None, "inner": [None, 1.5], "f1": 0.5, "count": 3},
                         {"update": 2, "word": "größer"}]
    assert "größer" in run.metrics.read_text(encoding="utf-8") and "NaN" not in run.metrics.read_text()


def test_rows_beyond_the_checkpoint_and_a_row_cut_short_are_dropped(tmp_path):
    run = create(tmp_path)
    run.truncate_metrics(3, validated=3)
    for update in (1, 2, 3, 4):
        run.append_metrics({"update": update})
    with run.metrics.open("a") as file:
        file.write('{"update": 2, "lo')
    run.truncate_metrics(2, validated=2)
    run.append_metrics({"update": 3, "again": True})
    assert rows(run) == [{"update": 1}, {"update": 2}, {"update": 3, "again": True}]


def test_log_summary_and_predictions_are_written(tmp_path):
    run = create(tmp_path)
    run.log("first")
    run.log("second")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert [line.split("  ", 1)[1] for line in lines] == ["first", "second"] and lines[0][:2] == "20"
    run.write_summary({"splits": {"test": {"f1": 90.0}}})
    assert json.loads(run.summary.read_text())["splits"]["test"]["f1"] == 90.0
    run.write_predictions("test", [{"prediction": "(S a)"}, {"prediction": None}])
    assert (tmp_path / "predictions" / "test.jsonl").read_text() == '{"prediction": "(S a)"}\n{"prediction": null}\n'


def test_provenance_names_versions_machine_and_command_and_keeps_earlier_starts(tmp_path):
    facts = provenance(["run", "a.yaml"], 3, {"train": "abc"})
    assert facts["command"] == ["run", "a.yaml"] and facts["seed"] == 3 and facts["data"] == {"train": "abc"}
    assert set(facts["versions"]) == {"seq2seq_suite", "python", "torch", "numpy"} and facts["time"].endswith("+00:00")
    assert facts["cpu"] and facts["threads"] >= 1 and isinstance(facts["commit"], str)
    run = create(tmp_path)
    for seed in (1, 2, 3):
        run.write_provenance({"seed": seed})
    assert json.loads(run.provenance.read_text()) == {"seed": 3, "earlier": [{"seed": 1}, {"seed": 2}]}
