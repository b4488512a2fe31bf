"""The same data in the layouts that other programs write: read as the plain rows are, or refused in one message."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.faults import examples, rows
from benchmarks.faults.campaign import Case, Kind

Rows = list[dict[str, Any]]
_KEYS = {
    "multilabel": ("text_column", "labels_column"),
    "qa": ("question_column", "context_column", "answer_column"),
    "translation": ("source_column", "target_column"),
    "parsing": ("tree_column",),
    "tagging": ("words_column", "tags_column"),
    "summarisation": ("text_column", "summary_column"),
    "language_model": ("text_column",),
}
_COMMENTS = (
    "# sent_id = {}",
    "# text = the dog",
    "#begin document (x); part 0",
    "-DOCSTART- -X- O O\n",
    "# made by hand, see page {}",
    "# id {}\tdomain=en",
)


def printed(value: Any, random: Random) -> str:
    """A list or an object as some program prints it; a text as it is."""
    import numpy

    if isinstance(value, str):
        return value
    way = random.choice(("python", "json", "numpy"))
    if way == "numpy":
        return str(
            numpy.array(value, dtype=object)
            if isinstance(value, list)
            else {
                key: numpy.array(inner, dtype=object if isinstance(inner[0], str) else None)
                for key, inner in value.items()
            }
        )
    return str(value) if way == "python" else json.dumps(value)


def _table(path: Path, found: Rows, random: Random) -> None:
    """A table with a delimiter, blanks in its header, Excel's first line, cells printed."""
    delimiter = random.choice(",,;|\t")
    header, above = list(found[0]), random.choice(("", "", f"sep={delimiter}\n"))
    if random.random() < 0.5 and delimiter != "\t":
        header = [random.choice((f" {name}", f"{name} ", f" {name} ", name)) for name in header]
    with path.with_suffix(".csv").open("w", newline="", encoding=random.choice(("utf-8", "utf-8-sig"))) as file:
        file.write(above)
        writer = csv.writer(file, delimiter=delimiter, lineterminator=random.choice(("\n", "\r\n")))
        writer.writerow(header)
        writer.writerows([printed(cell, random) for cell in row.values()] for row in found)


def _json(path: Path, found: Rows, random: Random) -> None:
    """One JSON value with all rows."""
    columns = {name: [row[name] for row in found] for name in found[0]}
    value = random.choice(
        (
            {"data": found},
            {"version": "1.0", "data": found},
            {"rows": found},
            {"info": {"by": "x"}, "items": found},
            columns,
            {name: dict(enumerate(column)) for name, column in columns.items()},
            dict(enumerate(found)),
            found,
            {"columns": list(columns), "index": list(range(len(found))), "data": [list(row.values()) for row in found]},
        )
    )
    path.with_suffix(".json").write_text(json.dumps(value, indent=random.choice((None, 1))), encoding="utf-8")


def _saved(path: Path, found: Rows, random: Random) -> None:
    """What `save_to_disk` writes."""
    import datasets

    datasets.disable_progress_bars()
    datasets.Dataset.from_list(found).save_to_disk(str(path.with_suffix("")), num_shards=random.randint(1, 2))


def _columns(path: Path, found: Rows, random: Random) -> None:
    """A column file with comments and columns between."""
    between, separator = random.choice(("", "_", "NN _")).split(), random.choice((" ", "\t", "  "))
    end, number, text = random.choice(("", separator)), random.random() < 0.3, ""
    for count, row in enumerate(found, 1):
        if random.random() < 0.3:
            text += random.choice(_COMMENTS).format(count) + "\n"
        for place, cells in enumerate(zip(row["words"].split(), row["tags"].split(), strict=True), 1):
            text += separator.join([*[str(place)] * number, cells[0], *between, cells[1]]) + end + "\n"
        text += "\n" * random.randint(1, 2)
    path.with_suffix(random.choice((".conll", ".bio", ".iob"))).write_text(text, encoding="utf-8")


def _sounds(path: Path, found: Rows, random: Random) -> None:
    """Kaldi's tables, LJSpeech's or a folder's metadata, or a text beside each recording."""
    folder, way = path.with_suffix(""), random.choice(("Kaldi", "Kaldi", "LJSpeech", "metadata", "texts"))
    inner = folder / "wavs" if way == "LJSpeech" else folder
    inner.mkdir(parents=True)
    names = [f"u{number:02}" for number in range(len(found))]
    for name, row in zip(names, found, strict=True):
        shutil.copy(path.parent / row["file_name"], inner / f"{name}.wav")
        if way == "texts":
            (folder / f"{name}.txt").write_text(row["text"] + random.choice(("", "\n", "\r\n")), encoding="utf-8")
    texts = [row["text"] for row in found]
    if way == "Kaldi":
        blank = random.choice((" ", "\t", "  "))
        for file, values in {"wav.scp": [f"{name}.wav" for name in names], "text": texts, "utt2spk": names}.items():
            (folder / file).write_text(
                "".join(f"{name}{blank}{value}\n" for name, value in zip(names, values, strict=True)), encoding="utf-8"
            )
    elif way == "LJSpeech":
        (folder / "metadata.csv").write_text(
            "".join(f"{name}|{text}|{text}\n" for name, text in zip(names, texts, strict=True)), encoding="utf-8"
        )
    elif way == "metadata":
        _table(
            folder / "metadata",
            [{"file_name": f"{name}.wav", "text": text} for name, text in zip(names, texts, strict=True)],
            random,
        )


def _layouts(task: str, random: Random) -> Callable[[Path, Rows, Random], None]:
    """A layout that the task's data can have."""
    own = {"tagging": (_columns, _columns), "asr": (_sounds, _sounds)}.get(task, ())
    saved = () if task in (*examples.OF_SOUND, "detection") else (_saved,)
    return random.choice((_table, _table, _json, *own, *saved))


def _shaped(task: str, row: dict[str, Any], form: int) -> dict[str, Any]:
    """A row in one of the forms of its values."""
    match task:
        case "tagging" if form:
            return {name: text.split() for name, text in row.items()}
        case "qa" if form:
            return row | {"answer": {"text": [row["answer"]], "answer_start": [0]} if form == 1 else [row["answer"]]}
        case "translation" if form:
            return {"id": "7", "translation": row}
        case "multilabel" if form:
            quoted = [f'"{label}"' if "," in label else label for label in row["labels"]]
            return row | {"labels": ";|"[form - 1].join(quoted)}
    return row


def _spoiled(found: Rows, keys: list[str], random: Random) -> str:
    """Take a column away, or a value of one; what the message must say."""
    name = random.choice(keys)
    if random.random() < 0.5:
        for row in found:
            row["other"] = row.pop(name)
        return f"no column {name}"
    found[random.randrange(len(found))][name] = None
    return "null"


def try_layout(case: Case) -> None:
    """Write the data of a task in another layout, sound or spoiled, and train on them."""
    random, task = case.random, examples.TASKS[case.number % len(examples.TASKS)]
    source, folder = case.shared / "data" / task, case.folder / "data"
    shutil.copytree(source, folder)
    layout, form, said, changes = _layouts(task, random), random.randint(0, 2), "", {}
    spoil = layout in (_json, _saved) and task in _KEYS and random.random() < 0.3
    form = 0 if layout is _columns or spoil else form
    rename = not spoil and layout is not _columns and task in _KEYS and form == 0 and random.random() < 0.3
    for split in examples.ROWS:
        path = folder / f"{split}.jsonl"
        found = [_shaped(task, row, form) for row in examples.read(path)]
        path.unlink()
        if rename:
            changes = {task: {key: f"my {name}" for key, name in zip(_KEYS[task], found[0], strict=True)}}
            found = [{f"my {name}": value for name, value in row.items()} for row in found]
        if spoil and split == "train":
            said = _spoiled(found, list(found[0])[:1], random)
        layout(path, found, random)
    examples.write_yaml(case.folder / "run.yaml", examples.settings(task, "data", case.shared / "features", changes))
    end = case.call("run", "run.yaml", "--output", "run", codes=(2,) if said else (0,), limit=60.0)
    case.counts[layout.__name__.strip("_")] += 1
    case.expect(not said or said in end.err, f"the message does not say {said!r}: {end.err.strip()[:300]!r}")
    case.expect(said != "null" or "jsonl" not in end.err or "null" in end.err, "null is not named")
    case.expect("no column" not in said or "max_bad_rows" not in end.err, "a missing column is taken for broken rows")
    if end.code == 0:
        case.expect(
            rows.hashes(case.folder / "run") == rows.hashes(case.shared / "found" / task),
            "read otherwise than the plain rows",
        )
    if case.complaints:
        case.complaints = [f"{task}, {layout.__name__}, {form}: {complaint}" for complaint in case.complaints]


KINDS = (
    Kind(
        "layouts", "data in the layouts of other programs, by a run", try_layout, 200, share=2.0, prepare=rows.prepare
    ),
)
