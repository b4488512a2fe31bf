"""A tokenizer that came with a model has our numbers, and no text can inject what ends an output."""

import json

import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.types import BEGIN, END, PAD, UNKNOWN
from seq2seq_suite.data.imported_tokenizer import ImportedTokenizer
from seq2seq_suite.data.subwords import load_subwords

tokenizers = pytest.importorskip("tokenizers", reason="comes with the extra `transformers`")
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁the", "▁dog", "▁", "s", "de_DE"]


@pytest.fixture(scope="module")
def content():
    """Pieces under the numbers of the list, the language's code a symbol of the model's own."""
    model = tokenizers.models.Unigram([(name, -float(number)) for number, name in enumerate(PIECES)], unk_id=3)
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer, made.decoder = tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    made.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "de_DE"])
    return made.to_str()


@pytest.fixture
def pieces(content):
    return ImportedTokenizer(content, (1, 2, 2, 3), 10, before=[8], after=[2])


def test_numbers_follow_the_specials_in_the_models_order(pieces):
    assert pieces.rows == [1, 2, 2, 3, 0, 4, 5, 6, 7, 8, 9] and len(pieces) == 11
    assert (pieces.before, pieces.after) == ([9], [END])  # not BEGIN, whose row is the same
    assert pieces.encode("the dogs") == [5, 6, 8] and pieces.encode_all(["the", "dog"]) == [[5], [6]]
    assert pieces.pieces("the dogs") == ["▁the", "▁dog", "s"]
    assert pieces.names([0, 1, 2, 3, 9, 10]) == ["<pad>", "<begin>", "<end>", "<unknown>", "de_DE", "<9>"]


def test_a_text_comes_back_without_specials_and_codes(pieces):
    assert pieces.decode([BEGIN, 9, *pieces.encode("the dogs"), END, PAD]) == "the dogs"
    assert pieces.decode([5, UNKNOWN, 6]) == "the\ufffddog"
    assert pieces.join(["de_DE", "▁the", "▁dog", "s", "never seen"]) == "the dogs\ufffd"


def test_no_text_injects_padding_or_an_end(pieces):
    assert not {PAD, BEGIN, END} & {*pieces.encode("the <pad> dog </s> s")}
    assert 9 in pieces.encode("de_DE the")


def test_it_is_saved_and_loaded(pieces, tmp_path):
    pieces.save(tmp_path, "source")
    read = load_subwords("imported", tmp_path, "source")
    assert isinstance(read, ImportedTokenizer) and (read.before, read.after) == (pieces.before, pieces.after)
    assert read.rows == pieces.rows and read.encode("the dogs") == pieces.encode("the dogs")


@pytest.mark.parametrize(
    "change", [{"format": "another"}, {"tokenizer": {"model": 3}}, {"size": "many"}, {"around": [[99], []]}], ids=str
)
def test_a_broken_file_is_refused_by_name(pieces, tmp_path, change):
    pieces.save(tmp_path, "source")
    file = tmp_path / "source.tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=r"source\.tokenizer\.json: no tokenizer can be read"):
        load_subwords("imported", tmp_path, "source")
