"""Only blanks, tabs and line ends separate tokens, wherever tokens are read."""

import sys
import unicodedata

import pytest

from seq2seq_suite.common.files import read_lines
from seq2seq_suite.common.text import split_blanks
from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.data.formats import READERS, BadRows
from seq2seq_suite.options.data import Data
from seq2seq_suite.tasks.fields.text import Words
from seq2seq_suite.tasks.parsing.task import ParsingOptions, ParsingTask
from seq2seq_suite.tasks.tagging.task import TagRow

# What Python takes for white space or for the end of a line, and what Unicode calls a space.
INSIDE = sorted(
    {
        sign
        for sign in map(chr, range(sys.maxunicode + 1))
        if sign not in " \t\r\n"
        and (sign.isspace() or len(f"a{sign}b".splitlines()) > 1 or unicodedata.category(sign).startswith("Z"))
    }
)


@pytest.mark.parametrize("sign", INSIDE, ids=lambda sign: f"U+{ord(sign):04X}")
def test_other_spaces_belong_to_the_token(sign, tmp_path):
    word, bad = f"10{sign}000", BadRows(0)

    def row(name: str, text: str) -> dict:
        (tmp_path / name).write_bytes(text.encode())
        (found,) = READERS[(tmp_path / name).suffix](tmp_path / name, bad)
        return found.fields

    assert split_blanks(f" {word} dogs\tsleep\r\n") == [word, "dogs", "sleep"]
    tree = f"(S (CD {word}) (NNS dogs))"
    assert row("a.trees", f"{tree}\n")["tree"] == tree
    assert next(read_trees(tree))[1].words() == [word, "dogs"]
    assert row("a.conll", f"{word} CD\ndogs NNS\n")["words"] == [word, "dogs"]
    assert Words(longest=9).from_text(f"{word} dogs", {}) == (word, "dogs")
    task = ParsingTask(ParsingOptions(), Data())
    assert word in task.presentation.for_terminal(next(read_trees(tree))[1])
    assert task.from_text(f"{word} (dogs)").source == (word, "-LRB-dogs-RRB-")
    assert TagRow().from_line(f"N{sign}N VB", {}) == (f"N{sign}N", "VB")
    (tmp_path / "lines").write_bytes(f"{word}\r\ndogs\n".encode())
    assert read_lines(tmp_path / "lines") == [word, "dogs"]
    for name, text in {"text": f"u{sign}1 {word}", "wav.scp": f"u{sign}1\ta.wav", "utt2spk": f"u{sign}1 \tann"}.items():
        (tmp_path / name).write_bytes(f"{text}\n".encode())
    (found,) = READERS[".scp"](tmp_path / "wav.scp", bad)
    assert (found.fields["id"], found.fields["text"], found.fields["speaker"]) == (f"u{sign}1", word, "ann")
