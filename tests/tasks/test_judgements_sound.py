"""What speech recognition says of its outputs: equal words, kinds of errors, facts, charts."""

import pytest
import task_tools

pytest.importorskip("jiwer", reason="comes with the extra `speech`")

from seq2seq_suite.types import Example


class Voice:
    """A sound that knows how it was spoken."""

    def __init__(self, voice: str, rate: int):
        self.name, self.voice, self.rate, self.pitch, self.noise = "x", voice, rate, 50, 21.5


@pytest.fixture
def task(tmp_path):
    return task_tools.make_task("asr", audio__cache=str(tmp_path))


def test_case_and_full_stops_make_no_error(task):
    assert task.judge("the boy sleeps", "The boy sleeps.", Example("")).equal


def test_errors_are_named_by_kind(task):
    judged = task.judge("the toy sleeps now", "The boy sleeps.", Example(""))
    assert (judged.equal, judged.kinds) == (False, ("substitution", "insertion"))
    assert task.judge(None, "Go.", Example("")).kinds == ("deletion",)


def test_facts_are_those_of_the_voice_and_none_for_a_plain_file(task):
    assert task.facts(Example(Voice("en+a", 150))) == {"speaker": "en+a", "rate": 150, "pitch": 50, "noise": 21.5}
    assert task.facts(Example("a.wav")) == {}


def test_charts_show_the_error_rate_of_each_speaker_and_the_words_misheard(task):
    examples = [Example(Voice("en+a", 150), "The boy."), Example(Voice("en+b", 190), "The boy.")]
    panels = {panel["title"]: panel for panel in task.panels(examples, ["the boy", "the toy"])}
    assert [point[:2] for point in panels["Word error rate by speaker"]["series"][0]["points"]] == [
        ["en+b", 50.0], ["en+a", 0.0]]
    assert [point[0] for point in panels["Word error rate by rate"]["series"][0]["points"]] == ["140–159", "180–199"]
    assert panels["Words misheard most"]["rows"] == [["boy", "toy", 1]]
