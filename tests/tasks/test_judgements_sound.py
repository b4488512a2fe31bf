"""What speech recognition says of its outputs: equal words, kinds of errors, facts, charts."""

import base64
import io
import wave

import numpy as np
import pytest
import task_tools

pytest.importorskip("jiwer", reason="comes with the extra `speech`")

from seq2seq_suite.common.examples import Example
from seq2seq_suite.tasks.speech_translation import Translated


class Voice:
    """A sound that knows how it was spoken."""

    def __init__(self, voice: str, rate: int):
        self.name, self.voice, self.rate, self.pitch, self.noise = "x", voice, rate, 50, 21.5


@pytest.fixture
def task(tmp_path):
    return task_tools.make_task("asr", audio__cache=str(tmp_path))


def test_case_and_full_stops_make_no_error(task):
    assert task.presentation.judge("the boy sleeps", "The boy sleeps.", Example("")).equal


def test_errors_are_named_by_kind(task):
    judged = task.presentation.judge("the toy sleeps now", "The boy sleeps.", Example(""))
    assert (judged.equal, judged.kinds) == (False, ("substituted", "inserted"))
    assert task.presentation.judge(None, "Go.", Example("")).kinds == ("deleted",)
    assert task.presentation.judge("a an the boy", "The boy.", Example("")).kinds == ("inserted",)


def test_facts_are_those_of_the_voice_and_none_for_a_plain_file(task):
    assert task.presentation.facts(Example(Voice("en+a", 150))) == {
        "speaker": "en+a",
        "rate": 150,
        "pitch": 50,
        "noise": 21.5,
    }
    assert task.presentation.facts(Example("a.wav")) == {}


def test_charts_show_the_error_rate_of_each_speaker_and_the_words_misrecognised(task):
    examples = [Example(Voice("en+a", 150), "The boy."), Example(Voice("en+b", 190), "The boy.")]
    panels = {panel["title"]: panel for panel in task.presentation.charts(examples, ["the boy", "the toy"])}
    speakers = panels["By speaker"]
    assert sorted(point[:2] for point in speakers["totals"]) == [["en+a", 0.0], ["en+b", 50.0]]
    assert {one["name"]: one["points"] for one in speakers["series"]} == {
        "substituted": [["en+b", 50.0], ["en+a", 0.0]],
        "deleted": [["en+b", 0.0], ["en+a", 0.0]],
        "inserted": [["en+b", 0.0], ["en+a", 0.0]],
    }
    assert [point[0] for point in panels["By speaking rate"]["series"][0]["points"]] == ["140–159", "180–199"]
    assert panels["Words misrecognised most"]["rows"] == [["boy", "toy", 1]]


def test_translations_of_speech_are_judged_by_words(tmp_path):
    task = task_tools.make_task("speech_translation", audio__cache=str(tmp_path))
    gold = Translated("猫看狗。", "the cat sees the dog")
    assert task.presentation.judge("猫 看 狗 。", gold, Example("", gold)).equal
    assert task.presentation.judge("狗看猫。", gold, Example("", gold)).kinds == ("order",)
    assert task.presentation.judge(None, gold, Example("", gold)).kinds == ("malformed",)
    assert task.presentation.charts([Example("", gold)], ["猫看"])[0]["series"][0]["points"] == [[4, 2, None, None, 1]]


def test_a_page_gets_spectrogram_and_sound(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    task = task_tools.make_task("asr", audio__cache=str(tmp_path / "cache"))
    time = np.arange(16000) / 16000
    soundfile.write(tmp_path / "a.wav", 0.3 * np.sin(2 * np.pi * 300 * time), 16000)
    found = task.presentation.media(task.from_text(str(tmp_path / "a.wav")))
    values = np.frombuffer(base64.b64decode(found["values"]), dtype=np.uint8).reshape(found["frames"], found["bins"])
    assert found["seconds"] == pytest.approx(1.0, abs=0.02) and values[10:-10].mean(0).argmax() < found["bins"] // 3
    with wave.open(io.BytesIO(base64.b64decode(found["sound"].partition(",")[2]))) as file:
        assert (file.getframerate(), file.getsampwidth()) == (8000, 1) and abs(file.getnframes() - 8000) < 10
        played = np.frombuffer(file.readframes(8000), dtype=np.uint8) / 127.5 - 1
    strongest = np.abs(np.fft.rfft(played)).argmax() * 8000 / len(played)
    assert strongest == pytest.approx(300, abs=2)


def test_words_are_shown_as_they_are_scored(task):
    assert task.presentation.output_data(Example(""), "The boy sleeps.") == {"text": "the boy sleeps"}
