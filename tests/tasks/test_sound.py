"""Tasks that hear, without a sound: what is done with features, transcripts and translations."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import task_tools

from seq2seq_suite.common.errors import DataError
from seq2seq_suite.common.examples import Example
from seq2seq_suite.common.shapes import SoundShape
from seq2seq_suite.common.types import END
from seq2seq_suite.data.audio import Recording
from seq2seq_suite.data.formats import Row
from seq2seq_suite.tasks.speech_translation import Translated

make_task = partial(task_tools.make_task, audio__bins=3, audio__frequency_width=1, audio__subsampling=2)


class Known:
    """Features by name instead of from sound; remembers at which speeds they were asked for."""

    def __init__(self, frames: dict[str, np.ndarray]):
        self.frames, self.speeds = frames, []

    def of(self, sounds, *, speeds=()):
        self.speeds.append(list(speeds))
        return [self.frames.get(sound.name, DataError("cannot be read")) for sound in sounds]


def hearing(task, frames: dict[str, np.ndarray]):
    task.source.features = Known(frames)
    return task


def of_length(*lengths: int) -> dict[str, np.ndarray]:
    chance = np.random.Generator(np.random.PCG64(3))
    return {
        f"{number}.wav": chance.normal([5.0, -9.0, 0.0], [2.0, 0.5, 1.0], (length, 3)).astype(np.float32)
        for number, length in enumerate(lengths)
    }


def test_mean_and_deviation_are_those_of_all_frames():
    frames = of_length(7, 40, 3)
    frames["1.wav"][:, 2] = frames["0.wav"][:, 2] = frames["2.wav"][:, 2] = -13.8  # a band that is silent everywhere
    task = hearing(make_task("asr"), frames)
    task.fit([Example(Recording(name), "a") for name in frames])
    every = np.concatenate(list(frames.values())).astype(np.float64)
    np.testing.assert_allclose(task.source.mean, every.mean(0), rtol=1e-5)
    np.testing.assert_allclose(task.source.deviation[:2], every.std(0)[:2], rtol=1e-4)
    assert task.source.deviation[2] == pytest.approx(0.1)
    shape = task.shape().source
    assert shape.mean == tuple(task.source.mean.tolist()) and shape.deviation == tuple(task.source.deviation.tolist())


@pytest.mark.parametrize(("text", "needed"), [("ab", 2), ("aab", 4), ("aaa", 5), ("abab", 4), ("a  a", 3), ("aa a", 5)])
def test_ctc_needs_a_vector_for_each_letter_and_one_between_two_that_are_alike(text, needed, capsys):
    for frames, short in ((2 * needed - 1, False), (2 * needed - 2, True)):  # two frames become a vector, a rest too
        task = hearing(make_task("asr"), of_length(frames, 50))
        task.fit([Example(Recording("0.wav"), text, "rows:1"), Example(Recording("1.wav"), text, "rows:2")])
        assert (" too short for CTC" in capsys.readouterr().out) == short


def test_five_recordings_that_are_too_short_are_named_and_the_others_counted(capsys):
    examples = [Example(Recording("0.wav"), "abc", f"rows:{number}") for number in range(7)]
    hearing(make_task("asr", data={"path": "recordings"}), of_length(2)).fit(examples)
    printed = capsys.readouterr().out
    assert "train: 7 of 7 recordings" in printed and "rows:0, rows:1, rows:2, rows:3, rows:4, ..." in printed


def test_a_recording_may_be_as_long_as_the_key_says_and_no_longer():
    task = hearing(make_task("asr", data__max_length=100), of_length(100, 101))
    assert task.from_text(" 0.wav\n", origin="list:1").source == Recording("0.wav")
    with pytest.raises(DataError, match=r"list:2: a recording of 1\.0 seconds") as caught:
        task.from_text("1.wav", origin="list:2")
    assert "frames of 10 ms" in str(caught.value)
    with pytest.raises(DataError, match=r"list:3: other\.wav: cannot be read"):
        task.from_text("other.wav", origin="list:3")


def test_features_are_computed_once():
    task = hearing(make_task("asr"), of_length(4, 5))
    first = task.source.features_of([Recording("0.wav"), Recording("1.wav"), Recording("0.wav")])
    assert [len(one) for one in first] == [4, 5, 4] and first[0] is first[2]
    task.source.features = Known({})
    assert task.source.features_of([Recording("1.wav")])[0] is first[1]


def test_each_recording_has_a_speed_of_its_own_in_each_epoch():
    speeds = [0.9, 1.0, 1.1]

    def drawn(epoch: int, *, seed: int = 1) -> list[float]:
        task = hearing(make_task("asr", audio__speeds=speeds, seed=seed), of_length(4))
        task.encode_epoch([Example(Recording("0.wav"))] * 60, epoch)
        return task.source.features.speeds[-1]

    assert drawn(0) == drawn(0) and drawn(0) != drawn(1) and drawn(0) != drawn(0, seed=2)
    assert all(10 < drawn(2).count(speed) < 30 for speed in speeds)
    plain = hearing(make_task("asr"), of_length(4))
    assert [len(item.source) for item in plain.encode([Example(Recording("0.wav"))])] == [4] and not plain.varies


def test_a_transcript_is_target_and_what_ctc_spells():
    task = hearing(make_task("asr"), of_length(9))
    example = Example(Recording("0.wav"), "Go, to it's!", "rows:1")
    task.fit([example])
    item = task.encode([example, Example(Recording("0.wav"))])[0]
    assert task.target.pieces.decode(item.target.tolist()) == "go to it's" and item.target[-1] == END
    assert item.auxiliary["ctc"].tolist() == item.target[:-1].tolist()
    bare = task.encode([Example(Recording("0.wav"))])[0]
    assert bare.target.size == 0 and "ctc" not in bare.auxiliary
    assert task.to_text(None) == "" and task.presentation.for_terminal(None) == "(silence)"
    assert task.presentation.for_terminal("go") == task.to_text("go") == "go"


def test_a_translation_is_the_target_and_ctc_spells_what_is_said(tmp_path):
    task = hearing(make_task("speech_translation", speech_translation__subwords="characters"), of_length(99))
    reference = task.reference(Row({"text": "The dog, too!", "translation": " Auch  der Hund. "}, "rows", 1))
    assert reference == Translated("Auch der Hund.", "The dog, too!")
    example = Example(Recording("0.wav"), reference, "rows:1")
    task.fit([example])
    item = task.encode([example])[0]
    assert task.target.pieces.decode(item.target[:-1].tolist()) == "Auch der Hund." and item.target[-1] == END
    assert task.transcript.pieces.decode(item.auxiliary["ctc"].tolist()) == "the dog too"
    shape = task.shape()
    assert shape.target.symbols == len(task.target) == 4 + 11
    assert shape.source.transcript == len(task.transcript) == 4 + 7
    task.save(tmp_path)
    other = make_task("speech_translation", speech_translation__subwords="characters")
    other.load(tmp_path)
    assert other.shape() == shape and other.target.pieces.decode(item.target[:-1].tolist()) == "Auch der Hund."


def test_what_is_said_must_fit_into_the_sound_and_not_its_translation(capsys):
    examples = [
        Example(Recording("0.wav"), Translated("a long translation", "ab"), "rows:1"),
        Example(Recording("0.wav"), Translated("x", "aab"), "rows:2"),
    ]
    hearing(make_task("speech_translation", speech_translation__subwords="characters"), of_length(6)).fit(examples)
    printed = capsys.readouterr().out
    assert "train: 1 of 2 recordings" in printed


def test_translations_are_written_read_and_scored(tmp_path):
    task = make_task("speech_translation", speech_translation__translation_column="de")
    example = Example(Recording(str(tmp_path / "a.wav")), Translated("Ein Hund.", "a dog"), "rows:1")
    assert task.row(example, "Der Hund.") == {"audio": str(tmp_path / "a.wav"), "text": "a dog", "de": "Der Hund."}
    (tmp_path / "found.txt").write_text("Ein  Hund.\n\n")
    assert task.read_references(tmp_path / "found.txt") == [Translated("Ein Hund."), Translated("")]
    gold = [Translated("Ein Hund sieht eine Katze.")]
    assert task.score(gold, gold).figures["bleu"] == pytest.approx(100.0)
    assert task.score(["Ein Hund sieht eine Katze."], gold).figures["bleu"] == pytest.approx(100.0)
    assert task.score([None], gold).figures["empty_rate"] == 100.0
    assert task.to_text(gold[0]) == "Ein Hund sieht eine Katze." and task.presentation.for_terminal(None) == "(nothing)"


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"text": "..."}, "the transcript has no word"),
        ({"text": None}, "no text in column 'text'"),
        ({"translation": " "}, "no text in column 'translation'"),
    ],
)
def test_a_row_without_transcript_or_translation_is_refused(change, got):
    with pytest.raises(DataError, match=got) as caught:
        make_task("speech_translation").reference(Row({"text": "a", "translation": "b", **change}, "rows.jsonl", 7))
    assert "rows.jsonl:7" in str(caught.value)


def test_the_front_end_masks_as_the_keys_say():
    task = hearing(
        make_task(
            "asr",
            audio__bins=8,
            audio__subsampling=4,
            audio__frequency_bars=3,
            audio__frequency_width=5,
            audio__time_bars=2,
            audio__time_share=0.25,
        ),
        of_length(9),
    )
    shape = replace(task.shape().source, mean=(), deviation=())
    assert shape == SoundShape(subsampling=4, masking=(3, 5, 2, 0.25), transcript=shape.transcript)
