"""Figures of label sets against their definitions, computed here by counting."""

import random
from collections import Counter

import pytest

from seq2seq_suite.metrics.labels import score_labels

LABELS = ["a", "b", "c", "d", "e"]


def f1(matched: int, true: int, found: int) -> float:
    return 200.0 * matched / (true + found) if matched else 0.0


def by_counting(references: list[set[str]], predictions: list[set[str]]) -> dict[str, float]:
    pairs = list(zip(references, predictions, strict=True))
    matched, true, found = Counter(), Counter(), Counter()
    for reference, prediction in pairs:
        matched.update(reference & prediction)
        true.update(reference)
        found.update(prediction)
    return {
        "micro_f1": f1(matched.total(), true.total(), found.total()),
        "micro_precision": 100.0 * matched.total() / found.total(),
        "micro_recall": 100.0 * matched.total() / true.total(),
        "macro_f1": sum(f1(matched[label], true[label], found[label]) for label in LABELS) / len(LABELS),
        "samples_f1": sum(f1(len(one & two), len(one), len(two)) for one, two in pairs) / len(pairs),
        "hamming_loss": sum(len(one ^ two) for one, two in pairs) / len(pairs) / len(LABELS),
        "subset_accuracy": 100.0 * sum(one == two for one, two in pairs) / len(pairs),
    }


@pytest.mark.parametrize("seed", range(5))
def test_figures_equal_those_counted_by_hand(seed):
    chance = random.Random(seed)
    references, predictions = (
        [{label for label in LABELS[:-1] if chance.random() < share} for _ in range(40)] for share in (0.4, 0.5)
    )
    found = score_labels(references, predictions, labels=LABELS).figures
    for name, expected in by_counting(references, predictions).items():
        assert found[name] == pytest.approx(expected), name


def test_an_invalid_prediction_counts_as_empty_and_in_the_invalid_rate():
    references = [{"a"}, {"b"}]
    score = score_labels(references, [None, {"b"}], labels=LABELS)
    assert score.figures["micro_recall"] == 50.0
    assert score.figures["invalid_rate"] == 50.0
    assert score_labels(references, [set(), {"b"}], labels=LABELS).figures["invalid_rate"] == 0.0


def test_a_label_unknown_to_training_lowers_the_macro_average_instead_of_vanishing():
    score = score_labels([{"a"}, {"new"}], [{"a"}, {"a"}], labels=["a"])
    assert score.figures["macro_f1"] == pytest.approx(100 * (2 / 3) / 2)
    assert score.details["labels"]["new"] == (1, 0, 0)
    invented = score_labels([{"a"}], [{"a", "other", "new"}], labels=["a"])
    assert list(invented.details["labels"]) == ["a", "new", "other"]
    assert invented.figures["macro_f1"] == pytest.approx(100 / 3)
    assert score.signature.startswith("labels:2|")


def test_the_table_has_a_row_for_every_label_even_without_examples():
    table = score_labels([{"a", "b"}], [{"a", "c"}], labels=LABELS).details["per_label"]
    assert [row["label"] for row in table] == LABELS
    assert table[0] == {"label": "a", "precision": 100.0, "recall": 100.0, "f1": 100.0, "support": 1}
    assert table[1]["recall"] == 0.0 and table[4]["support"] == 0


def test_sequences_of_different_length_are_refused():
    with pytest.raises(ValueError, match="1 predictions for 2"):
        score_labels([{"a"}, {"b"}], [{"a"}], labels=LABELS)
    with pytest.raises(ValueError, match="nothing to score"):
        score_labels([], [], labels=LABELS)


def test_labels_and_examples_are_counted_one_by_one():
    score = score_labels([{"a", "b"}, {"a"}, {"c"}], [{"a"}, {"a", "b"}, {"a", "b"}], labels=LABELS)
    assert score.details["labels"] == {"a": (2, 3, 2), "b": (1, 2, 0), "c": (1, 0, 0), "d": (0, 0, 0), "e": (0, 0, 0)}
    assert score.counts == ((1, 2, 1), (1, 1, 2), (0, 1, 2))
    assert score.figures["labels_per_example"] == pytest.approx(5 / 3)
    assert score.details["per_label"][0] == {
        "label": "a",
        "precision": 66.67,
        "recall": 100.0,
        "f1": 80.0,
        "support": 2,
    }


@pytest.mark.parametrize("labels", [["a"], []])
def test_one_label_or_none_is_counted_as_many_are(labels):
    """scikit-learn takes a matrix of one column for two classes, right ones among the empty."""
    references, predictions = [set(labels), set(), set(labels), set()], [set(labels), set(labels), set(), set()]
    figures = score_labels(references, predictions, labels=labels).figures
    wanted = 50.0 if labels else 0.0
    assert figures["micro_f1"] == figures["macro_f1"] == wanted
    assert figures["samples_f1"] == wanted / 2 and figures["subset_accuracy"] == (50.0 if labels else 100.0)
    assert figures["hamming_loss"] == (0.5 if labels else 0.0)
