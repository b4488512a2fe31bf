"""Reuters-21578 as it is distributed (SGML) -> the ModApte split over 90 categories as rows of text and labels.

    python scripts/reuters_sgml.py reuters21578.tar.gz path/to/reuters

Writes train, validation and test as `.jsonl.gz` and `labels.txt`, the categories by falling frequency. ModApte takes
the documents with TOPICS="YES" and LEWISSPLIT "TRAIN" or "TEST": 9,603 and 3,299, of which 7,770 and 3,019 hold one of
the 90 categories that have both a training and a test document. All four counts are checked. The validation split is
taken out of the training documents by their numbers, the same ones everywhere. `unlabelled` are the documents of
neither side, and those for training without a category: text alone, none of it from LEWISSPLIT "TEST".

The data may be distributed for research purposes only (its README.txt, section II); refer to it as
"Reuters-21578, Distribution 1.0".
"""

from __future__ import annotations

import argparse
import gzip
import html
import io
import json
import re
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from seq2seq_suite.common.errors import DataError, UserError

PUBLISHED = {"train documents": 9603, "test documents": 3299, "categories": 90, "train": 7770, "test": 3019}
VALIDATION = 777
_SPLITS = {"TRAIN": "train", "TEST": "test"}
_UNUSED = "unused"
_DOCUMENT = re.compile(r"<REUTERS\s+([^>]*)>(.*?)</REUTERS>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_CLOSING = re.compile(r"\s*\breuter[s]?\s*$", re.IGNORECASE)


@dataclass(frozen=True)
class Document:
    """A story: its number (NEWID), train, test or unused in the ModApte split, its text and its topics."""

    number: int
    split: str
    text: str
    topics: tuple[str, ...]


def read_documents(sgml: str) -> Iterator[Document]:
    """The stories of one file but those of LEWISSPLIT "TEST" that ModApte leaves out.

    >>> story = ('<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="7"><TOPICS><D>grain</D><D>corn</D></TOPICS>'
    ...          '<TEXT>&#2;<TITLE>CORN &amp; MORE</TITLE><BODY>Prices  rose.\\n Reuter&#3;</BODY></TEXT></REUTERS>')
    >>> next(read_documents(story))
    Document(number=7, split='train', text='CORN & MORE . Prices rose.', topics=('grain', 'corn'))
    """
    for match in _DOCUMENT.finditer(sgml):
        attributes = dict(_ATTRIBUTE.findall(match[1]))
        split = _SPLITS.get(attributes.get("LEWISSPLIT", ""), _UNUSED)
        if attributes.get("TOPICS") != "YES":
            if split == "test":
                continue
            split = _UNUSED
        story = match[2]
        topics = tuple(re.findall(r"<D>(.*?)</D>", _between(story, "TOPICS")))
        yield Document(int(attributes["NEWID"]), split, _text(story), topics)


def _between(story: str, tag: str) -> str:
    match = re.search(rf"<{tag}(?:\s[^>]*)?>(.*?)</{tag}>", story, re.DOTALL)
    return match[1] if match else ""


def _text(story: str) -> str:
    """`TITLE . BODY`; stories without such marks (TYPE="UNPROC") are taken as they stand."""
    whole = _between(story, "TEXT")
    title, body = _between(whole, "TITLE"), _between(whole, "BODY")
    if not title and not body:
        body = re.sub(r"<[^>]*>", " ", whole)
    parts = [_clean(title), _CLOSING.sub("", _clean(body))]
    return " . ".join(part for part in parts if part)


def _clean(text: str) -> str:
    """Entities decoded, control characters out, blanks collapsed."""
    decoded = html.unescape(html.unescape(text))  # some stories are escaped twice: &amp;lt;
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", decoded).split())


def choose_categories(documents: Iterable[Document]) -> list[str]:
    """The categories with both a training and a test document, by falling number of training documents."""
    counts = {split: Counter() for split in ("train", "test", _UNUSED)}
    for document in documents:
        counts[document.split].update(set(document.topics))
    return sorted(counts["train"].keys() & counts["test"].keys(), key=lambda name: (-counts["train"][name], name))


def rows_by_split(documents: Iterable[Document], categories: list[str], validation: int) -> dict[str, list[dict]]:
    """Rows of documents that hold one of the categories; `validation` of the training ones are held out.

    Those of `unlabelled` hold none, or belong to neither side; each text stands there once.

    The labels of a row stand in the order of `categories`.
    """
    place = {name: number for number, name in enumerate(categories)}
    splits: dict[str, list[dict]] = {"train": [], "test": []}
    unlabelled: dict[str, dict] = {}
    for document in sorted(documents, key=lambda document: document.number):
        if document.split == _UNUSED:
            unlabelled.setdefault(document.text, {"id": document.number, "text": document.text})
            continue
        labels = sorted({topic for topic in document.topics if topic in place}, key=place.__getitem__)
        if labels:
            splits[document.split].append({"id": document.number, "text": document.text, "labels": labels})
        elif document.split == "train":
            unlabelled.setdefault(document.text, {"id": document.number, "text": document.text})
    known = {row["text"] for rows in splits.values() for row in rows}
    order = sorted(splits["train"], key=lambda row: (zlib.crc32(f"validation/{row['id']}".encode()), row["id"]))
    held_out = {row["id"] for row in order[:validation]}
    return {
        "train": [row for row in splits["train"] if row["id"] not in held_out],
        "validation": [row for row in splits["train"] if row["id"] in held_out],
        "test": splits["test"],
        "unlabelled": [row for text, row in unlabelled.items() if text and text not in known],
    }


def check_counts(documents: list[Document], categories: list[str], rows: dict[str, list[dict]]) -> None:
    """Raises DataError where a count is not the published one."""
    found = {
        "train documents": sum(document.split == "train" for document in documents),
        "test documents": sum(document.split == "test" for document in documents),
        "categories": len(categories),
        "train": len(rows["train"]) + len(rows["validation"]),
        "test": len(rows["test"]),
    }
    wrong = [
        f"{found[name]:,} {name}, published {count:,}" for name, count in PUBLISHED.items() if found[name] != count
    ]
    if wrong:
        raise DataError(
            "; ".join(wrong),
            expected="all 22 files of Reuters-21578, Distribution 1.0, unchanged",
            remedy="fetch the archive again, or convert a part of it with --no-check",
        )


def read_archive(path: Path) -> list[Document]:
    """The documents of all `.sgm` files in a tar archive or a folder.

    Raises:
        DataError: there is none.
    """
    documents: list[Document] = []
    if path.is_dir():
        texts = (file.read_bytes() for file in sorted(path.rglob("*.sgm")))
        documents = [one for text in texts for one in read_documents(text.decode("latin-1"))]
    elif path.is_file():
        with tarfile.open(path) as archive:
            for member in archive:
                if member.name.endswith(".sgm") and member.isfile():
                    documents += read_documents(archive.extractfile(member).read().decode("latin-1"))
    if all(document.split == _UNUSED for document in documents):
        raise DataError(
            "no document of the ModApte split",
            file=str(path),
            expected="a tar archive or folder with reut2-000.sgm to reut2-021.sgm",
            remedy="name the archive as it was fetched",
        )
    return sorted(documents, key=lambda document: document.number)


def write_rows(path: Path, rows: Iterable[dict]) -> None:
    """Compressed rows, the same bytes each time."""
    with (
        open(path, "wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8") as stream,
    ):
        for row in rows:
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Convert; the exit code is 2 where the input is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="reuters21578.tar.gz, or a folder with its .sgm files")
    parser.add_argument("output", type=Path, help="folder to write to")
    parser.add_argument("--validation", type=int, default=VALIDATION, help="training documents to hold out")
    parser.add_argument("--no-check", action="store_true", help="do not compare the counts with the published ones")
    given = parser.parse_args(arguments)
    try:
        documents = read_archive(given.archive)
        categories = choose_categories(documents)
        rows = rows_by_split(documents, categories, given.validation)
        if not given.no_check:
            check_counts(documents, categories, rows)
    except (UserError, tarfile.TarError) as error:
        print(error, file=sys.stderr)
        return 2
    given.output.mkdir(parents=True, exist_ok=True)
    for split, of_split in rows.items():
        write_rows(given.output / f"{split}.jsonl.gz", of_split)
        labels = sum(len(row.get("labels", ())) for row in of_split) / max(1, len(of_split))
        print(f"{split}: {len(of_split):,} documents" + (f", {labels:.3f} labels each" if labels else ""))
    (given.output / "labels.txt").write_text("".join(f"{name}\n" for name in categories), encoding="utf-8")
    print(f"{len(categories)} categories in labels.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
