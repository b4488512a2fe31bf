"""Plain parallel text: one file per language, aligned line by line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.data.formats import BadRows, Lines, Row

VALIDATION_NAMES = ("validation", "dev", "valid", "val")


def find_parallel(place: Path, name: str, languages: tuple[str, str]) -> tuple[Path, Path] | None:
    """The two files of a split: `train.en` and `train.de`, plain or with `.gz` appended.

    Args:
        place: a folder, or the path of both files without the language.
        name: of the files, without the language; `validation` is also dev, valid or val.
        languages: what the files' names end in.

    Returns:
        The files; None if there are none.

    Raises:
        DataError: only one of the two exists.
    """
    names = VALIDATION_NAMES if name == VALIDATION_NAMES[0] else (name,)
    stems = [place / each for each in names] if place.is_dir() else [place]
    for stem in stems:
        first, second = (_existing(stem, language) for language in languages)
        if first and second:
            return first, second
        if there := first or second:
            missing = stem.with_name(f"{stem.name}.{languages[1 if first else 0]}")
            raise DataError(
                f"{there.name} exists, {missing.name} does not",
                file=str(stem.parent),
                expected="a file for each language, with as many lines",
                remedy="add the file, or check translation.source_language and target_language",
            )
    return None


def read_parallel(files: tuple[Path, Path], languages: tuple[str, str], *, bad: BadRows) -> Iterator[Row]:
    """A row for each pair of lines, with the languages as columns; a pair of blank lines is skipped.

    Args:
        files: as `find_parallel` gives them.
        languages: of the files.
        bad: takes lines that are not UTF-8.

    Raises:
        DataError: one file has more lines than the other.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, text in {"train.en": "a dog\\n", "train.de": "ein Hund\\n"}.items():
    ...         _ = (Path(folder) / name).write_text(text, encoding="utf-8")
    ...     found = find_parallel(Path(folder), "train", ("en", "de"))
    ...     [row.fields for row in read_parallel(found, ("en", "de"), bad=BadRows(0))]
    [{'en': 'a dog', 'de': 'ein Hund'}]
    """
    file = str(files[0])
    first, second = sides = [Lines(file, bad.longest) for file in files]
    for texts in zip_longest(first, second):
        number = first.number
        if None in texts:
            number = max(number, second.number)
            shorter = texts.index(None)
            raise DataError(
                f"{files[shorter].name} ends after {sides[shorter].number} lines, {files[1 - shorter].name} is longer",
                file=str(files[1 - shorter]),
                line=number,
                expected="as many lines in one file as in the other",
                remedy="align the files again",
            )
        if not texts[0].strip() and not texts[1].strip():
            continue
        try:
            for side in sides:
                if side.undecodable:
                    side.check(number, number)
        except ValueError as problem:
            bad.add(
                DataError(
                    str(problem),
                    file=str(side.file),
                    line=number,
                    expected="text in UTF-8",
                    remedy="convert the file to UTF-8",
                )
            )
            continue
        yield Row({languages[0]: texts[0].rstrip("\r\n"), languages[1]: texts[1].rstrip("\r\n")}, file, number)


def _existing(stem: Path, language: str) -> Path | None:
    files = (stem.with_name(f"{stem.name}.{ending}") for ending in (language, f"{language}.gz"))
    return next(filter(Path.is_file, files), None)
