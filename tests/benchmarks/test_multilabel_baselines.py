"""The linear baselines run on a folder and fall back as they say."""

import json

import numpy as np
import pytest

from benchmarks.multilabel_baselines import choose, decision_values, main

PAIRS = (
    ("OIL UP . oil price rose", ["crude"]),
    ("WHEAT . wheat corn fell", ["grain"]),
    ("BOTH . oil and wheat", ["crude", "grain"]),
    ("GOLD . gold price", ["gold"]),
)


@pytest.fixture
def folder(tmp_path):
    for split, times in (("train", 5), ("validation", 1), ("test", 2)):
        rows = [{"text": text, "labels": labels} for text, labels in PAIRS * times]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_every_system_gets_a_row_and_learns_separable_texts(folder, capsys):
    main(
        [
            "--data",
            str(folder),
            "--title",
            "--logistic-c",
            "100",
            "--svm-c",
            "10",
            "--ngrams",
            "2",
            "--output",
            str(folder / "out.md"),
        ]
    )
    table = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")][2:]
    assert [row[1].split(",")[0].split(" C")[0].strip() for row in table] == ["SVM", "SVM", "SVM", "logistic"]
    assert all(float(row[2]) == 100.0 for row in table)
    assert str(folder.parent) not in (folder / "out.md").read_text()


def test_the_fallback_is_the_label_of_the_highest_score():
    values = np.array([[-0.5, -0.2], [0.1, 0.3]])
    assert choose(values, ["a", "b"], 0.0, top=False) == [(), ("a", "b")]
    assert choose(values, ["a", "b"], 0.0, top=True) == [("b",), ("a", "b")]


def test_a_label_never_seen_in_training_is_never_fired():
    scores = decision_values(np.eye(2), np.array([[0], [0]]), np.eye(2), None)
    assert (scores < -1e8).all()
