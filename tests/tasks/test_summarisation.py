"""Summarisation: one vocabulary for texts and summaries, ROUGE as Google's scorer has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_tools import make_task, write_rows

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.types import END, Hypothesis
from seq2seq_suite.metrics.rouge import Words, rouge
from seq2seq_suite.metrics.significance import FORMULAS
from seq2seq_suite.miniworld.stories import summaries

ROWS = [{"text": "Tom went to the park. Anna left it.", "summary": "Tom is in the park."},
        {"text": "Anna ran to the school. Tom came, too.", "summary": "Anna is in the school."}]


def fitted(tmp_path, **keys):
    task = make_task("summarisation", data={"path": write_rows(tmp_path, ROWS)}, summarisation__subwords="characters",
                     **keys)
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
        make_task("summarisation", data={"path": write_rows(tmp_path, ROWS), "max_length": 34},
                  summarisation__subwords="characters").read("train")


def test_rouge_is_that_of_googles_scorer():
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="comes with the extra `summarisation`")
    found, right = ["Tom is in the park.", "", "the dog barks"], ["Anna is in the park.", "a cat", "dogs bark loudly"]
    score = make_task("summarisation").score(found, right)
    for ours, theirs in (("rouge1", "rouge1"), ("rouge2", "rouge2"), ("rouge_l", "rougeL")):
        each = [scorer.RougeScorer([theirs], use_stemmer=True).score(*pair)[theirs].fmeasure
                for pair in zip(right, found, strict=True)]
        assert score.figures[ours] == pytest.approx(100 * sum(each) / 3)
    import numpy as np
    assert FORMULAS[score.formula](np.array(score.counts).sum(0, keepdims=True))[0] == \
        pytest.approx(score.figures["rouge2"])


@pytest.mark.parametrize("text", [
    "बच्चा नदी के पास", "Київ чекає на весну, подвір'я", "孩子在河边玩", "الولد يلعب قرب النهر", "สุนัขเห็นแมว",
    "のいいてんき", "שָׁלוֹם עוֹלָם", "می‌خواهم کتاب‌ها را", "für Größe", "😀 👍", "..."])
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


def test_a_summary_without_a_bigram_is_named():
    pytest.importorskip("rouge_score", reason="comes with the extra `summarisation`")
    assert "1 of 1 references has fewer than two words" in make_task("summarisation").score(["cat"], ["cat"]).notes[0]


def test_the_embedded_summary_says_where_the_story_leaves_its_people():
    for story, summary in summaries("test", sizes={"test": 200}):
        for sentence in summary.split(". "):
            place = sentence.rstrip(".").rpartition(" ")[2]
            people = sentence.replace(" and ", ", ").partition(" is " if " is " in sentence else " are ")[0]
            assert place in story and all(person in story for person in people.split(", "))
    told = dict(summaries("test", sizes={"test": 200}))
    assert len(told) == 200 and all("in the" in summary for summary in told.values())
