"""Tables of text: CSV with any delimiter, TSV, and the metadata of LJSpeech."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError, repr_short, truncate
from seq2seq_suite.data.lines import BadRows, Lines, Row, broken, kind
from seq2seq_suite.data.printed import unprinted


def read_table(file: Path, bad: BadRows) -> Iterator[Row]:
    """CSV with the usual quotes; in TSV, quotes are ordinary characters.

    Blanks around names of columns are no part of them, a first line such as `sep=;` names the delimiter, as Excel
    writes it, and cells that are printed lists or objects are read as such.
    """
    lines = Lines(file, bad.longest)
    csv.field_size_limit(bad.longest)  # its default limit is 128 KB; the setting is global
    text = iter(lines)
    header = next(text, "")
    if (file.parent / "wavs" / f"{header.partition('|')[0]}.wav").is_file():
        yield from _read_ljspeech(file, chain([header], text), lines, bad)
        return
    said = re.fullmatch(r'"?sep=(.)"?', header.strip("\r\n"), re.IGNORECASE)
    if said:
        header = next(text, "")
    delimiter = said[1] if said else "\t" if kind(file) == ".tsv" else _delimiter(header)
    if delimiter != "," and kind(file) != ".tsv":
        bad.notes.append(f"{file}: the columns are separated by {delimiter!r}")
    whole = chain([header] if header else [], text)
    if kind(file) == ".tsv":
        table = csv.reader(whole, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    else:
        table = csv.reader(whole, strict=True, delimiter=delimiter, skipinitialspace=f"{delimiter} " in header)
    try:
        columns = [name.strip() for name in next(table, ["no line"])]
    except csv.Error:
        columns = []
    twice = [name for name, times in Counter(columns).items() if times > 1]
    if twice or not any(columns) or lines.undecodable:
        got = f"the first line does not name the columns: {repr_short(columns)}"
        raise DataError(
            f"{got}, {repr_short(twice[0])} is there more than once" if twice else got,
            file=str(file),
            line=lines.number,
            expected="different column names, in UTF-8",
            remedy="put a line of column names on top, each of them once",
        )
    expected = f"{len(columns)} columns: {truncate(', '.join(columns))}, in UTF-8"
    printed: dict[str, str] = {}  # columns of lists or objects, with what is said of them
    while True:
        start = lines.number + 1
        try:
            cells = next(table, None)
            lines.check(start, lines.number)
            if cells and len(cells) != len(columns):
                raise ValueError(f"{len(cells)} columns")
        except (csv.Error, ValueError) as problem:
            problematic = broken(problem, file, start, expected=expected)
            if "end of data" in problematic.got or "larger" in problematic.got:  # an unclosed quote: the rest is lost
                raise problematic from None
            bad.add(problematic)
            continue
        if cells is None:
            bad.notes += printed.values()
            return
        if cells:
            fields: dict[str, Any] = dict(zip(columns, cells, strict=True))
            for name, cell in fields.items():
                if (found := unprinted(cell)) is not cell:
                    fields[name] = found
                    what = "an object" if isinstance(found, dict) else "a list"
                    printed[name] = f"{file}: '{name}' is the text of {what}, and is read as {what}"
            yield Row(fields, str(file), start)


def _read_ljspeech(file: Path, text: Iterator[str], lines: Lines, bad: BadRows) -> Iterator[Row]:
    """LJSpeech's rows, which no line of names precedes: a recording's id, its text, perhaps the same in words."""
    for cells in csv.reader(text, delimiter="|", quoting=csv.QUOTE_NONE):
        with bad.row(file, lines.number, expected="id|text, or id|text|text in words, in UTF-8"):
            lines.check(lines.number, lines.number)
            if cells and len(cells) not in (2, 3):
                raise ValueError(f"{len(cells)} columns")
            if cells:
                spoken = cells[-1] if cells[-1].strip() else cells[1]
                yield Row({"audio": f"wavs/{cells[0]}.wav", "id": cells[0], "text": spoken}, str(file), lines.number)


def _delimiter(header: str) -> str:
    """The delimiter of the columns: unlike texts, names of columns rarely contain one.

    >>> _delimiter("source;target"), _delimiter("source,target"), _delimiter("text")
    (';', ',', ',')
    """
    with suppress(csv.Error):
        return csv.Sniffer().sniff(header, delimiters=",;\t|").delimiter
    return ","
