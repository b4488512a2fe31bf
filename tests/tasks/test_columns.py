"""Columns of other names by keys, and what is said of columns that are missing or hold no text, in every task."""

import csv
import json

import numpy as np
import pytest
from task_tools import columns_of, make_task, others, write_rows

from seq2seq_suite.common.errors import DataError

QA = {"question": "Where is Ann?", "context": "Ann is in the garden.", "answers": {"text": ["the garden"]}}
DETECTION = {"image": "a.png", "objects": {"bbox": [[0, 1, 5, 6]], "categories": ["dog"]}}
TASKS = {  # a row, and keys that name its columns
    "multilabel": ({"text": "a dog", "labels": ["joy", "fear"]}, {"text": "text_column", "labels": "labels_column"}),
    "qa": (QA, {"question": "question_column", "context": "context_column", "answers": "answer_column"}),
    "translation": ({"en": "a dog", "de": "ein Hund"}, {"en": "source_column", "de": "target_column"}),
    "detection": (DETECTION, {"image": "image_column", "objects": "objects_column"}),
    "parsing": ({"tree": "(S (NN a))"}, {"tree": "tree_column"}),
    "tagging": ({"words": ["a", "dog"], "tags": ["DT", "NN"]}, {"words": "words_column", "tags": "tags_column"}),
    "summarisation": ({"text": "a dog", "summary": "dog"}, {"text": "text_column", "summary": "summary_column"}),
    "language_model": ({"text": "a dog"}, {"text": "text_column"}),
}
TASKS |= {name: (dict.fromkeys(columns_of(name), "a dog"), columns_of(name)) for name in others(*TASKS)}


@pytest.fixture(autouse=True)
def picture(tmp_path):
    pytest.importorskip("PIL.Image").fromarray(np.zeros((9, 9, 3), np.uint8)).save(tmp_path / "a.png")


def read(task, folder, **keys):
    made = make_task(task, data={"path": str(folder)}, **{f"{task}__{key}": value for key, value in keys.items()})
    return [(getattr(one.source, "name", one.source), one.reference) for one in made.read("train")]


def table(folder, rows):
    with open(folder / "train.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder


@pytest.mark.parametrize("task", TASKS)
def test_columns_of_other_names_are_read_by_the_keys(tmp_path, task):
    row, keys = TASKS[task]
    plain = read(task, write_rows(tmp_path, [row]))
    write_rows(tmp_path, [{f"my {name}": value for name, value in row.items()}])
    own = {key: f"my {name}" for name, key in keys.items()}
    assert read(task, tmp_path, **own) == plain
    made = make_task(task, data={"path": str(tmp_path)}, **{f"{task}__{key}": name for key, name in own.items()})
    if made.rewritable:  # rows that `distill` writes are read back
        (example,) = made.read("train")
        write_rows(tmp_path, [made.row(example, made.to_text(example.reference))])
        assert [one.reference for one in made.read("train")] == [example.reference]


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        *((name, {}) for name in ("parsing", "tagging", "multilabel", "translation", "summarisation", "qa")),
        *((name, {"miniworld__world": "rich"}) for name in ("parsing", "multilabel")),
        ("tagging", {"data": {"subset": "semantic_roles"}, "tagging__spans": True}),
    ],
)
def test_rows_that_distill_writes_are_read_back_with_all_that_they_had(tmp_path, task, keys):
    made = make_task(task, **{**keys, "data": {"path": "miniworld", "size": 40, **keys.get("data", {})}})
    examples = made.read("train")
    write_rows(tmp_path, [made.row(example, made.to_text(example.reference)) for example in examples])
    options = {key: value for key, value in keys.items() if key.startswith(task)}
    again = make_task(task, data={"path": str(tmp_path)}, **options).read("train")
    assert [(one.source, one.reference, one.also) for one in again] == [
        (one.source, one.reference, one.also) for one in examples
    ]


@pytest.mark.parametrize(
    "printed", [str, json.dumps, lambda value: str(value).replace("', '", "' '")], ids=["python", "json", "numpy"]
)
@pytest.mark.parametrize("task", TASKS)
def test_a_table_with_printed_cells_reads_as_rows_do(tmp_path, task, printed):
    row, _ = TASKS[task]
    plain = read(task, write_rows(tmp_path, [row]))
    (tmp_path / "train.jsonl").unlink()
    table(tmp_path, [{name: value if isinstance(value, str) else printed(value) for name, value in row.items()}])
    assert read(task, tmp_path) == plain


@pytest.mark.parametrize("name", ["csv", "jsonl"])
@pytest.mark.parametrize("task", TASKS)
def test_a_missing_column_is_said_once(tmp_path, task, name):
    row, keys = TASKS[task]
    lacking = list(row)[-1]
    rest = {key: value for key, value in row.items() if key != lacking} | {"other": "x"}
    table(tmp_path, [rest] * 50) if name == "csv" else write_rows(tmp_path, [rest] * 50)
    with pytest.raises(DataError) as caught:
        read(task, tmp_path)
    assert f"no column {lacking}; the columns are {', '.join(rest)}" in caught.value.got.splitlines()[0]
    assert "bad_rows" not in str(caught.value) and "broken" not in str(caught.value)
    assert keys[lacking] in caught.value.remedy


@pytest.mark.parametrize(
    ("value", "said"), [(None, "null"), (5, "5"), (True, "true"), (["a"], "['a']"), ({"a": 1}, "{'a': 1}")]
)
@pytest.mark.parametrize("task", ["translation", "summarisation", "language_model", "parsing", "multilabel", "qa"])
def test_what_is_no_text_is_named(tmp_path, task, value, said):
    row, _ = TASKS[task]
    name = next(iter(row))
    with pytest.raises(DataError) as caught:
        read(task, write_rows(tmp_path, [row, row | {name: value}]))
    assert f"{name}'" in str(caught.value) and said in caught.value.got and "jsonl:2" in caught.value.got


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("joy;fear", ["joy", "fear"]),
        ("joy | fear", ["joy", "fear"]),
        ("['joy'  'fear']", ["joy", "fear"]),
        ("('joy', 'fear')", ["joy", "fear"]),
        ("{'joy', 'fear'}", ["fear", "joy"]),
        ("[1 0]", ["1", "0"]),
        ('"a;b", c', ["a;b", "c"]),
        ('"joy;fear"', ["joy;fear"]),
        ("joy", ["joy"]),
        ("[np.str_('joy')]", ["joy"]),
    ],
)
def test_labels_in_a_cell_are_read_however_they_are_separated(tmp_path, cell, labels):
    table(tmp_path, [{"text": "a dog", "labels": cell}])
    assert read("multilabel", tmp_path)[0][1] == tuple(labels)


@pytest.mark.parametrize("cell", ["[joy, fear]", "['joy' ... 'fear']", "['joy', 'fe", "{joy}", "a;b, c", "joy;fear|x"])
def test_labels_that_nobody_can_separate_are_refused(tmp_path, cell):
    table(tmp_path, [{"text": "a dog", "labels": cell}])
    with pytest.raises(DataError, match=r"train\.csv:2: (the )?labels") as caught:
        read("multilabel", tmp_path)
    assert "comma" in caught.value.remedy
