"""Tags and repeated examples are counted as by hand."""

import json

import pytest

from benchmarks import counts
from seq2seq_suite.common.examples import Example


def test_the_most_frequent_tag_of_a_word_or_of_all():
    train = [
        Example(("The", "fish"), ("D", "N")),
        Example(("the", "fish", "fish"), ("X", "N", "V")),
        Example(("THE", "cat"), ("X", "N")),
    ]
    test = [Example(("The", "new", "fish"), ("D", "N", "N"))]
    assert counts.frequent_tags(train, test) == pytest.approx(100.0)
    assert counts.frequent_tags(train, test, lower=True) == pytest.approx(100.0 * 2 / 3)  # `the` is X twice, D once


def test_questions_with_their_story_that_training_has_are_counted_by_category(tmp_path, capsys):
    def row(question: str, task: str) -> str:
        return json.dumps({"question": question, "context": "Tom sat. Ann left.", "answer": "Tom", "task": task}) + "\n"

    (tmp_path / "train.jsonl").write_text(row("Who sat?", "1") + row("Who ran?", "2"))
    (tmp_path / "test.jsonl").write_text(row("Who sat?", "1") + row("Who left?", "1") + row("Who stood?", "2"))
    counts.main(["repeats", "tasks/qa.yaml", f"data.path={tmp_path}", "data.test_splits=[test]"])
    assert capsys.readouterr().out.splitlines()[2:] == ["| test | 1 | 1 | 2 | 50.0 |", "| test | 2 | 0 | 1 | 0.0 |"]
