"""Words of all scripts: whole where blanks separate them, sign by sign where nothing does."""

import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_tools import make_task, write_rows

from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.text import split_blanks, tokens_of
from seq2seq_suite.data.words import split_words
from seq2seq_suite.metrics.answers import token_f1
from seq2seq_suite.metrics.likelihood import score_likelihood
from seq2seq_suite.tasks.charts.words import judge_words
from seq2seq_suite.tasks.charts.words import words_of as compared
from seq2seq_suite.tasks.qa.passages import printed, sentences_of, symbols_of, text_of, words_of

SPACED = (
    "हिन्दी में पढ़ना",
    "বাংলা ভাষা",
    "ప్రధానమంత్రి వచ్చారు",
    "தமிழ் மொழி",
    "ਪੰਜਾਬੀ ਵਿੱਚ",
    "ગુજરાતી છે",
    "ಕನ್ನಡ ಇದು",
    "മലയാളം ആണ്",
    "සිංහල භාෂාව",
    "שָׁלוֹם עוֹלָם",
    "مُدَرِّسة جديدة",
    "می\u200cخواهم کتاب\u200cها",
    "क्\u200dष शब्द",
    unicodedata.normalize("NFD", "naïve café ångström việt"),
    "soft\u00adhyphen ok",
    "ትግርኛ ቋንቋ",
    "col·lecció nova",
)
EMOJI = (
    "👨\u200d👩\u200d👧",
    "👍🏽",
    "🇩🇪",
    "1\ufe0f\u20e3",
    "❤\ufe0f",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
)
UNSPACED = ("今天北京下大雨", "犬が猫を見ています", "สุนัขเห็นแมวที่นี่", "ພາສາລາວບໍ່ຍາກ", "ភាសាខ្មែរ", "မြန်မာဘာသာ", "ｶﾞｷﾞ")
SPLITTERS = (lambda text: split_words(text, lower_case=False), words_of, lambda text: tuple(compared(text)))


@pytest.mark.parametrize("split", SPLITTERS)
def test_words_between_blanks_keep_their_marks(split):
    for text in SPACED[: -1 if split is SPLITTERS[2] else None]:
        assert split(text) == tuple(split_blanks(text)), text
        assert split(f"{text}. ({text})") == (*split_blanks(text), ".", "(", *split_blanks(text), ")")


@pytest.mark.parametrize("split", SPLITTERS)
def test_what_is_one_picture_is_one_word(split):
    for one in EMOJI:
        assert split(f"go {one} on") == ("go", one, "on")
    assert split("ok👍🏽👍🏽!") == ("ok", "👍🏽", "👍🏽", "!")


@pytest.mark.parametrize("split", [*SPLITTERS, lambda text: tuple(tokens_of(text))])
def test_scripts_without_blanks_are_read_sign_by_sign(split):
    for text in UNSPACED:
        signs = split(text)
        assert "".join(signs) == text and len(signs) > len(text) / 4
        assert not any(unicodedata.combining(sign[0]) or unicodedata.category(sign[0]) == "Mn" for sign in signs)
        assert split(f"Tom {text} 42 é") == ("Tom", *signs, "42", "é")
        assert split(f"Tom{text}café") == ("Tom", *signs, "café")
    assert split("今天北京") == ("今", "天", "北", "京") and split("ที่นี่") == ("ที่", "นี่")


@given(st.text(max_size=20))
def test_nothing_but_blanks_is_lost(text):
    wanted = "".join(sign for sign in text if not sign.isspace())
    for split in SPLITTERS:
        assert "".join("".join(split(text)).split()) == wanted


def test_old_runs_read_words_as_they_did():
    assert split_words("हि 今天北京", lower_case=True, marks=False) == ("ह", "ि", "今天北京")
    old = make_task("multilabel", data__unicode="none").from_text("今天北京 cafe\u0301")
    new = make_task("multilabel").from_text("今天北京 cafe\u0301")
    assert old.source == ("今天北京", "cafe", "\u0301") and new.source == ("今", "天", "北", "京", "cafe\u0301")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("लड़का गया। वह आया॥ ठीक", ["लड़का गया।", "वह आया॥", "ठीक"]),
        ("गया।आया", ["गया।", "आया"]),
        ("أين؟ هنا. نعم", ["أين؟", "هنا.", "نعم"]),
        ("وہ گیا۔ ہاں", ["وہ گیا۔", "ہاں"]),
        ("东京。大阪！好？", ["东京。", "大阪！", "好？"]),
        ("한다. 간다", ["한다.", "간다"]),
        ("Ինչ։ Այո", ["Ինչ։", "Այո"]),
        ("བོད། ཡིན།", ["བོད།", "ཡིན།"]),
        ("ሰላም። እሺ", ["ሰላም።", "እሺ"]),
        ("He paid 3.50. U.S. law", ["He paid 3.50.", "U.S.", "law"]),
    ],
)
def test_sentences_end_where_their_script_ends_them(text, wanted):
    assert sentences_of(text) == wanted


def test_answers_and_prints_come_back_whole():
    for text in (*SPACED, *UNSPACED, *EMOJI):
        assert text_of(symbols_of(text)) == text and printed(words_of(text)) == text
    assert printed(words_of("वह गया।")) == "वह गया।"


def test_figures_count_signs_where_there_are_no_blanks():
    assert token_f1("ที่นี่", "ที่นั่น") > 0.3 and token_f1("今天北京", "今天東京") == 0.75
    figures = score_likelihood([-8.0], ["今天北京"], context="text").figures
    assert figures["word_perplexity"] == pytest.approx(math.exp(8 / 4))
    assert judge_words("हिन्दी में", "हिन्दी से").kinds == ("substituted",)


def test_windows_of_a_language_model_cut_between_signs(tmp_path):
    task = make_task("language_model", language_model__window=5)
    for text in ("ที่นี่ที่นี่ที่นี่", "👨\u200d👩\u200d👧" * 3, "abcdefghijkl", "हिन्दीहिन्दी"):
        windows = task.windows(text)
        assert "".join(windows) == text and all(len(window) <= 5 for window in windows)
    assert task.windows("ที่นี่ที่นี่ที่นี่")[:2] == ["ที่", "นี่"] and task.windows("abcdefghijkl") == ["abcde", "fghij", "kl"]


def test_check_counts_texts_without_blanks(tmp_path, capsys):
    rows = [{"text": text, "labels": [label]} for text, label in zip(("今天北京", "a dog", "สุนัข"), "abc", strict=True)]
    for split in ("train", "validation", "test"):
        write_rows(tmp_path, rows, split=split)
    (tmp_path / "m.yaml").write_text(f"task: multilabel\ndata: {{path: {tmp_path}}}\nbackbone: {{width: 16}}\n")
    assert cli.main(["check", str(tmp_path / "m.yaml")]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("scripts without blanks")]
    assert "train 2 of 3" in line and "each sign counts as a word" in line
