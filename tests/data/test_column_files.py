"""Column files: whatever their layout and comments, the words and tags of the plain file, or a refusal by line."""

import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.data.formats import READERS, BadRows

PLAIN = "Ann B-PER\nsaw O\nRome B-LOC\n\nGo O\n\n"
SENTENCES = [(["Ann", "saw", "Rome"], ["B-PER", "O", "B-LOC"]), (["Go"], ["O"])]


def read(tmp_path, text, name="a.conll", limit=0):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return list(READERS[file.suffix](file, BadRows(limit)))


def sentences(tmp_path, text, name="a.conll", tags="tags"):
    return [(row.fields["words"], row.fields[tags]) for row in read(tmp_path, text, name)]


def changed(change):
    """The plain file with each line of a word changed."""
    return "".join(change(*line.split()) + "\n" if line else "\n" for line in PLAIN.split("\n")[:-1])


def numbered(width, form, tag):
    """With a column that counts the words, and so many others."""
    count, lines = 0, []
    for line in PLAIN.split("\n")[:-1]:
        count = count + 1 if line else 0
        cells = ["_"] * width
        if line:
            cells[0], (cells[form], cells[tag]) = str(count), line.split()
        lines.append("\t".join(cells) if line else "")
    return "\n".join(lines) + "\n"


ALIKE = {
    "blanks": PLAIN,
    "tabs": PLAIN.replace(" ", "\t"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "BOM": "\ufeff" + PLAIN,
    "no last line feed": PLAIN.rstrip("\n"),
    "several blank lines": "\n \n" + PLAIN.replace("\n\n", "\n\t\n\n"),
    "columns between": changed("{} NN _ {}".format),
    "wide blanks": changed("{}   {}".format),
    "tab at the ends": changed("{}\t{}\t".format),
    "blank at the ends": changed("{} {} ".format),
    "DOCSTART": "-DOCSTART- O\n\n" + PLAIN,
    "DOCSTART within": PLAIN.replace("\n\nGo", "\n-DOCSTART- -X- O O\nGo"),
    "comment": PLAIN.replace("Go", "# id = 7\nGo"),
    "comments of an id": "# 1\n" + PLAIN.replace("Go", "# 2\nGo"),
    "comment on top": "# a comment of several words\n" + PLAIN,
    "comment alone": "# by hand, see below\n\n" + PLAIN,
    "comment with a tab": "# id 1f2e\tdomain=en\n" + PLAIN.replace(" ", "\t"),
    "comment with as many blanks": "# id 1f2e\tdomain=en\n" + changed("{} _ _ {}".format),
    "text of a sentence": "# text = O\n" + changed("{} _ _ {}".format),
    "document": "#begin document (a); part 000\n" + PLAIN + "#end document\n",
    "numbered": numbered(4, 1, 3),
    "numbered, with a source": "#\thttp://a.b [1]\n" + numbered(4, 1, 3),
}


@pytest.mark.parametrize("layout", ALIKE)
@pytest.mark.parametrize("name", ["a.conll", "a.bio", "a.iob"])
def test_layouts_read_as_the_plain_file(tmp_path, name, layout):
    assert sentences(tmp_path, ALIKE[layout], name) == SENTENCES


@pytest.mark.parametrize(
    ("text", "tags", "name"),
    [
        (numbered(10, 1, 3), "upos", "a.conll"),
        (numbered(10, 1, 4), "xpos", "a.conll"),
        (numbered(10, 1, 4).replace("\t", "  "), "xpos", "a.conll"),
        (numbered(14, 1, 4), "xpos", "a.conll"),
        ("# global.columns = ID FORM PARSEME:NE\n" + numbered(3, 1, 2), "ne", "a.conllu"),
        ("# sent_id = 1\n" + numbered(10, 1, 3).replace("2\tsaw", "2-3\tsawRome\n1.1\t_\n2\tsaw"), "upos", "a.conllu"),
        (numbered(10, 1, 3).replace("2\tsaw", "1.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n2\tsaw"), "upos", "a.conll"),
        (changed("{} NN _ {}".format), "4", "a.conll"),
    ],
)
def test_the_columns_of_dependency_trees_are_recognised_by_their_numbers(tmp_path, text, tags, name):
    assert sentences(tmp_path, text, name, tags) == SENTENCES


def test_ontonotes_has_words_tags_and_names(tmp_path):
    cells = "bn/a/1 0 {} {} {} (S* - - - Bob {} *{} -"
    names = [("Ann", "NNP", "(PERSON*"), ("Lee", "NNP", "*)"), ("saw", "VBD", "*"), ("Rome", "NNP", "(GPE)")]
    text = "".join(
        cells.format(number, word, tag, name, " *" * (number > 9)) + "\n"
        for number, (word, tag, name) in enumerate(names)
    )
    (found,) = read(tmp_path, f"#begin document (bn/a/1); part 000\n{text}\n#end document\n")
    assert found.fields == {
        "words": ["Ann", "Lee", "saw", "Rome"],
        "xpos": ["NNP", "NNP", "VBD", "NNP"],
        "ner": ["B-PERSON", "I-PERSON", "O", "B-GPE"],
    }


def test_a_file_of_comments_alone_has_no_words(tmp_path):
    for text in ("# made by hand\n\n# see below for more\n", "# only\n\n# comments\n"):
        assert read(tmp_path, text) == []


def test_a_sentence_may_have_columns_of_its_own(tmp_path):
    assert sentences(tmp_path, PLAIN + "stay _ O\nhere _ O\n")[-1] == (["stay", "here"], ["O", "O"])
    with pytest.raises(DataError, match=r"a\.conll:7: 3 columns"):  # of one word nobody knows
        read(tmp_path, PLAIN + "10 000 CD\n")


@pytest.mark.parametrize("first", ["#tag O", "# O", "#tag B-NEW", "#1 B-PER"])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_a_word_that_begins_with_a_hash_stays_one(tmp_path, first, separator):
    text = PLAIN + first + "\nlove O\n# O\n\n"
    assert sentences(tmp_path, text.replace(" ", separator))[-1] == (
        [first.split()[0], "love", "#"],
        [first.split()[1], "O", "O"],
    )


@pytest.mark.parametrize(
    ("text", "line", "got"),
    [
        (PLAIN.replace("saw O", "saw"), 2, "1 column"),
        (PLAIN.replace("saw O", "saw it O"), 2, "3 columns"),
        (PLAIN.replace(" ", "\t").replace("saw\tO", "saw\t"), 2, "1 column"),
        (changed("{}\tNN\t{}".format).replace("saw", ""), 2, "empty"),
        (PLAIN + "# X\nyes O\n", 7, "a comment, or the word"),
        (PLAIN + "#tag\nyes O\n", 7, "1 column"),
        (numbered(10, 1, 3).replace("2\tsaw", "b\tsaw"), 2, "number should be"),
    ],
)
def test_what_is_no_word_with_its_tags_is_refused_by_its_line(tmp_path, text, line, got):
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert f"a.conll:{line}: " in caught.value.got and got in caught.value.got and caught.value.remedy
    kept = read(tmp_path, text, limit=1)
    assert all(len(row.fields["words"]) in (1, 3) for row in kept) and len(kept) == (2 if "yes" in text else 1)
