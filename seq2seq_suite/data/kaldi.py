"""Kaldi's tables of recordings: `wav.scp`, with `text` and perhaps `utt2spk` beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from seq2seq_suite.common.errors import DataError, truncate
from seq2seq_suite.data.lines import BadRows, Lines, Row


def read_recordings(file: Path, bad: BadRows) -> Iterator[Row]:
    """A row for each recording with a text; what is in one table alone is a broken row, in `utt2spk` a note."""
    remedy = "cut the recordings, and write one for each utterance"
    if (file.parent / "segments").is_file():
        raise DataError(
            "the utterances are parts of recordings",
            file=str(file.parent / "segments"),
            line=1,
            expected="a recording for each utterance",
            remedy=remedy,
        )
    said, spoken = file.parent / "text", file.parent / "utt2spk"
    texts, speakers = dict(_read_keyed(said, bad)), dict(_read_keyed(spoken, bad)) if spoken.is_file() else {}
    roots = (file.parent, *file.parent.parents[:3])  # the paths are relative to where the recipe was run
    root, recordings = None, set()
    for utterance, (line, path) in _read_keyed(file, bad):
        recordings.add(utterance)
        place = {"file": str(file), "line": line}
        if path.endswith("|") or re.search(r"\.ark(:\d+)?$", path):
            where = "a command" if path.endswith("|") else "in an archive"
            bad.add(
                DataError(
                    f"{utterance} is {where}: {truncate(path)}",
                    **place,
                    expected="the path of a sound file",
                    remedy="run the commands, copy what is in archives, and write the paths of the files",
                )
            )
        elif utterance not in texts:
            bad.add(
                DataError(
                    f"{utterance} has no text",
                    **place,
                    expected=f"a line of {said}",
                    remedy="add its text, or remove the recording",
                )
            )
        else:
            root = root or next((one for one in roots if (one / path).is_file()), file.parent)
            extra = {"speaker": speakers[utterance][1]} if utterance in speakers else {}
            yield Row(
                {
                    "audio": os.path.relpath(root / path, file.parent),
                    "text": texts[utterance][1],
                    "id": utterance,
                    **extra,
                },
                str(file),
                line,
            )
    for utterance, (line, _) in texts.items():
        if utterance not in recordings:
            bad.add(
                DataError(
                    f"{utterance} has no recording",
                    file=str(said),
                    line=line,
                    expected=f"a line of {file}",
                    remedy="add its recording, or remove the text",
                )
            )
    if speakers:
        for orphans, has in (
            (recordings - speakers.keys(), "no speaker"),
            (speakers.keys() - recordings, "a speaker, but no recording"),
        ):
            if orphans:
                bad.notes.append(f"{spoken}: {len(orphans):,} utterances have {has}, the first {min(orphans)}")


def _read_keyed(file: Path, bad: BadRows) -> Iterator[tuple[str, tuple[int, str]]]:
    """(key, (line, value)) of each line of one of the tables; of a key that is there twice the first."""
    lines, places = Lines(file, bad.longest), dict[str, int]()
    expected = "an utterance that no other line has, a blank or tab, and its value, in UTF-8"
    for line in filter(str.strip, lines):
        key, *value = re.split("[ \t]+", line.strip(" \t\r\n"), maxsplit=1)
        with bad.row(file, lines.number, expected=expected):
            lines.check(lines.number, lines.number)
            if not value:
                raise ValueError(f"nothing after {key!r}")
            if key in places:
                raise ValueError(f"{truncate(key)} is there twice, first in line {places[key]}")
            places[key] = lines.number
            yield key, (lines.number, value[0])
