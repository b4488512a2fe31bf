"""Summarisation: one vocabulary for texts and summaries, and summaries that say where people are."""

import pytest
from task_tools import make_task, write_rows

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.types import END, Hypothesis
from seq2seq_suite.miniworld.stories import summaries

ROWS = [
    {"text": "Tom went to the park. Anna left it.", "summary": "Tom is in the park."},
    {"text": "Anna ran to the school. Tom came, too.", "summary": "Anna is in the school."},
]


def fitted(tmp_path, **keys):
    task = make_task(
        "summarisation", data={"path": write_rows(tmp_path, ROWS)}, summarisation__subwords="characters", **keys
    )
    examples = task.read("train")
    task.fit(examples)
    return task, examples


def test_encoding_and_reading_back_gives_the_summary(tmp_path):
    task, examples = fitted(tmp_path)
    task.save(tmp_path / "kept")
    other = make_task("summarisation", summarisation__subwords="characters")
    other.load(tmp_path / "kept")
    assert other.shape() == task.shape() and task.shape().source.shared
    for example, item, row in zip(examples, other.encode(examples), ROWS, strict=True):
        assert task.source.pieces.decode(item.source[:-1].tolist()) == row["text"] and item.source[-1] == END
        assert task.read_hypothesis(Hypothesis(tuple(item.target[:-1].tolist()), 0.0), example) == row["summary"]
        assert task.row(example, row["summary"]) == row


def test_columns_are_named_by_the_options(tmp_path):
    with pytest.raises(DataError, match=r"train\.jsonl:1: no column article") as caught:
        fitted(tmp_path, summarisation__text_column="article")
    assert "summarisation.text_column" in caught.value.remedy
    with pytest.raises(DataError, match="a text of 35 characters"):
        make_task(
            "summarisation",
            data={"path": write_rows(tmp_path, ROWS), "max_length": 34},
            summarisation__subwords="characters",
        ).read("train")


def test_a_summary_without_a_bigram_is_named():
    pytest.importorskip("rouge_score", reason="comes with the extra `summarisation`")
    assert "1 of 1 references has fewer than two words" in make_task("summarisation").score(["cat"], ["cat"]).notes[0]


def test_the_embedded_summary_says_where_the_story_leaves_its_people():
    for story, summary in summaries("test", sizes={"test": 200}):
        for sentence in summary.split(". "):
            place = sentence.rstrip(".").rpartition(" ")[2]
            people = sentence.replace(" and ", ", ").partition(" is " if " is " in sentence else " are ")[0]
            assert place in story and all(person in story for person in people.split(", "))
    summary_of = dict(summaries("test", sizes={"test": 200}))
    assert len(summary_of) == 200 and all("in the" in summary for summary in summary_of.values())
