"""The study of options runs real variants, keeps what is done and refuses names it does not know."""

import json
from pathlib import Path

import pytest

from benchmarks import worth
from seq2seq_suite.config import config_file

QUICK = [
    "training.max_updates=2",
    "training.validate_every=2",
    "backbone.width=16",
    "backbone.feed_forward_width=16",
    "backbone.num_heads=2",
    "device=cpu",
]


@pytest.mark.slow
def test_a_study_ends_in_a_table_and_keeps_its_runs(tmp_path, capsys):
    asked = {"question": "Who sat?", "context": "Tom sat. Ann left.", "answer": "Tom"}
    for split in ("train", "validation"):
        (tmp_path / f"{split}.jsonl").write_text((json.dumps(asked) + "\n") * 4, encoding="utf-8")
    table = tmp_path / "table.md"
    command = [
        "tasks/qa.yaml",
        f"data.path={tmp_path}",
        *QUICK,
        "--variants",
        worth.WHOLE,
        "AdamW alone",
        "--threads",
        "1",
        "--runs",
        str(tmp_path / "runs"),
        "--output",
        str(table),
    ]
    worth.main(command)
    lines = table.read_text(encoding="utf-8").splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| ")][2:] == [worth.WHOLE, "AdamW alone"]
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("summary.json")}
    assert len(times) == 2
    worth.main(command)
    assert times == {path: path.stat().st_mtime_ns for path in times}


def test_an_unknown_variant_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        worth.main(["tasks/qa.yaml", "--variants", "AdamW"])
    assert caught.value.code == 2 and "choose from as in the YAML" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("qa-fairytale", "tokens, not sentences"),  # as it is
        ("translation-nat", "inputs from its own output"),
    ],
)  # only left to right
def test_a_variant_that_changes_nothing_or_cannot_be_is_no_choice(preset, name, capsys):
    with pytest.raises(SystemExit):
        worth.main([f"tasks/{preset}.yaml", "--variants", name])
    refused, choices = capsys.readouterr().err.split("choose from")
    assert f"none of this YAML: {name}" in refused
    assert "AdamW alone" in choices and name not in choices


@pytest.mark.slow
@pytest.mark.parametrize(("task", "name"), [(task, name) for task, names in worth.VARIANTS.items() for name in names])
def test_every_variant_changes_a_preset_of_its_task(task, name):
    presets = [path for path in Path("tasks").glob(f"{task}*.yaml") if not path.stem.endswith(("-nat", "-gpt"))]
    assert any(
        config_file.load(preset, list(worth.VARIANTS[task][name])) != config_file.load(preset) for preset in presets
    )
