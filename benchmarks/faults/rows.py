"""Data of all tasks broken in every way that occurs to a file of rows, through `check` and a run of two updates."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults import examples
from benchmarks.faults.campaign import Case, Kind

REFUSED, ACCEPTED, EITHER = (2,), (0,), (0, 2)
_MARK = "@@here@@"
# JSON as it stands in a file, so that it may be what no library would write.
VALUES = (
    "null",
    "true",
    "false",
    "0",
    "-1",
    "3",
    "1.5",
    "-0.0",
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "9" * 30,
    "-" + "9" * 5000,
    '""',
    '" "',
    '"\\u0000"',
    '"a\\u0000b"',
    '"\\ud800"',
    '"a \\udfff b"',
    '"\\u202e \\u2066"',
    '"\\ufeff"',
    '"\\u2028"',
    '"\\t\\r\\n"',
    '"<b>x</b>"',
    '"(((("',
    '"|||"',
    f'"{"x" * 100_000}"',
    f'"{"word " * 20_000}"',
    f'"{"e" + chr(0x301) * 5000}"',
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '[""]',
    '[1, "a"]',
    '["a", "a"]',
    '{"a": 1}',
    '{"bytes": "abc"}',
    '{"bytes": [1, 2]}',
    '{"path": 3}',
    '{"text": []}',
    '{"text": [3]}',
    '{"en": null}',
    "[NaN, NaN, NaN, NaN]",
    "[1e400, 1, 1, 1]",
    "[[[[1]]]]",
    "[true, true]",
    "[" * 900 + "]" * 900,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 5000 + "1" + "}" * 5000,
    '"/"',
    '"../x"',
    '"no such file"',
    '"."',
    '"' + "d/" * 2500 + '"',
    "2024-01-01",
    "'a'",
    "undefined",
    "+1",
    "01",
    "1.",
    '"a',
)


@dataclass(frozen=True)
class Broken:
    """What was done to the data.

    Args:
        what: in a few words.
        codes: the exit codes that are right.
        place: what a refusal must name, as `train.jsonl:3`; empty where there is no line to name.
        same: whether the data still say what they said.
    """

    what: str
    codes: tuple[int, ...] = EITHER
    place: str = ""
    same: bool = False


@dataclass(frozen=True)
class Spoiled:
    """A copy of a task's data that may be spoiled."""

    folder: Path
    task: str
    random: Random

    def split(self) -> str:
        """A split: more often than not the training one."""
        return self.random.choice(("train", "train", "validation", "test"))

    def file(self, split: str) -> Path:
        return self.folder / f"{split}.jsonl"

    def lines(self, split: str) -> list[str]:
        return self.file(split).read_text(encoding="utf-8").splitlines()

    def write(self, split: str, lines: list[str]) -> None:
        """Replace a split; halves of surrogate pairs are written as they are."""
        self.file(split).write_bytes("".join(line + "\n" for line in lines).encode("utf-8", errors="surrogatepass"))

    def line(self) -> tuple[str, list[str], int]:
        """A split, its lines and the place of one of them."""
        split = self.split()
        lines = self.lines(split)
        return split, lines, self.random.randrange(len(lines))

    def replace(self, change: Callable[[dict[str, Any]], str]) -> str:
        """Put what `change` makes of a row into its place; the place."""
        split, lines, place = self.line()
        lines[place] = change(json.loads(lines[place]))
        self.write(split, lines)
        return f"{split}.jsonl:{place + 1}"


def with_value(row: dict[str, Any], path: tuple[Any, ...], text: str) -> str:
    """A row as JSON, with the value at a path replaced by JSON as it stands.

    >>> with_value({"a": [1, 2], "b": 3}, ("a", 1), "NaN")
    '{"a": [1, NaN], "b": 3}'
    """
    row = json.loads(json.dumps(row))
    inner: Any = row
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = _MARK
    return json.dumps(row, ensure_ascii=False).replace(f'"{_MARK}"', text)


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values in a row, those inside others too."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*above, key)
        yield from paths(inner, (*above, key))


# -- rows -----------------------------------------------------------------------------------------------------------


def value(data: Spoiled) -> Broken:
    """Something odd in the place of a value."""
    text = data.random.choice(VALUES)
    where = data.replace(lambda row: with_value(row, data.random.choice(list(paths(row))), text))
    return Broken(f"a value is {text[:20]}", EITHER, where)


def odd_row(data: Spoiled) -> Broken:
    """A line that is no row, or one without its columns."""

    def without(row: dict[str, Any]) -> str:
        del row[data.random.choice(list(row))]
        return json.dumps(row)

    changes: dict[str, Callable[[dict[str, Any]], str]] = {
        "a column is missing": without,
        "no column": lambda row: "{}",
        "a list": lambda row: json.dumps(list(row)),
        "a number": lambda row: "3",
        "null": lambda row: "null",
        "text": lambda row: '"text"',
        "cut": lambda row: json.dumps(row)[: -data.random.randint(1, 9)],
        "Python": lambda row: "{'text': 'a'}",
        "garbage behind": lambda row: json.dumps(row) + "x",
        "two rows": lambda row: json.dumps(row) * 2,
        "other names": lambda row: json.dumps({f"{name}?": value for name, value in row.items()}),
        "capitals": lambda row: json.dumps({name.upper(): value for name, value in row.items()}),
        "deep": lambda row: "[" * 100_000,
        "a comment": lambda row: "// a row",
        "columns empty": lambda row: json.dumps(dict.fromkeys(row)),
        "bytes": lambda row: json.dumps({name: str(value).encode().hex() for name, value in row.items()})[:-1] + ",}",
    }
    what = data.random.choice(list(changes))
    return Broken(f"a row: {what}", REFUSED, data.replace(changes[what]))


def same_row(data: Spoiled) -> Broken:
    """A row that says the same in other letters."""
    changes: dict[str, Callable[[dict[str, Any]], str]] = {
        "one more column": lambda row: json.dumps({**row, "more": [None, {"a": 1e9}]}),
        "escapes": lambda row: json.dumps(row, ensure_ascii=True),
        "spaces": lambda row: f"  {json.dumps(row)}\t",
        "other order": lambda row: json.dumps(dict(reversed(row.items()))),
    }
    what = data.random.choice(list(changes))
    data.replace(changes[what])
    return Broken(f"a row with {what}", ACCEPTED, same=True)


# -- files ----------------------------------------------------------------------------------------------------------


def whole_file(data: Spoiled) -> Broken:
    """The file of a split, as a whole."""
    split = data.split()
    file = data.file(split)
    content, random = file.read_bytes(), data.random
    middle = content.index(b"\n") + random.randrange(2, 20)
    line = f"{split}.jsonl:2"
    contents: dict[str, tuple[bytes, tuple[int, ...], str]] = {
        "empty": (b"", REFUSED, ""),
        "blank lines": (b"\n \n\t\n", REFUSED, ""),
        "one NUL": (b"\0", REFUSED, ""),
        "NULs": (content[:middle] + b"\0\0" + content[middle:], REFUSED, line),
        "all NUL": (bytes(len(content)), REFUSED, ""),
        "not UTF-8": (content[:middle] + b"\xe9" + content[middle:], REFUSED, line),
        "an encoded surrogate": (content[:middle] + b"\xed\xa0\x80" + content[middle:], REFUSED, line),
        "UTF-16": (content.decode().encode("utf-16"), REFUSED, ""),
        "random": (random.randbytes(2000), REFUSED, ""),
        "cut": (content[: random.randrange(1, len(content) - 2)], EITHER, ""),
        "a picture": (b"\x89PNG\r\n\x1a\n" + content, REFUSED, ""),
        "gzip without the name": (gzip.compress(content), REFUSED, ""),
        "HTML": (b"<html><body>404</body></html>", REFUSED, ""),
        "JSON list": (b"[" + content.strip().replace(b"\n", b",") + b"]", REFUSED, ""),
        "carriage returns alone": (content.replace(b"\n", b"\r"), EITHER, ""),
        "a line of 30 MB": (content + b'{"more": "' + b"x" * 30_000_000 + b'"}\n', REFUSED, ""),
        "many rows": (content * 3000 + b"{", REFUSED, ""),
    }
    what = random.choice(list(contents))
    spoiled, codes, place = contents[what]
    file.write_bytes(spoiled)
    return Broken(f"a file: {what}", codes, place)


def same_file(data: Spoiled) -> Broken:
    """The file of a split in another guise, which changes nothing."""
    split, random = data.split(), data.random
    file = data.file(split)
    content = file.read_bytes()
    guises: dict[str, Callable[[], object]] = {
        "CRLF": lambda: file.write_bytes(content.replace(b"\n", b"\r\n")),
        "BOM": lambda: file.write_bytes(b"\xef\xbb\xbf" + content),
        "no last line feed": lambda: file.write_bytes(content.rstrip(b"\n")),
        "blank lines": lambda: file.write_bytes(content.replace(b"\n", b"\n\n  \n")),
        "gzip": lambda: file.with_suffix(".jsonl.gz").write_bytes(gzip.compress(content)) and file.unlink(),
        "two gzip members": lambda: (
            file.with_suffix(".jsonl.gz").write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]))
            and file.unlink()
        ),
        "parquet": lambda: to_parquet(file),
        "a folder": lambda: _into_folder(file, split),
        "a link": lambda: file.rename(data.folder / "other.rows") and file.symlink_to("other.rows"),
        "json": lambda: (file.with_suffix(".json").write_text(json.dumps(examples.read(file))), file.unlink()),
        "files beside": lambda: [(data.folder / name).write_bytes(b"\0\xff") for name in ("README.md", "a.bin", "x~")],
    }
    what = random.choice(list(guises))
    guises[what]()
    return Broken(f"{what} of {split}", ACCEPTED, same=True)


def wrong_place(data: Spoiled) -> Broken:
    """A file that is not where it belongs, or that cannot be distinguished from another."""
    split, random = data.split(), data.random
    file = data.file(split)
    moves: dict[str, tuple[Callable[[], object], tuple[int, ...]]] = {
        "missing": (file.unlink, REFUSED),
        "a folder instead": (lambda: (file.unlink(), file.mkdir()), REFUSED),
        "another name": (lambda: file.rename(data.folder / "rows.jsonl"), REFUSED),
        "another extension": (lambda: file.rename(file.with_suffix(".dat")), REFUSED),
        "two formats": (lambda: file.with_suffix(".txt").write_text("a\n"), REFUSED),
        "plain and gzip": (lambda: file.with_suffix(".jsonl.gz").write_bytes(gzip.compress(b"{}\n")), REFUSED),
        "a dangling link": (lambda: (file.unlink(), file.symlink_to("nowhere")), REFUSED),
        "a link to itself": (lambda: (file.unlink(), file.symlink_to(file.name)), REFUSED),
        "two parts": (
            lambda: (
                file.rename(data.folder / f"{split}-1.jsonl"),
                (data.folder / f"{split}-2.jsonl").write_text("{}\n"),
            ),
            REFUSED,
        ),
        "all gone": (lambda: shutil.rmtree(data.folder), REFUSED),
        "a file instead": (lambda: (shutil.rmtree(data.folder), data.folder.write_bytes(b"x")), REFUSED),
    }
    what = random.choice(list(moves))
    moves[what][0]()
    return Broken(f"{what}: {split}", moves[what][1])


def packed(data: Spoiled) -> Broken:
    """A packed file that is cut, damaged, or far larger than it looks."""
    split, random = data.split(), data.random
    file = data.file(split)
    content = file.read_bytes()
    zipped, packed = file.with_suffix(".jsonl.gz"), gzip.compress(content)
    place = random.randrange(12, len(packed) - 8)
    parts = {
        "cut": packed[: -random.randrange(1, len(packed))],
        "a bit": packed[:place] + bytes([packed[place] ^ 16]) + packed[place + 1 :],
        "garbage behind": packed + b"garbage",
        "not packed": content,
        "empty": b"",
        "blank lines": gzip.compress(b"\n" * 10_000_000, 1) * 100,
        "one line": gzip.compress(b"a" * 10_000_000, 1) * 300,
        "rows": gzip.compress(content * 20, 1) * 20,
    }
    what = random.choice([*parts, "parquet cut", "parquet bit", "parquet empty", "parquet of numbers", "parquet bomb"])
    if what in parts:
        zipped.write_bytes(parts[what])
        file.unlink()
        return Broken(f"gzip: {what}", REFUSED if what in ("cut", "not packed", "empty") else EITHER)
    table = to_parquet(file, numbers=what == "parquet of numbers", bomb=what == "parquet bomb")
    content = bytearray(table.read_bytes())
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    table.write_bytes(
        {
            "parquet cut": table.read_bytes()[: random.randrange(len(content))],
            "parquet empty": b"",
            "parquet bit": bytes(content),
        }.get(what, table.read_bytes())
    )
    return Broken(what, EITHER if what in ("parquet bit", "parquet bomb") else REFUSED)


def table(data: Spoiled) -> Broken:
    """CSV or TSV in place of a split, good or broken; for tasks whose columns are text."""
    split, random = data.split(), data.random
    rows = examples.read(data.file(split))
    if not all(isinstance(cell, str) for cell in rows[0].values()):
        return same_file(data)
    kind = random.choice(("csv", "tsv"))
    stream = io.StringIO()
    writer = csv.writer(
        stream,
        delimiter="," if kind == "csv" else "\t",
        lineterminator="\n",
        quoting=csv.QUOTE_MINIMAL if kind == "csv" else csv.QUOTE_NONE,
        quotechar=None if kind == "tsv" else '"',
    )
    writer.writerows([list(rows[0]), *(list(row.values()) for row in rows)])
    good = stream.getvalue()
    texts = {
        "good": (good, ACCEPTED),
        "no header": (good.partition("\n")[2], REFUSED),
        "header alone": (good.partition("\n")[0], REFUSED),
        "two columns of one name": (good.replace(next(iter(rows[0])), "a,a" if kind == "csv" else "a\ta", 1), REFUSED),
        "one cell more": (good + "\t,".join("abcdef") + "\n", REFUSED),
        "one cell less": (good + '\n"\n', REFUSED),
        "semicolons": (good.replace(",", ";").replace("\t", ";"), EITHER),
        "NUL": (good + "\0,\0\t\0\n", EITHER),
        "an open quote": (good + '"open', EITHER),
        "a long cell": (good + "y" * 300_000 + "\n", EITHER),
        "CRLF": (good.replace("\n", "\r\n"), ACCEPTED),
        "BOM": ("\ufeff" + good, ACCEPTED),
    }
    what = random.choice(list(texts))
    data.file(split).with_suffix(f".{kind}").write_bytes(texts[what][0].encode())
    data.file(split).unlink()
    codes = texts[what][1] if len(rows[0]) > 1 else EITHER
    return Broken(f"{kind}: {what}", codes, same=codes == ACCEPTED)


def to_parquet(file: Path, *, numbers: bool = False, bomb: bool = False) -> Path:
    """Write a split as Parquet: its rows, numbers in all columns, or cells of 400 MB that take no place when packed."""
    import pyarrow
    from pyarrow import parquet

    rows = examples.read(file)
    if numbers:
        rows = [dict.fromkeys(row, 3) for row in rows]
    if bomb:
        rows = [{name: "a" * 400_000_000 if isinstance(cell, str) else cell for name, cell in rows[0].items()}]
    file.unlink()
    parquet.write_table(pyarrow.Table.from_pylist(rows), file.with_suffix(".parquet"), compression="zstd")
    return file.with_suffix(".parquet")


def _into_folder(file: Path, split: str) -> None:
    """Put a split, with all that it names, into a folder of its own."""
    folder = file.parent / split
    folder.mkdir()
    for path in [*file.parent.glob(f"{split}*.wav"), *file.parent.glob(f"{split}*.png"), file]:
        path.rename(folder / path.name)
    (folder / file.name).rename(folder / "part.jsonl")


Way = Callable[[Spoiled], Broken]
COMMON: tuple[Way, ...] = (
    value,
    odd_row,
    value,
    same_row,
    value,
    whole_file,
    value,
    same_file,
    value,
    wrong_place,
    value,
    packed,
    value,
    table,
)


# -- cases ----------------------------------------------------------------------------------------------------------


def prepare(case: Case, tasks: Sequence[str] = examples.TASKS) -> None:
    """Good data of tasks, and finished runs on them."""
    for task in tasks:
        data = case.shared / "data" / task
        yaml = examples.write_yaml(
            case.shared / f"{task}.yaml", examples.settings(task, data, case.shared / "features")
        )
        if not data.exists():
            examples.write(data, task)
        if not (case.shared / "found" / task).exists():
            case.call("run", yaml, "--output", case.shared / "found" / task, codes=(0,), limit=60.0)


def hashes(run: Path) -> Any:
    """What a run notes of its data."""
    return json.loads((run / "provenance.json").read_text(encoding="utf-8"))["data"]


def try_data(case: Case, tasks: Sequence[str] = examples.TASKS, common: Sequence[Way] = COMMON) -> None:
    """Spoil the data of one task in one way; look at them by `check`, then train on them."""
    from benchmarks.faults.media import OWN

    task = tasks[case.number % len(tasks)]
    ways = (*common, *OWN.get(task, ()))
    folder = case.folder / "data"
    shutil.copytree(case.shared / "data" / task, folder)
    broken = ways[case.number // len(tasks) % len(ways)](Spoiled(folder, task, case.random))
    case.counts[task] += 1
    examples.write_yaml(case.folder / "run.yaml", examples.settings(task, "data", case.shared / "features"))
    ends = [
        case.call("check", "run.yaml", codes=broken.codes),
        case.call("run", "run.yaml", "--output", "run", codes=broken.codes),
    ]
    case.expect(
        ends[0].code == ends[1].code or None in (ends[0].code, ends[1].code),
        f"`check` ends with {ends[0].code}, the run with {ends[1].code}",
    )
    for end in ends:
        case.expect(
            end.code != 2 or broken.place in end.err,
            f"the message does not name {broken.place}: {end.err.strip()[:300]!r}: {end.command}",
        )
    case.expect(
        ends[1].code != 2 or not (case.folder / "run").exists(),
        f"a refused run has left a directory: {ends[1].err.strip()[:300]!r}",
    )
    if broken.same and ends[1].code == 0:
        case.expect(hashes(case.folder / "run") == hashes(case.shared / "found" / task), "read otherwise than before")
    if case.complaints:
        case.complaints = [f"{task}, {broken.what}: {complaint}" for complaint in case.complaints]


KINDS = (Kind("data", "data of eight tasks, by `check` and by a run", try_data, 1000, share=8.0, prepare=prepare),)
