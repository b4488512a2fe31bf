"""Error rates against a plain edit distance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("jiwer", reason="comes with the extra `speech`")

from seq2seq_suite.metrics.error_rate import error_rates, normalise
from seq2seq_suite.metrics.significance import FORMULAS


def distance(first, second) -> int:
    row = list(range(len(second) + 1))
    for i, one in enumerate(first, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (one != other))
    return row[-1]


SENTENCES = st.lists(st.sampled_from(["go", "to", "two", "now", "a"]), min_size=1, max_size=6).map(" ".join)


@given(st.lists(st.tuples(SENTENCES, SENTENCES | st.just("")), min_size=1, max_size=6))
def test_rates_are_edit_distances_over_the_corpus(pairs):
    references, predictions = zip(*pairs, strict=True)
    score = error_rates(predictions, references)
    errors = [distance(gold.split(), found.split()) for gold, found in pairs]
    words = [len(gold.split()) for gold in references]
    assert score.figures["wer"] == pytest.approx(100 * sum(errors) / sum(words))
    assert score.figures["cer"] == pytest.approx(
        100 * sum(distance(gold, found) for gold, found in pairs) / sum(map(len, references))
    )
    parts = sum(score.figures[name] for name in ("substitutions", "deletions", "insertions"))
    assert parts == pytest.approx(score.figures["wer"])
    assert [list(row) for row in score.counts] == [[e, n] for e, n in zip(errors, words, strict=True)]
    assert FORMULAS[score.formula](sum_of(score.counts))[0] == pytest.approx(score.figures["wer"])


def sum_of(counts):
    import numpy as np

    return np.array(counts).sum(0, keepdims=True)


def test_case_and_punctuation_do_not_count():
    assert error_rates(["it's ten."], ["IT'S TEN!"]).figures["wer"] == 0.0
    assert normalise("5 + 3 = 8 €!") == "5 3 8"
    for sign in "‘’‛ʹʻʼ´`′＇｀՚":
        assert normalise(f"Don{sign}t, {sign}no{sign}!") == "don't no"
        assert error_rates([f"don{sign}t"], ["don't"]).figures["wer"] == 0
    for quotes in ("“”", "„“", "«»", "‹›", "‚‘", "‘’", "''", '""', "「」", "″″"):
        assert normalise(f"a {quotes[0]}b c{quotes[1]} d") == "a b c d"
    assert normalise("soft\u00adhyphen \u200ebidi\u200f") == "softhyphen bidi"
    assert normalise("می\u200cخواهم") == "می\u200cخواهم"
    assert normalise("J\u030c E\u0301") == "\u01f0 \u00e9" and normalise("don’t", unified=False) == "don t"
    assert normalise("—") == "" and normalise("rock 'n' roll") == "rock n roll"


def test_a_missing_transcript_is_an_empty_one_and_counts_as_such():
    score = error_rates([None, "", "...", "go two"], ["a b", "c", "d", "go to"])
    assert score.figures["wer"] == pytest.approx(100 * (2 + 1 + 1 + 1) / 6)
    assert score.figures["empty_rate"] == 75.0 and score.figures["sentence_error_rate"] == 100.0
    assert score.figures["deletions"] == pytest.approx(100 * 4 / 6)
    assert score.figures["substitutions"] == pytest.approx(100 / 6) and score.figures["insertions"] == 0.0
    assert error_rates(["go now to"], ["go to"]).figures["insertions"] == 50.0
    assert error_rates(["a", "b"], ["a", "c"]).figures["sentence_error_rate"] == 50.0
    with pytest.raises(ValueError, match="1 predictions for 2"):
        error_rates(["a"], ["a", "b"])


def test_a_reference_without_words_has_insertions_alone():
    score = error_rates(["a", "b c"], ["a", "..."])
    assert score.figures["wer"] == score.figures["insertions"] == 200 and score.counts == ((0.0, 1.0), (2.0, 0.0))
    assert score.notes == ("1 of 2 references have no word, so that every word there is an insertion: 2",)
    assert error_rates(["", "a"], ["", "a"]).figures["wer"] == 0
