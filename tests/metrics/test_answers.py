"""SQuAD's figures against hand-computed examples and a second implementation that counts in plain loops."""

import string
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.metrics.answers import Gold, answer_scores, normalise, token_f1, tokens_of

WORDS = st.sampled_from(["a", "the", "The", "an", "cat", "Cat", "dog.", "dog", "U.S.", "theory", "-", "é", "3,0"])
ANSWERS = st.lists(WORDS, max_size=5).map(" ".join)
GOLDS = st.builds(Gold, st.lists(ANSWERS, min_size=1, max_size=3).map(tuple), st.sampled_from(["", "x", "y"]))


def plain_words(text: str) -> list[str]:
    """The published definition, a character and a word at a time."""
    kept = ""
    for letter in text.lower():
        if letter not in string.punctuation:
            kept += letter
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def plain_f1(prediction: str, answer: str) -> float:
    return plain_overlap(plain_words(prediction), plain_words(answer))


def plain_overlap(given_words: list[str], wanted: list[str]) -> float:
    left, shared = list(wanted), 0
    for word in given_words:
        if word in left:
            left.remove(word)
            shared += 1
    if not given_words or not wanted:
        return 1.0 if given_words == wanted else 0.0
    return 2.0 * shared / (len(given_words) + len(wanted))


def plain_f1_of_signs(prediction: str, answer: str) -> float:
    """Signs put apart one at a time, and then words."""

    def tokens(text: str) -> list[str]:
        words = plain_words("".join(letter for letter in text if letter not in "。、「」"))
        return [
            token
            for word in words
            for token in "".join(
                f" {letter} "
                if unicodedata.name(letter).startswith(("CJK UNIFIED", "HIRAGANA", "KATAKANA"))
                else letter
                for letter in word
            ).split()
        ]

    return plain_overlap(tokens(prediction), tokens(answer))


@pytest.mark.parametrize(
    ("prediction", "answer", "f1"),
    [
        ("北京", "北京市", 0.8),
        ("北 京", "北京。", 1.0),
        ("上海", "北京", 0.0),
        ("东京", "京东", 1.0),
        ("2008年", "2008", 2 / 3),
        ("The 长城", "长城", 1.0),
        ("「カフェ」", "カフェ店", 6 / 7),
        ("とうきょう", "東京", 0.0),
        ("", "北京", 0.0),
        ("。", "", 1.0),
    ],
)
def test_chinese_and_japanese_answers_are_counted_by_signs(prediction, answer, f1):
    assert token_f1(prediction, answer) == pytest.approx(f1) == token_f1(answer, prediction)
    assert answer_scores([prediction], [Gold((answer,))]).figures["f1"] == pytest.approx(100 * f1)


@settings(max_examples=200, deadline=None)
@given(st.text("北京東カフとの。「 ab2the", max_size=9), st.text("北京東カフとの。「 ab2the", max_size=9))
def test_f1_of_signs_and_words_is_that_of_a_plain_count(prediction, answer):
    assert token_f1(prediction, answer) == pytest.approx(plain_f1_of_signs(prediction, answer))


@given(ANSWERS)
def test_words_of_other_scripts_are_split_at_spaces_alone(answer):
    assert tokens_of(normalise(answer)) == normalise(answer).split()


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("The Denver Broncos", "denver broncos"),
        ("Santa Clara, California", "santa clara california"),
        ("an apple a day", "apple day"),
        ("  golden   anniversary ", "golden anniversary"),
        ("the", ""),
        ("theatre an-other", "theatre another"),
        ('"golden anniversary"', "golden anniversary"),
        ("3:00 a.m.", "300 am"),
        ("Levi's Stadium", "levis stadium"),
        ("a\u0331 the\u0301", "a\u0331 th\u00e9"),
        ("the a\u00b2 A", "a\u00b2"),
    ],
)
def test_answers_are_normalised_as_published(answer, normal):
    assert normalise(answer) == normal


@pytest.mark.parametrize(
    ("prediction", "answer", "f1"),
    [
        ("Denver Broncos", "the Denver Broncos", 1.0),
        ("Broncos", "Denver Broncos", 2 / 3),
        ("Levi's Stadium in the San Francisco Bay Area", "Levi's Stadium", 4 / 9),
        ("cat cat dog", "cat dog dog", 2 / 3),
        ("", "cat", 0.0),
        ("Paris", "London", 0.0),
    ],
)
def test_f1_of_examples_computed_by_hand(prediction, answer, f1):
    assert token_f1(prediction, answer) == pytest.approx(f1)


def test_the_best_of_several_right_answers_counts_and_questions_weigh_the_same():
    golds = [Gold(("Denver Broncos", "Broncos", "The Denver Broncos")), Gold(("Carolina Panthers",)), Gold(("gold",))]
    score = answer_scores(["the Broncos!", "Carolina", None], golds)
    assert score.figures["exact_match"] == pytest.approx(100 / 3)
    assert score.figures["f1"] == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)
    assert score.figures["invalid_rate"] == pytest.approx(100 / 3)


def test_categories_have_their_own_figures_and_those_above_five_percent_errors_failed():
    golds = [Gold(("yes",), "2")] * 20 + [Gold(("no",), "10")] * 10
    score = answer_scores(["yes"] * 19 + ["no"] + ["no"] * 9 + ["yes"], golds)
    assert list(score.details["categories"]) == ["2", "10"]
    assert score.details["categories"]["2"] == {"questions": 20, "exact_match": 95.0, "f1": 95.0, "failed": False}
    assert score.details["failed"] == ["10"] and score.figures["failed_categories"] == 1.0
    assert score.figures["category_exact_match"] == pytest.approx((95 + 90) / 2)
    assert score.figures["exact_match"] == pytest.approx(100 * 28 / 30)


@settings(max_examples=200)
@given(rows=st.lists(st.tuples(st.one_of(st.none(), ANSWERS), GOLDS), min_size=1, max_size=6))
def test_the_figures_are_those_of_plain_loops(rows):
    score = answer_scores([prediction for prediction, _ in rows], [gold for _, gold in rows])
    exact = f1 = 0.0
    for prediction, gold in rows:
        if prediction is not None:
            exact += any(plain_words(prediction) == plain_words(answer) for answer in gold.answers)
            f1 += max(plain_f1(prediction, answer) for answer in gold.answers)
    assert score.figures["exact_match"] == pytest.approx(100 * exact / len(rows))
    assert score.figures["f1"] == pytest.approx(100 * f1 / len(rows))
    assert score.figures["f1"] >= score.figures["exact_match"] - 1e-9
    by_category = score.details["categories"].values()
    assert sum(entry["questions"] for entry in by_category) == len(rows)


def test_questions_without_a_category_are_one_named_all():
    score = answer_scores(["x", "y"], [Gold(("x",)), Gold(("x",))])
    assert score.details["categories"] == {"all": {"questions": 2, "exact_match": 50.0, "f1": 50.0, "failed": True}}


def test_a_missing_prediction_is_refused_and_the_signature_says_how_it_was_computed():
    with pytest.raises(ValueError, match="longer"):
        answer_scores(["x"], [Gold(("x",))] * 2)
    assert answer_scores([], []).signature.startswith(
        "squad|norm:nfc+lower+punctuation+articles|unspaced:signs|golds:max|"
    )
