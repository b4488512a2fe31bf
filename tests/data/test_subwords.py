"""Subwords: there and back, the same every time, and drawn by seed alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_suite.common.errors import ConfigError, DataError
from seq2seq_suite.common.types import SPECIALS, UNKNOWN
from seq2seq_suite.data.subwords import (
    KINDS,
    Characters,
    ImportedPieces,
    SentencePieces,
    clean_text,
    load_subwords,
    train_subwords,
)
from seq2seq_suite.data.vocabulary import Vocabulary

TEXTS = [
    "Ein Hund sieht den Mann.",
    "Eine Frau sieht den Hund, der bellt.",
    "Der Mann liest ein Buch über Hunde!",
    "我们看见一只狗。",
    "“Ja”, sagt sie – ½ ﬁ",
] * 3
SIZE = 120


@pytest.fixture(scope="module", params=KINDS)
def subwords(request):
    return train_subwords(request.param, TEXTS, size=SIZE)


def test_every_text_survives_the_way_to_pieces_and_back(subwords):
    for text in TEXTS:
        assert subwords.join(subwords.pieces(text)) == text
        assert subwords.decode(subwords.encode(text)) == text


@settings(max_examples=200)
@given(text=st.text("".join(sorted(set("".join(TEXTS)))), max_size=40).map(clean_text))
def test_any_text_of_known_letters_survives(subwords, text):
    assert subwords.decode(subwords.encode(text)) == text
    assert subwords.join(subwords.pieces(text)) == text


def test_specials_have_their_ids_and_no_text_writes_them(subwords):
    ids = subwords.encode(" ".join(SPECIALS))
    assert set(ids) & set(range(len(SPECIALS))) <= {UNKNOWN}
    assert subwords.decode([0, *subwords.encode("Hund"), 2, 1]) == "Hund"
    assert len(subwords) <= SIZE


@pytest.mark.parametrize("count", [0, 1, 250])
def test_many_texts_have_the_ids_that_each_has(subwords, count):
    texts = [" ".join(["the dog", "a cat", "sees"][number % 3 :]) for number in range(count)]
    assert subwords.encode_all(texts) == [subwords.encode(text) for text in texts]


def test_an_unknown_letter_is_unknown_and_shows(subwords):
    assert UNKNOWN in subwords.encode("Hund Ж")
    assert subwords.decode(subwords.encode("Hund Ж")) == "Hund \ufffd"


def test_text_is_not_normalised_but_for_its_blanks():
    assert clean_text(" a\u3000b\t▁c\u2028 ") == "a b c"
    pieces = train_subwords("bpe", ["ﬁ ½ ？ …"], size=40)
    assert pieces.decode(pieces.encode("ﬁ ½ ？ …")) == "ﬁ ½ ？ …"


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_and_saving_give_the_same_pieces(kind, tmp_path):
    one, two = (train_subwords(kind, TEXTS, size=SIZE) for _ in range(2))
    one.save(tmp_path, "one")
    two.save(tmp_path, "two")
    first, second = sorted(tmp_path.iterdir())
    assert first.read_bytes() == second.read_bytes()
    read = load_subwords(kind, tmp_path, "one")
    assert len(read) == len(one) and [read.encode(text) for text in TEXTS] == [one.encode(text) for text in TEXTS]


def test_characters_keep_the_most_frequent():
    letters = train_subwords("characters", ["aab"], size=5)
    assert isinstance(letters, Characters) and letters.encode("ab") == [4, UNKNOWN]


def test_too_few_pieces_are_refused_with_a_remedy():
    with pytest.raises(DataError, match="cannot learn 10 pieces") as caught:
        SentencePieces.train("bpe", TEXTS, size=10)
    assert "raise the vocabulary's size" in caught.value.remedy


@pytest.mark.parametrize("content", [None, b"", b"no model"])
def test_a_missing_or_broken_model_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "joint.model").write_bytes(content)
    with pytest.raises(DataError, match=r"joint\.model: no bpe model"):
        load_subwords("bpe", tmp_path, "joint")


def test_a_model_with_other_specials_is_refused(tmp_path):
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_prefix=str(tmp_path / "joint"),
        vocab_size=80,
        model_type="bpe",
        hard_vocab_limit=False,
        minloglevel=3,
    )
    with pytest.raises(DataError, match="its first pieces are not"):
        load_subwords("bpe", tmp_path, "joint")


@pytest.fixture(scope="module")
def imported():
    """The pieces of a model under other numbers, one of them without a number."""
    model = SentencePieces.train("bpe", TEXTS, size=SIZE)
    names = model.names(range(len(SPECIALS), len(model)))
    return ImportedPieces(model.model, Vocabulary.build([">>deu<<", *sorted(set(names) - {"▁Hund"})]))


def test_imported_pieces_have_the_numbers_that_they_come_with(imported, tmp_path):
    ids = imported.encode("Ein Mann.")
    assert imported.names(ids) == imported.pieces("Ein Mann.") and imported.decode([0, 1, *ids, 2]) == "Ein Mann."
    assert ids == [number + len(SPECIALS) for number in map(imported.vocabulary.symbols.index, imported.names(ids))]
    imported.save(tmp_path, "source")
    read = load_subwords("imported", tmp_path, "source")
    assert [read.encode(text) for text in TEXTS] == imported.encode_all(TEXTS) and len(read) == len(imported)


def test_an_imported_piece_without_a_number_is_unknown_and_a_code_of_a_language_is_one_piece(imported):
    assert imported.encode("Hund") == [UNKNOWN] and imported.decode([UNKNOWN]) == "\ufffd"
    assert imported.pieces(">>deu<< Ein Mann") == [">>deu<<", *imported.pieces("Ein Mann")]
    assert imported.encode(">>xyz<<Ein")[0] == UNKNOWN
    assert imported.pieces("a << b") != [] and imported.pieces("a << b")[0] != "a <<"


def test_imported_pieces_are_not_learned(imported, tmp_path):
    with pytest.raises(ConfigError, match="init_from"):
        train_subwords("imported", TEXTS, size=SIZE)
    imported.save(tmp_path, "target")
    (tmp_path / "target.json").unlink()
    with pytest.raises(DataError, match=r"target\.json"):
        load_subwords("imported", tmp_path, "target")
