"""What a task keeps of its training data: whatever happened to a file, loading it names the file."""

import json

import numpy as np
import pytest
from task_tools import make_task, write_rows

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.data.pictures import Objects
from seq2seq_suite.options.data import Data
from seq2seq_suite.tasks.asr import ASROptions, SpeechRecognitionTask
from seq2seq_suite.tasks.sound import Audio

TEXTS = [{"text": f"oil rises {number} dlrs", "labels": ["oil", "up"]} for number in range(6)]
ROWS = {
    "parsing": ({}, [{"tree": "(S (NP (NN cats)) (VP (VBP sleep)))"}]),
    "translation": ({"translation__vocabulary_size": 40}, [{"src": "the cat sleeps", "tgt": "die Katze schläft"}]),
    "qa": (
        {"qa__encoding": "pieces", "qa__pieces": 40, "qa__pointer": False},
        [{"question": "Who sleeps?", "context": "The cat sleeps.", "answer": "cat"}],
    ),
    "multilabel": ({"multilabel__head": "pooled", "multilabel__decision": "marginals"}, TEXTS),
}
DAMAGE = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) // 2],
    "nothing": lambda whole: None,
    "noise": lambda whole: b"\x80\xfe\x00" * 9,
    "deep": lambda whole: b"[" * 100_000,
    "number": lambda whole: b"3",
    "list": lambda whole: b"[[1, null]]",
    "object": lambda whole: b'{"format": 1, "threshold": true}',
}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Each task with the folder that it saved its vocabulary into."""
    found = {}
    for name, (keys, rows) in ROWS.items():
        task = make_task(name, data__path=write_rows(tmp_path_factory.mktemp("data"), rows), **keys)
        task.fit(task.read("train"))
        found[name] = task
    found["detection"] = make_task("detection")
    found["detection"].fit([Example(None, Objects(((0.0, 0.0, 1.0, 1.0),), ("cat",)))])
    sound = SpeechRecognitionTask(ASROptions(), Audio(bins=4), Data())
    sound.mean, sound.deviation = np.zeros(4, dtype=np.float32), np.ones(4, dtype=np.float32)
    found["asr"] = sound
    for task in found.values():
        task.folder = tmp_path_factory.mktemp("vocabulary")
        task.save(task.folder)
    (found["multilabel"].folder / "threshold.json").write_text('{"threshold": 0.25}\n')
    return found


@pytest.mark.parametrize("name", [*ROWS, "asr", "detection"])
@pytest.mark.parametrize(("path", "subset"), [("/" + "x" * 5_000, ""), (".", "x" * 5_000), ("~nobody-at-all/x", "")])
def test_a_path_that_can_be_none_is_refused(name, path, subset):
    keys = ROWS[name][0] if name in ROWS else {}
    with pytest.raises(DataError, match="not a usable path"):
        make_task(name, data__path=path, data__subset=subset, **keys).read("train")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("parsing", "symbols.json"),
        ("parsing", "words.json"),
        ("translation", "joint.model"),
        ("qa", "pieces.model"),
        ("qa", "symbols.json"),
        ("multilabel", "labels.json"),
        ("multilabel", "threshold.json"),
        ("detection", "labels.json"),
        ("asr", "features.npz"),
        ("asr", "symbols.json"),
        ("asr", "word_pairs.json"),
    ],
)
def test_a_damaged_file_is_named(fitted, name, file, damage):
    task, path = fitted[name], fitted[name].folder / file
    task.load(task.folder)
    whole = path.read_bytes()
    content = DAMAGE[damage](whole)
    try:
        path.unlink() if content is None else path.write_bytes(content)
        if file in ("threshold.json", "word_pairs.json") and damage == "nothing":
            return  # there only where a threshold was tuned, and not in runs of earlier versions
        with pytest.raises(DataError) as caught:
            task.load(task.folder)
    finally:
        path.write_bytes(whole)
    assert caught.value.file == str(path) and caught.value.remedy


def test_arrays_of_another_size_are_refused(fitted, tmp_path):
    sound = fitted["asr"]
    for mean in (np.zeros(5, dtype=np.float32), np.full(4, np.nan, dtype=np.float32), np.array(["a"] * 4)):
        sound.source.mean = mean
        sound.save(tmp_path)
        with pytest.raises(DataError, match="no statistics of 4 bins"):
            sound.load(tmp_path)


@pytest.mark.parametrize("value", [0, 1.5, float("nan"), "0.5", None, True])
def test_a_threshold_lies_between_none_and_all(fitted, value):
    file = fitted["multilabel"].folder / "threshold.json"
    whole = file.read_text()
    file.write_text(json.dumps({"threshold": value}))
    with pytest.raises(DataError, match="the threshold is"):
        fitted["multilabel"].load(file.parent)
    file.write_text(whole)
    fitted["multilabel"].load(file.parent)
    assert fitted["multilabel"].threshold == 0.25
