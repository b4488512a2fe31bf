"""Accuracy of tags, and F1 of the spans that they mark."""

import pytest
from task_tools import make_task

from seq2seq_suite.common.examples import Example
from seq2seq_suite.metrics.tags import score_tags


def test_spans_count_where_kind_and_both_ends_are_right():
    from seqeval.metrics import f1_score, precision_score, recall_score

    true = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-LOC"]]
    found = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O"]]
    figures = score_tags(true, found, spans=True).figures
    assert figures["span_f1"] == pytest.approx(100 * f1_score(true, found))
    assert figures["span_precision"] == pytest.approx(100 * precision_score(true, found))
    assert figures["span_recall"] == pytest.approx(100 * recall_score(true, found))
    assert make_task("tagging", tagging__spans=True).primary_metric == "span_f1"
    assert make_task("tagging").score([None], [("DT",)]).figures["accuracy"] == 0.0
    assert Example(("a",)).reference is None


def test_sentences_without_spans_have_no_share_of_them():
    figures = score_tags([["O", "O"]], [["O", "O"]], spans=True).figures
    assert figures["accuracy"] == 100.0
    assert "span_f1" not in score_tags([["O", "O"]], [["O", "O"]]).figures  # without being asked for
    assert figures["span_precision"] == figures["span_recall"] == figures["span_f1"] == 0.0


@pytest.mark.parametrize("spans", [False, True])
def test_an_output_of_another_number_of_tags_is_invalid_and_never_perfect(spans):
    true = [("B-PER", "O", "O"), ("O", "O", "O")]
    for found, accuracy in (([("B-PER",), ("O",)], 100 / 3), ([(*tags, "O") for tags in true], 0.0)):
        score = score_tags(true, found, spans=spans)
        assert score.figures["accuracy"] == pytest.approx(accuracy)
        assert score.figures["invalid_rate"] == 100.0 and score.figures["sentence_accuracy"] == 0.0
        assert score.figures.get("span_f1", 0.0) == 0.0 and score.notes[0].endswith("invalid: 1, 2")
    score = score_tags(true, [true[0], None], spans=spans)  # a failed output is no surprise
    assert score.figures["invalid_rate"] == 50.0 and not score.notes
