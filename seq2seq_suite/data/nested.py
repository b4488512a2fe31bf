"""JSON files that hold a whole data set: COCO's annotations, SQuAD's articles, rows under a key, and columns."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from seq2seq_suite.common.errors import DataError, repr_short
from seq2seq_suite.common.files import parse_json

_COCO = (
    '{"images": [{"id", "file_name"}], "annotations": [{"image_id", "bbox", "category_id"}], '
    '"categories": [{"id", "name"}]}'
)
_SQUAD = '{"data": [{"paragraphs": [{"context", "qas": [{"question", "answers": [{"text", "answer_start"}]}]}]}]}'
_REMEDY = "correct the file"
_ABOUT = {"version", "name", "description", "info", "meta", "metadata", "schema", "license", "title", "count", "total"}

Found = tuple[int, dict[str, Any] | DataError]


def read_nested(text: str, file: Path) -> Iterator[Found] | None:
    """The rows of such a file, each with its number, or what is wrong with it; None for other JSON.

    Args:
        text: of the file.
        file: its path.

    Raises:
        DataError: it begins as an object and is no JSON, or a list of the format is missing.

    >>> text = '{"data": [{"paragraphs": [{"context": "Tom sat.", "qas": [{"question": "Who?", "answers": []}]}]}]}'
    >>> list(read_nested(text, Path("train.json")))
    [(1, {'question': 'Who?', 'answers': {'text': [], 'answer_start': []}, 'title': '', 'context': 'Tom sat.'})]
    """
    if not text.lstrip().startswith("{") or (_is_json(text.lstrip().partition("\n")[0]) and "\n" in text.strip()):
        return None  # a list, or an object on each line
    value = parse_json(text, file=str(file), expected=f"JSON lines, {_COCO}, or {_SQUAD}", remedy=_REMEDY)
    if isinstance(value.get("annotations"), list) and {"images", "categories"} & value.keys():
        return _coco(value, file)
    data = value.get("data")
    if isinstance(data, list) and any("paragraphs" in one for one in data if isinstance(one, dict)):
        return _squad(value, file)
    rows = _rows(value, file)
    return None if rows is None else enumerate(rows, 1)


def _rows(value: dict[str, Any], file: Path) -> list[dict[str, Any]] | None:
    """The rows under a key, of columns, or of an index, as pandas writes them; None if the object is itself a row.

    Raises:
        DataError: several keys have rows.

    >>> [_rows(value, Path("a.json")) for value in (
    ...     {"version": 1, "data": [{"a": 1}]}, {"a": [1], "b": [2]}, {"a": {"0": 1}, "b": {"0": 2}},
    ...     {"7": {"a": 1}}, {"columns": ["a"], "index": [0], "data": [[1]]}, {"a": {"b": 1}}, {"a": "b"})]
    [[{'a': 1}], [{'a': 1, 'b': 2}], [{'a': 1, 'b': 2}], [{'a': 1}], [{'a': 1}], None, None]
    """
    lists = {key: one for key, one in value.items() if isinstance(one, list)}
    listed = [key for key, one in lists.items() if one and all(isinstance(row, dict) for row in one)]
    names, data = lists.get("columns"), lists.get("data")
    if names and data and all(isinstance(row, list) and len(row) == len(names) for row in data):  # orient="split"
        return [dict(zip(map(str, names), row, strict=True)) for row in data]
    if len(lists) == len(value) > len(listed) and len(set(map(len, lists.values()))) == 1:  # orient="list"
        return [dict(zip(value, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    if "data" in listed:
        return value["data"]
    if listed and all(key in listed or key in _ABOUT or isinstance(one, dict) for key, one in value.items()):
        if len(listed) > 1:
            raise DataError(
                f"rows under several keys: {', '.join(listed)}",
                file=str(file),
                expected="the rows of one split",
                remedy="write each list into a file of its own",
            )
        return value[listed[0]]
    inner = list(value.values())
    if not inner or not all(isinstance(one, dict) and one and one.keys() == inner[0].keys() for one in inner):
        return None
    if all(key.isdigit() for key in inner[0]):  # orient="columns"
        return [{key: column[number] for key, column in value.items()} for number in inner[0]]
    return inner if len(inner) > 1 or all(key.isdigit() for key in value) else None  # orient="index"


def _is_json(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        return bool(json.loads(text))
    return False


def _coco(value: dict[str, Any], file: Path) -> Iterator[Found]:
    """A row for each picture, with the boxes of its annotations; one without a place is a broken row by itself.

    Source: https://cocodataset.org/#format-data
    """

    def wrong(got: str, expected: str = _COCO) -> DataError:
        return DataError(got, file=str(file), expected=expected, remedy=_REMEDY)

    def by_id(key: str, column: str) -> dict[Any, dict[str, Any]]:
        listed = value.get(key)
        if not isinstance(listed, list) or not all(
            isinstance(one, dict) and isinstance(one.get("id"), (int, str)) and isinstance(one.get(column), str)
            for one in listed
        ):
            raise wrong(f"'{key}' is {repr_short(listed)}", f"{_COCO}: a list of objects with id and {column}")
        found = {one["id"]: one for one in listed}
        if len(found) < len(listed):
            first = next(key for key, count in Counter(one["id"] for one in listed).items() if count > 1)
            raise wrong(f"'{key}' has the id {repr_short(first)} several times", "an id of its own for each")
        return found

    names, pictures = by_id("categories", "name"), by_id("images", "file_name")
    objects: dict[Any, dict[str, list[Any]]] = {picture: {"bbox": [], "categories": []} for picture in pictures}
    known: dict[Any, int] = {}
    for number, one in enumerate(value["annotations"], 1):
        if not isinstance(one, dict) or not {"image_id", "category_id", "bbox"} <= one.keys():
            yield number, wrong(f"annotation {number} is {repr_short(one)}")
            continue
        picture, category, key = one["image_id"], one["category_id"], one.get("id")
        if not isinstance(picture, (int, str)) or picture not in pictures:
            yield (
                number,
                wrong(f"annotation {number} is of the picture {repr_short(picture)}", "the id of one of 'images'"),
            )
        elif not isinstance(category, (int, str)) or category not in names:
            yield (
                number,
                wrong(f"annotation {number} has the category {repr_short(category)}", "the id of one of 'categories'"),
            )
        elif isinstance(key, (int, str)) and known.setdefault(key, number) != number:
            yield (
                number,
                wrong(
                    f"annotation {number} has the id {repr_short(key)} of annotation {known[key]}",
                    "an id of its own for each",
                ),
            )
        else:
            found = {
                "bbox": one["bbox"],
                "categories": names[category]["name"],
                "area": one.get("area"),
                "iscrowd": one.get("iscrowd", 0),
            }
            for column, entry in found.items():
                objects[picture].setdefault(column, []).append(entry)

    folder = _folder_of_pictures(file, next((one["file_name"] for one in pictures.values()), ""))
    for number, (picture, one) in enumerate(pictures.items(), 1):
        yield (
            number,
            {
                "file_name": os.path.join(folder, one["file_name"]),
                "objects": objects[picture],
                **{side: one[side] for side in ("width", "height") if side in one},
            },
        )


def _folder_of_pictures(file: Path, name: str) -> str:
    """Where the pictures lie, seen from the file's folder: beside it, or where COCO and its tools keep them."""
    split = file.name.partition(".")[0].rpartition("_")[2]  # train2017 of instances_train2017.json
    usual = (".", "images", split, f"../{split}", "../images", f"../images/{split}", "..")
    return next((place for place in usual if (file.parent / place / name).is_file()), ".")


def _squad(value: dict[str, Any], file: Path) -> Iterator[Found]:
    """A row for each question, with the columns of SQuAD on the Hub.

    Source: Rajpurkar et al. 2016; its files of versions 1.1 and 2.0.
    """
    number, lacking = 0, [one for one in value["data"] if not isinstance(one, dict) or "paragraphs" not in one]
    for one in lacking:
        yield 0, DataError(f"{repr_short(one)} is no article", file=str(file), expected=_SQUAD, remedy=_REMEDY)
    for article in value["data"]:
        for paragraph in _listed(article, "paragraphs"):
            for asked in _listed(paragraph, "qas"):
                number += 1
                answers = [one for one in _listed(asked, "answers") if isinstance(one, dict)]
                place = paragraph.get("context") if isinstance(paragraph, dict) else None
                if not isinstance(place, str) or not isinstance(asked, dict) or "question" not in asked:
                    yield (
                        number,
                        DataError(
                            f"question {number} is {repr_short(asked)}",
                            file=str(file),
                            line=number,
                            expected=_SQUAD,
                            remedy=_REMEDY,
                        ),
                    )
                    continue
                yield (
                    number,
                    {
                        **asked,
                        "title": article.get("title", ""),
                        "context": place,
                        "answers": {key: [one.get(key) for one in answers] for key in ("text", "answer_start")},
                    },
                )


def _listed(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []
