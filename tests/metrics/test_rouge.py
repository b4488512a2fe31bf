"""ROUGE as Google's scorer has it, for every script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_tools import make_task

from seq2seq_suite.metrics.rouge import Words, rouge
from seq2seq_suite.metrics.significance import FORMULAS


def test_rouge_is_that_of_googles_scorer():
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="comes with the extra `summarisation`")
    found, right = ["Tom is in the park.", "", "the dog barks"], ["Anna is in the park.", "a cat", "dogs bark loudly"]
    score = make_task("summarisation").score(found, right)
    for ours, theirs in (("rouge1", "rouge1"), ("rouge2", "rouge2"), ("rouge_l", "rougeL")):
        each = [
            scorer.RougeScorer([theirs], use_stemmer=True).score(*pair)[theirs].fmeasure
            for pair in zip(right, found, strict=True)
        ]
        assert score.figures[ours] == pytest.approx(100 * sum(each) / 3)
    import numpy as np

    assert FORMULAS[score.formula](np.array(score.counts).sum(0, keepdims=True))[0] == pytest.approx(
        score.figures["rouge2"]
    )


@pytest.mark.parametrize(
    "text",
    [
        "बच्चा नदी के पास",
        "Київ чекає на весну, подвір'я",
        "孩子在河边玩",
        "الولد يلعب قرب النهر",
        "สุนัขเห็นแมว",
        "のいいてんき",
        "שָׁלוֹם עוֹלָם",
        "می‌خواهم کتاب‌ها را",
        "für Größe",
        "😀 👍",
        "...",
    ],
)
def test_summaries_in_any_script_are_compared_by_their_words(text):
    pytest.importorskip("rouge_score", reason="comes with the extra `summarisation`")
    task = make_task("summarisation")
    same, other = task.score([text], [text]), task.score([text], [f"{text[: len(text) // 2]} zzz"])
    assert same.figures["rouge1"] == same.figures["rouge_l"] == 100 > other.figures["rouge1"]
    assert same.figures["rouge2"] == 100 and "|tok:unicode|" in same.signature


def test_different_texts_that_share_a_digit_are_not_equal():
    pytest.importorskip("rouge_score", reason="comes with the extra `summarisation`")
    figures = make_task("summarisation").score(["Ο σκύλος τρέχει 2 μέρες"], ["Η γάτα κοιμάται 2 ώρες"]).figures
    assert figures["rouge1"] == pytest.approx(20) and figures["rouge2"] == 0


@given(st.text(st.characters(max_codepoint=127)))
def test_words_of_ascii_text_are_those_of_googles_scorer(text):
    tokenizers = pytest.importorskip("rouge_score.tokenizers", reason="comes with the extra `summarisation`")
    expected = tokenizers.DefaultTokenizer(use_stemmer=True).tokenize(text)
    assert not expected or Words().tokenize(text) == expected


def test_the_best_of_several_references_counts_for_each_figure():
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="comes with the extra `summarisation`")
    found, several = ["the dog barks at Tom"], [["a dog barks"], ["the cat sees Tom"]]
    score = rouge(found, *several)
    expected = scorer.RougeScorer(["rouge1"], use_stemmer=True).score_multi([one[0] for one in several], found[0])
    assert score.figures["rouge1"] == pytest.approx(100 * expected["rouge1"].fmeasure)
    assert "|nrefs:2|" in score.signature
