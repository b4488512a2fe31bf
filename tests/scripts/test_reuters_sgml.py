"""The converter of Reuters-21578 on a few hand-made stories."""

import gzip
import io
import json
import tarfile

import pytest

from scripts.reuters_sgml import check_counts, choose_categories, main, read_archive, read_documents, rows_by_split
from seq2seq_suite.common.errors import DataError


def story(
    number: int,
    split: str,
    topics: list[str],
    *,
    title: str = "TITLE",
    body: str = "Body text. Reuter",
    marked: str = "YES",
) -> str:
    inside = "".join(f"<D>{topic}</D>" for topic in topics)
    return (
        f'<REUTERS TOPICS="{marked}" LEWISSPLIT="{split}" CGISPLIT="TRAINING-SET" OLDID="1" NEWID="{number}">\n'
        f"<DATE>26-FEB-1987</DATE>\n<TOPICS>{inside}</TOPICS>\n<PLACES><D>usa</D></PLACES>\n<UNKNOWN>&#5;</UNKNOWN>"
        f"<TEXT>&#2;\n<TITLE>{title}</TITLE>\n<DATELINE> PARIS, Feb 26 - </DATELINE><BODY>{body}\n&#3;</BODY>"
        "</TEXT>\n</REUTERS>\n"
    )


STORIES = (
    story(1, "TRAIN", ["grain", "corn"]),
    story(2, "TRAIN", ["grain"]),
    story(3, "TEST", ["corn", "grain"]),
    story(4, "TRAIN", ["only-train"]),
    story(5, "TEST", ["only-test"]),
    story(6, "TRAIN", []),
    story(7, "NOT-USED", ["grain"], body="Unused text. Reuter"),
    story(8, "TRAIN", ["grain"], marked="NO"),
    story(9, "TRAIN", ["oil", "only-train"]),
    story(10, "TEST", ["oil"]),
    '<REUTERS TOPICS="YES" LEWISSPLIT="TEST" NEWID="11"><TOPICS><D>oil</D></TOPICS>'
    '<TEXT TYPE="UNPROC">&#2;\n OIL &lt;XYZ>  UP 5 &amp; more\n Reuter\n&#3;</TEXT></REUTERS>',
)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "reuters.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name, part in (("reut2-000.sgm", STORIES[:5]), ("reut2-001.sgm", STORIES[5:])):
            content = b"<!DOCTYPE lewis SYSTEM 'lewis.dtd'>\n" + "".join(part).encode("latin-1")
            entry = tarfile.TarInfo(f"reuters/{name}")
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return path


def test_modapte_takes_the_marked_stories_of_train_and_test(archive):
    documents = read_archive(archive)
    assert [(one.number, one.split) for one in documents] == [
        (1, "train"),
        (2, "train"),
        (3, "test"),
        (4, "train"),
        (5, "test"),
        (6, "train"),
        (7, "unused"),
        (8, "unused"),
        (9, "train"),
        (10, "test"),
        (11, "test"),
    ]


def test_categories_have_a_document_on_both_sides_and_come_by_frequency(archive):
    assert choose_categories(read_archive(archive)) == ["grain", "corn", "oil"]


def test_rows_hold_kept_categories_in_order_and_nothing_without_one(archive):
    documents = read_archive(archive)
    rows = rows_by_split(documents, choose_categories(documents), 1)
    assert len(rows["train"]) == 2 and len(rows["validation"]) == 1
    assert {row["id"] for row in (*rows["train"], *rows["validation"])} == {1, 2, 9}
    assert [(row["id"], row["labels"]) for row in rows["test"]] == [
        (3, ["grain", "corn"]),
        (10, ["oil"]),
        (11, ["oil"]),
    ]
    assert rows["unlabelled"] == [{"id": 7, "text": "TITLE . Unused text."}]


def test_text_is_title_and_body_without_marks_entities_and_the_closing_reuter():
    text = next(
        read_documents(story(1, "TRAIN", ["a"], title="A &lt;B> &amp; C", body="One\ntwo  Reuter said. REUTER"))
    ).text
    assert text == "A <B> & C . One two Reuter said."
    assert next(read_documents(STORIES[-1])).text == "OIL <XYZ> UP 5 & more"


def test_wrong_counts_are_named(archive, tmp_path, capsys):
    documents = read_archive(archive)
    categories = choose_categories(documents)
    with pytest.raises(DataError, match=r"5 train documents, published 9,603.*3 categories, published 90"):
        check_counts(documents, categories, rows_by_split(documents, categories, 0))
    assert main([str(archive), str(tmp_path / "out")]) == 2
    assert "published" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_written_folder_reads_as_rows(archive, tmp_path):
    assert main([str(archive), str(tmp_path / "out"), "--no-check", "--validation", "1"]) == 0
    with gzip.open(tmp_path / "out" / "test.jsonl.gz", "rt", encoding="utf-8") as lines:
        assert json.loads(next(lines)) == {"id": 3, "text": "TITLE . Body text.", "labels": ["grain", "corn"]}
    assert (tmp_path / "out" / "labels.txt").read_text().split() == ["grain", "corn", "oil"]


def test_an_archive_without_stories_is_refused(tmp_path):
    with pytest.raises(DataError, match="no document"):
        read_archive(tmp_path)
