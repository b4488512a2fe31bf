"""A split is scored where the data have it; no row of training is scored as another split without a word."""

import json
from pathlib import Path

import pytest

from seq2seq_suite import miniworld
from seq2seq_suite.cli import app as cli
from seq2seq_suite.config.config_file import load
from seq2seq_suite.config.schema import Data
from seq2seq_suite.tasks import TASKS, find_task
from seq2seq_suite.tasks.rows import splits_elsewhere

TINY = [
    "device=cpu",
    "training.max_updates=2",
    "training.validate_every=2",
    "training.save_every=2",
    "training.threads=1",
    "backbone.width=16",
    "backbone.feed_forward_width=16",
    "backbone.num_heads=2",
    "backbone.encoder_layers=1",
    "backbone.decoder_layers=1",
]
PAGES = Path(__file__).parents[2] / "tasks"
CUT = "data.split={validation: 0.2, test: 0.2}"
ROWS = 30
# preset -> view of miniworld, and the split that only miniworld has
PRESETS = {
    name: (view, own)
    for name in TASKS
    if find_task(name).view in miniworld.TEXTS
    and (data := load(PAGES / f"{name}.yaml").data)
    and (own := miniworld.VIEWS[view := data.subset or find_task(name).view][-1]) in data.test_splits
}


def rows_of(view, number=ROWS):
    return [row for row, _ in zip(miniworld.rows(view, "train", size=200), range(number), strict=False)]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def said(capsys, *arguments, code=0):
    assert cli.main(list(arguments)) == code, capsys.readouterr()
    captured = capsys.readouterr()
    return captured.err if code else captured.out


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_s_split_that_only_miniworld_has_falls_away_with_other_data(tmp_path, capsys, preset):
    view, own = PRESETS[preset]
    file = write(tmp_path / "all.jsonl", rows_of(view))
    out = said(capsys, "check", preset, f"data.path={file}", CUT, *TINY)
    assert f"data.test_splits without {own}: miniworld has this, {file} has not" in out
    assert f"{own} also in train" not in out and "test also in train" in out


@pytest.mark.parametrize("preset", PRESETS)
def test_check_refuses_a_split_that_a_single_file_has_not(tmp_path, capsys, preset):
    view, _ = PRESETS[preset]
    file = write(tmp_path / "all.jsonl", rows_of(view))
    some = ["data.split={validation: 0.2}"]
    for cut, split in ([], "validation"), (some, "test"), ([CUT, "data.test_splits=[more]"], "more"):
        assert f"{file}: no split '{split}'" in said(capsys, "check", preset, f"data.path={file}", *cut, *TINY, code=2)


def parallel(folder, splits):
    folder.mkdir()
    for language in ("en", "de"):
        text = "".join(f"{row[language]}\n" for row in rows_of("translations"))
        for split in splits:
            (folder / f"{split}.{language}").write_text(text)
    return folder


def test_parallel_text_without_splits_is_a_single_file_too(tmp_path, capsys):
    corpus = parallel(tmp_path / "text", ["corpus"]) / "corpus"
    arguments = ["check", "translation", f"data.path={corpus}", *TINY]
    assert "compositional also in train" not in said(capsys, *arguments, CUT)
    assert "no split 'test'" in said(capsys, *arguments, "data.split={validation: 0.2}", code=2)


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_keeps_the_split_that_it_has(tmp_path, capsys, there):
    splits = ["train", "validation", "test", *(["compositional"] if there else [])]
    folder = parallel(tmp_path / "text", splits)
    out = said(capsys, "check", "translation", f"data.path={folder}", *TINY)
    assert ("compositional also in train" in out) == there and ("data.test_splits without" in out) != there


def test_a_data_set_of_the_hub_has_a_split_of_miniworld_s_name_if_that_is_said():
    splits = ("test", "compositional", "longer", "other")
    hub = {"path": "owner/name", "test_splits": splits}
    assert splits_elsewhere(Data(**hub)) == ["compositional", "longer"]
    assert splits_elsewhere(Data(**hub, splits={"longer": "long[:10%]"}, split={"compositional": 0.1})) == []
    assert splits_elsewhere(Data(test_splits=splits)) == []


def test_run_and_evaluate_score_the_rows_of_a_file_once(tmp_path, capsys):
    """Every row of the file is in one split; what the file has not is refused by run and by evaluate as by check."""
    file, run = write(tmp_path / "all.jsonl", rows_of("trees")), tmp_path / "run"
    given = [f"data.path={file}", *TINY, "--output", str(run)]
    assert "no split 'test'" in said(capsys, "run", "parsing", "data.split={validation: 0.2}", *given, code=2)
    out = said(capsys, "run", "parsing", CUT, *given)
    assert "data.test_splits without compositional" in out and "resuming" not in out
    summary = json.loads((run / "summary.json").read_text())
    assert list(summary["splits"]) == ["test", "validation"]
    found = {
        split: [json.loads(row)["origin"] for row in (run / "predictions" / f"{split}.jsonl").open()]
        for split in ("test", "validation")
        if said(capsys, "evaluate", str(run), "--split", split)
    }
    trained = int(out.partition("training on ")[2].partition(" ")[0])
    assert trained + sum(map(len, found.values())) == ROWS and not set(found["test"]) & set(found["validation"])
    assert "resuming with" not in said(capsys, "run", "parsing", CUT, *given, "--resume")
    assert "no split 'compositional'" in said(capsys, "evaluate", str(run), "--split", "compositional", code=2)
    more = write(tmp_path / "more.jsonl", rows_of("trees", 3))
    assert said(capsys, "evaluate", str(run), "--data", str(more)).split()[:2] == ["metric", "test-more"]
    assert len((run / "predictions" / "test-more.jsonl").read_text().splitlines()) == 3
    assert list(json.loads((run / "summary.json").read_text())["splits"]) == ["test", "validation"]
