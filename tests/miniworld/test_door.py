"""The door to the embedded data: every view has the columns that users' data have, seeded and without overlap."""

import hashlib
from functools import cache

import pytest

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.miniworld import VIEWS, rows

COLUMNS = {
    "trees": {"tree"},
    "translations": {"en", "de", "zh"},
    "topics": {"text", "labels"},
    "speech": {"audio", "text", "translation", "de", "zh", "speaker"},
    "questions": {"question", "context", "answer", "type"},
    "stories": {"text"},
    "pictures": {"image", "objects"},
    "tags": {"words", "tags"},
    "summaries": {"text", "summary"},
    "semantic_roles": {"words", "tags"},
}


def test_every_view_has_its_columns():
    assert {view: set(next(rows(view, "test", size=1))) for view in VIEWS} == COLUMNS


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_as_many_rows_as_asked_for_and_begins_alike_whatever_their_number(view):
    for split in VIEWS[view]:
        few, more = list(rows(view, split, size=3)), list(rows(view, split, size=7))
        assert (len(few), len(more)) == (3, 7)
        assert few == more[:3]


@cache
def told(view, split):
    """The first rows, as text."""
    return [str(row) for row in rows(view, split, size=20 if view in ("speech", "pictures") else 200)]


@pytest.mark.parametrize("view", sorted(VIEWS.keys() - {"speech", "pictures"}))
def test_no_row_stands_in_two_splits(view):
    seen = [set(told(view, split)) for split in VIEWS[view]]
    assert sum(map(len, seen)) == len(set().union(*seen))


def test_a_view_or_split_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="no view 'grammar'"):
        rows("grammar", "train")
    with pytest.raises(DataError, match="no split 'longer'") as caught:
        rows("trees", "longer")
    assert caught.value.expected == "one of train, validation, test, compositional"


@pytest.mark.parametrize(
    ("view", "digest"),
    [
        ("trees", "6f0b3607b092d60f"),
        ("translations", "f245264796c31fdd"),
        ("speech", "ebe1261a0de0a125"),
        ("topics", "bce91e4b6bcf3034"),
        ("questions", "0046497ff2591401"),
        ("stories", "d794205d05946525"),
        ("pictures", "771428f0d0521a20"),
        ("tags", "3644dbcac5b0aacd"),
        ("summaries", "0e8600e858a86f6d"),
    ],
)
def test_rows_stay_what_published_figures_were_measured_on(view, digest):
    text = "\n".join(f"{split} {row}" for split in VIEWS[view] for row in told(view, split))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_translations_have_the_languages_that_are_asked_for():
    whole = list(rows("translations", "test", size=5))
    for languages in (("en", "de"), ("zh", "en")):
        assert list(rows("translations", "test", size=5, languages=languages)) == [
            {language: row[language] for language in row if language in languages} for row in whole
        ]
    assert list(rows("translations", "test", size=5, languages=("en", "fr"))) == whole  # the message names all
