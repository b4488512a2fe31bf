"""Files with a word and its tags on each line: CoNLL-2003, CoNLL-X, CoNLL-U, OntoNotes, BIO."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.data.lines import REMEDY, BadRows, Lines, Row, kind

_HEAD = 50  # sentences from which a file's layout is recognised
_BOUNDARY = re.compile(r"(\d+[ \t]+)?-DOCSTART-([ \t]|$)|#(begin|end) document\b")
_NO_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # ids of CoNLL-U's multiword tokens and empty nodes
Line = tuple[int, str]  # its number and text


@dataclass(frozen=True)
class _Layout:
    """The columns of a file.

    Args:
        tabs: whether they are separated by tabs, otherwise by blanks.
        width: how many there are.
        places: name of ours -> which.
        numbered: whether the first one counts words, so that a line with `#` is a comment.
        at_least: whether there may be more of them.
        commented: whether each sentence begins with a line with `#`.
        tags: seen so far, by which a word `#` differs from a comment.
    """

    tabs: bool
    width: int
    places: Mapping[str, int]
    numbered: bool = False
    at_least: bool = False
    commented: bool = False
    tags: set[str] = field(default_factory=set)
    file: str = ""

    @property
    def expected(self) -> str:
        """What lines should be, for messages."""
        count = f"{self.width} columns{' or more' * self.at_least}, as most lines have"
        return f"a word and its tags on each line, in {count}, in UTF-8"

    def cells(self, text: str) -> list[str]:
        """The cells of a line, without empty ones at its end."""
        return _cells(text, self.tabs)

    def fits(self, cells: Sequence[str]) -> bool:
        return len(cells) >= self.width if self.at_least else len(cells) == self.width


def read_columns(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each sentence: blank lines are between sentences, the tag is last.

    Comments and `-DOCSTART-` are left out. Layouts with a column that counts words are recognised by it: CoNLL-X and
    CoNLL-U (`upos`, `xpos`; of CoNLL-2009 `xpos` alone) and OntoNotes (`xpos`, and `ner` in IOB2). Every column also
    has its number as a name, from 1.
    """
    lines = Lines(file, bad.longest)
    blocks = _blocks(lines)
    head = list(islice(blocks, _HEAD))
    layout = replace(_layout(head, conllu=kind(file) == ".conllu"), file=str(file))
    for block in chain(head, blocks):
        number = block[0][0]
        with bad.row(file, number, expected=layout.expected):
            lines.check(number, block[-1][0])
            own = _of_sentence(block, layout)
            if words := _words(block, own):
                fields = {name: [cells[place] for _, cells in words] for name, place in own.places.items()}
                layout.tags.update(fields.get("tags", ()))
                if "ner" in fields:
                    fields["ner"] = _opened(fields["ner"])
                yield Row(fields, str(file), words[0][0])


def _cells(text: str, tabs: bool) -> list[str]:
    if not tabs:
        return re.split("[ \t]+", text.strip(" \t"))
    return [cell.strip(" ") for cell in text.rstrip(" \t").split("\t")]


def _blocks(lines: Iterable[str]) -> Iterator[list[Line]]:
    """The lines of each sentence."""
    block: list[Line] = []
    for number, line in enumerate(chain(lines, [""]), 1):
        text = line.rstrip("\r\n")
        if text.strip(" \t") and not _BOUNDARY.match(text):
            block.append((number, text))
        elif block:
            yield block
            block = []


def _layout(head: Sequence[Sequence[Line]], *, conllu: bool) -> _Layout:
    """The layout of a file that begins with these sentences."""
    named = next((text for block in head for _, text in block if text.startswith("# global.columns")), "")
    words = [[text for _, text in block if not text.startswith("#")] for block in head]
    words = [block for block in words if block] or [[text for _, text in block] for block in head]
    texts = [text for block in words for text in block]
    tabs = sum("\t" in text for text in texts) * 2 > len(texts)
    table = [[_cells(text, tabs) for text in block] for block in words]
    width = Counter(len(cells) for block in table for cells in block).most_common(1)[0][0] if texts else 2
    numbers = {str(place + 1): place for place in range(width)}

    def counted(place: int, first: int) -> bool:
        """Whether a column counts the words of at least half of the sentences."""
        counts = [
            [cells[place] for cells in block if len(cells) > place and not _NO_WORD.fullmatch(cells[0])]
            for block in table
        ]
        right = sum(count == list(map(str, range(first, first + len(count)))) for count in counts)
        return max(map(len, counts), default=0) > 1 and 2 * right >= len(counts)

    if named:  # CoNLL-U Plus
        names = [name.lower().rpartition(":")[2] for name in named.partition("=")[2].split()]
        return _Layout(
            tabs,
            len(names),
            numbers | {{"form": "words"}.get(name, name): place for place, name in enumerate(names)},
            numbered="id" in names,
        )
    if conllu or (width >= 8 and counted(0, 1)):
        tags = {"xpos": 4} if width >= 14 else {"upos": 3, "xpos": 4}  # of CoNLL-2009; of CoNLL-X and -U
        return _Layout(tabs, 5 if conllu else width, numbers | {"words": 1} | tags, numbered=True, at_least=conllu)
    if width >= 11 and counted(2, 0):
        return _Layout(tabs, 11, {"words": 3, "xpos": 4, "ner": 10}, at_least=True)
    if width >= 3 and counted(0, 1):
        return _Layout(tabs, width, numbers | {"words": 1, "tags": width - 1}, numbered=True)
    commented = len(head) > 1 and all(re.match("#[ \t]", block[0][1]) for block in head)
    tags = {cells[-1] for block in table for cells in block if len(cells) == width and cells[0][:1] != "#"}
    return _Layout(tabs, max(2, width), _plain(width), commented=commented, tags=tags)


def _plain(width: int) -> dict[str, int]:
    """Places where the word is first and its tag last."""
    return {str(place + 1): place for place in range(width)} | {"words": 0, "tags": max(2, width) - 1}


def _of_sentence(block: Sequence[Line], layout: _Layout) -> _Layout:
    """The file's layout, with another width if all of a sentence's lines have it: a file may be made of several."""
    widths = {len(layout.cells(text)) for _, text in block if not text.startswith("#")}
    if layout.numbered or layout.at_least or len(block) < 2 or len(widths) != 1 or min(widths) < 2:
        return layout
    return replace(layout, width=min(widths), places=_plain(min(widths)))


def _words(block: Sequence[Line], layout: _Layout) -> list[tuple[int, list[str]]]:
    """The numbers and cells of a sentence's lines that have words; raises DataError, without the file."""
    found: list[tuple[int, list[str]]] = []
    for line in block:
        cells = layout.cells(line[1])
        if line[1].startswith("#") and not found and _is_comment(line, cells, layout):
            continue
        if layout.numbered and _NO_WORD.fullmatch(cells[0]):
            continue
        if not layout.fits(cells):
            raise _wrong(f"{len(cells)} column{'s' * (len(cells) != 1)}", line, layout)
        if layout.numbered and not cells[0].isdigit():
            raise _wrong(f"{repr_short(cells[0])} where a word's number should be", line, layout)
        if not all(cells[place] for name, place in layout.places.items() if not name.isdigit()):
            raise _wrong("a cell is empty", line, layout)
        found.append((line[0], cells))
    return found


def _is_comment(line: Line, cells: Sequence[str], layout: _Layout) -> bool:
    """Whether a line with `#` before a sentence's words is none of them; raises DataError where nobody can know."""
    text = line[1]
    if layout.numbered or re.match(r"#\s*\S+\s+=(\s|$)", text):  # as in `# sent_id = 1`
        return True
    apart = re.match(r"#+([ \t]|$)", text) is not None
    if not layout.fits(cells) or (layout.tabs and "\t" not in text):
        if apart:
            return True
        raise _wrong(
            f"{len(cells)} column{'s' * (len(cells) != 1)}",
            line,
            layout,
            remedy="write '# ' before a comment, or the word's tag behind it",
        )
    if cells[-1] in layout.tags:
        return False
    if layout.commented or "=" in cells[-1]:
        return True
    if apart:
        raise _wrong(
            f"{repr_short(text)} is a comment, or the word '#' with a tag that no word before has",
            line,
            layout,
            remedy="write comments as in '# id = 1', or put the sentence behind others",
        )
    return False


def _wrong(got: str, line: Line, layout: _Layout, *, remedy: str = REMEDY) -> DataError:
    return DataError(got, file=layout.file, line=line[0], expected=layout.expected, remedy=remedy)


def _opened(cells: Sequence[str]) -> list[str]:
    """OntoNotes' names in IOB2.

    >>> _opened(["(ORG*", "*)", "*", "(GPE)"])
    ['B-ORG', 'I-ORG', 'O', 'B-GPE']
    """
    tags, inside = [], ""
    for cell in cells:
        if cell.startswith("("):
            inside = cell.strip("()*")
            tags.append(f"B-{inside}")
        else:
            tags.append(f"I-{inside}" if inside else "O")
        inside = "" if cell.endswith(")") else inside
    return tags
