"""Vocabularies: order, special symbols, saving."""

import json
from collections import Counter
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.common import files
from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.types import BEGIN, END, PAD, SPECIALS, UNKNOWN
from seq2seq_suite.data.vocabulary import Vocabulary

words = st.text(max_size=5).filter(lambda text: text not in SPECIALS)


def test_the_specials_come_first():
    vocabulary = Vocabulary.build(["a"])
    assert vocabulary.decode([PAD, BEGIN, END, UNKNOWN, 4]) == [*SPECIALS, "a"]


def test_symbols_are_ordered_by_count_and_then_by_characters():
    counts = Counter({"b": 2, "a": 2, "z": 9, "c": 1})
    assert Vocabulary.build(counts).symbols == ("z", "a", "b", "c")
    assert Vocabulary.build(reversed(list(counts.elements()))) == Vocabulary.build(counts)


def test_rare_symbols_become_unknown():
    vocabulary = Vocabulary.build(["a", "a", "b"], min_count=2)
    assert "b" not in vocabulary
    assert vocabulary.encode(["a", "b"]) == [4, UNKNOWN]


def test_max_size_counts_the_specials():
    vocabulary = Vocabulary.build("aaabbc", max_size=6)
    assert len(vocabulary) == 6
    assert vocabulary.symbols == ("a", "b")
    assert len(Vocabulary.build("abc", max_size=100)) == 7
    assert len(Vocabulary.build("abc", max_size=0)) == 7


def test_counts_are_zero_for_specials():
    assert Vocabulary.build("abb").counts == [0, 0, 0, 0, 2, 1]


@pytest.mark.parametrize("name", SPECIALS)
def test_a_symbol_named_like_a_special_is_refused(name):
    with pytest.raises(DataError) as caught:
        Vocabulary.build(["a", name])
    assert f"'{name}'" in caught.value.got
    assert "replace it in the data" in caught.value.remedy


@pytest.mark.parametrize("name", SPECIALS)
def test_no_text_can_write_a_special(name):
    vocabulary = Vocabulary.build(["a"])
    assert vocabulary.encode([name]) == [UNKNOWN]
    assert name not in vocabulary


@pytest.mark.parametrize("number", [-1, 5])
def test_ids_outside_the_vocabulary_are_refused(number):
    with pytest.raises(ValueError, match=f"id {number} is outside a vocabulary of 5"):
        Vocabulary.build(["a"]).decode([number])


def test_a_vocabulary_does_not_change():
    vocabulary = Vocabulary.build("ab")
    with pytest.raises(FrozenInstanceError):
        vocabulary.symbols = ()  # type: ignore[misc]
    vocabulary.counts.append(7)
    assert vocabulary.counts == [0, 0, 0, 0, 1, 1]


def test_repeated_symbols_and_missing_counts_are_refused():
    with pytest.raises(ValueError, match="twice"):
        Vocabulary(("a", "a"), (1, 1))


@settings(max_examples=60)
@given(st.lists(words))
def test_decoding_inverts_encoding(symbols):
    vocabulary = Vocabulary.build(symbols)
    assert vocabulary.decode(vocabulary.encode(symbols)) == symbols
    assert len(vocabulary) == len(SPECIALS) + len(set(symbols)) == len(vocabulary.counts)


@settings(max_examples=30)
@given(st.lists(words))
def test_loading_inverts_saving(tmp_path_factory, symbols):
    path = tmp_path_factory.mktemp("vocabulary") / "symbols.json"
    vocabulary = Vocabulary.build(symbols)
    vocabulary.save(path)
    assert Vocabulary.load(path) == vocabulary


def test_odd_characters_survive_saving(tmp_path):
    vocabulary = Vocabulary.build(["\u2028", "\n", "", "\ud800", "猫", '"', "\ufeff"])
    vocabulary.save(tmp_path / "symbols.json")
    assert Vocabulary.load(tmp_path / "symbols.json") == vocabulary


def test_the_file_is_readable_json_with_a_symbol_on_each_line(tmp_path):
    path = tmp_path / "symbols.json"
    Vocabulary.build(["猫", "猫", "b"]).save(path)
    assert '    ["猫", 2],\n    ["b", 1]\n' in path.read_text(encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8"))["specials"] == list(SPECIALS)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "symbols.json"
    Vocabulary.build("a").save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        Vocabulary.build("ab").save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content",
    [
        None,
        "not json",
        "[]",
        "{}",
        '{"format": "other", "specials": [], "symbols": []}',
        json.dumps({"format": "seq2seq_suite vocabulary 1", "specials": ["<pad>"], "symbols": []}),
        json.dumps({"format": "seq2seq_suite vocabulary 1", "specials": SPECIALS, "symbols": [["a", 1], ["a", 2]]}),
        json.dumps({"format": "seq2seq_suite vocabulary 1", "specials": SPECIALS, "symbols": [["<pad>", 1]]}),
        json.dumps({"format": "seq2seq_suite vocabulary 1", "specials": SPECIALS, "symbols": ["abc"]}),
        "",
        "[" * 100_000,
        "1" * 5_000,
        "\ud800",
        *(
            json.dumps({"format": "seq2seq_suite vocabulary 1", "specials": SPECIALS, "symbols": [row]})
            for row in (
                ["a", True],
                ["a", "1"],
                ["a", 1.5],
                ["a", 0],
                ["a", float("inf")],
                ["a", 10**400],
                [1, 1],
                "ab",
                3,
            )
        ),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content):
    path = tmp_path / "symbols.json"
    if content is not None:
        path.write_text(content, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(DataError) as caught:
        Vocabulary.load(path)
    assert caught.value.file == str(path)
    assert "build the vocabulary again" in caught.value.remedy


def test_a_vocabulary_is_shown_and_compared_by_its_symbols():
    vocabulary = Vocabulary.build(["b", "a", "b"])
    assert repr(vocabulary) == "Vocabulary(symbols=('b', 'a'), symbol_counts=(2, 1))"
    assert vocabulary == Vocabulary(("b", "a"), (2, 1)) != Vocabulary(("b", "a"), (3, 1))
