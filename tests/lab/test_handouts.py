"""Handouts: the two languages say the same, of laws, files, points and notes that there are, and give nothing away."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from seq2seq_suite.lab import assignment as lab
from seq2seq_suite.lab import starting
from seq2seq_suite.lab.experiment import EXPERIMENTS, read_file
from seq2seq_suite.lab.folder import REFUSED
from tests.lab.course import each_assignment

HANDOUTS = Path(lab.__file__).parent / "handouts"
NOTES = Path(os.environ.get("S2S_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "notes"


def handout(assignment, language):
    return (HANDOUTS / language / f"{assignment.number:02}-{assignment.name}.md").read_text(encoding="utf-8")


def without_code(text):
    return re.sub(r"```.*?```|`[^`]*`|\$[^$]*\$", " ", text, flags=re.DOTALL)


def skeleton(text):
    """What both languages share: levels of headings, code, formulas, rows of tables, hints, numbers."""
    plain = without_code(text)
    return {
        "headings": [len(mark) for mark in re.findall(r"(?m)^(#+) ", text)],
        "blocks": re.findall(r"```.*?```", text, re.DOTALL),
        "code": Counter(re.findall(r"`[^`\n]+`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))),
        "formulas": Counter(re.findall(r"\$[^$\n]+\$", text)),
        "lines": [line[:2] if line[:1] in "|-" else line[:1].isdigit() for line in text.splitlines()],
        "hints": re.findall("<details.*?>", text),
        "numbers": set(re.findall(r"\d+(?:\.\d+)?", plain)),
    }


@each_assignment
def test_both_languages_have_the_same_skeleton(assignment):
    one, other = (skeleton(handout(assignment, language)) for language in ("en", "zh"))
    for what in one:
        assert one[what] == other[what], what


@each_assignment
def test_a_handout_lists_every_law_with_what_it_says(assignment):
    for language, kinds in (("en", {"value": "value", "edge": "edge"}), ("zh", {"value": "数值", "edge": "边界"})):
        rows = re.findall(r"(?m)^\| `([\w.]+)` \| (\S+) \| (.*) \|$", handout(assignment, language))
        assert rows == [
            (law.name, kinds[law.kind], law.says if language == "en" else law.says_zh) for law in assignment.laws()
        ]


@each_assignment
def test_a_handout_names_every_file_function_and_point(assignment):
    for language in ("en", "zh"):
        text = handout(assignment, language)
        for part in assignment.parts:
            assert f"`{part.name}.py`" in text and all(f"`{function}(" in text for function in part.functions)
            assert f"{part.name} {part.points:g}" in text or f"{part.name} +{part.points:g}" in text
        assert f"{assignment.points:g}" in text.splitlines()[-1]
        assert (assignment.title if language == "en" else assignment.title_zh) in text.splitlines()[0]
        assert len(text.splitlines()) <= 90


@each_assignment
def test_what_is_handed_out_asks_what_the_answers_file_asks(assignment, tmp_path):
    for language in ("en", "zh"):
        starting.start(assignment, tmp_path / language, student="", language=language)
        asked = re.findall(r"(?m)^# (.*\)$)", (tmp_path / language / "answers.yaml").read_text(encoding="utf-8"))
        text = (tmp_path / language / "README.md").read_text(encoding="utf-8")
        assert asked and re.findall(r"(?m)^\d+\. (.*)$", text) == asked


@each_assignment
def test_what_is_handed_out_says_what_may_not_be_used(assignment):
    for language in ("en", "zh"):
        section = starting.handout(assignment, language).partition("\n## Laws" if language == "en" else "\n## 规则")[0]
        last = section.splitlines()[-1]
        for name in (*REFUSED, *(one.rpartition(".")[2] for part in assignment.parts for one in part.forbidden)):
            assert f"`{name}`" in last, name


@each_assignment
def test_a_question_has_the_same_numbers_and_choices_in_both_languages(assignment):
    for name, question in read_file(EXPERIMENTS / f"{assignment.name}.yaml").questions.items():
        one, other = (
            sorted(re.findall(r"\w*\d(?:\.\d+)?", text, re.ASCII)) for text in (question.ask, question.ask_zh)
        )
        assert one == other and re.search(r"[\u4e00-\u9fff]", question.ask_zh), name
        assert not re.search(r"[\u4e00-\u9fff]", question.ask.replace("機器", "")), name


@each_assignment
def test_each_hint_names_laws_that_there_are_and_is_found_by_them(assignment):
    names = [law.name for law in assignment.laws()]
    marks = re.findall(r'<details data-laws="([^"]*)"><summary>', handout(assignment, "en"))
    assert marks and len(marks) == handout(assignment, "en").count("<details")
    for name in " ".join(marks).split():
        assert any(law == name or law.startswith(f"{name}.") for law in names), name
        assert starting.hints(assignment, name, "en") and starting.hints(assignment, name, "zh")


@each_assignment
def test_a_handout_holds_no_line_of_a_solution(assignment):
    for language in ("en", "zh"):
        text = re.sub(r"\s+", "", handout(assignment, language))
        for part in assignment.parts:
            for body in re.findall(r"# BEGIN SOLUTION\n(.*?)# END SOLUTION", assignment.text(part.name), re.DOTALL):
                lines = [re.sub(r"\s+", "", line) for line in body.splitlines()]
                assert not [line for line in lines if len(line) > 12 and line in text]


@each_assignment
def test_what_a_handout_quotes_of_a_note_stands_there(assignment):
    if not NOTES.is_dir():
        pytest.skip("compares with the lecture notes in shared/notes beside the checkout (or where S2S_SHARED points)")
    notes = {path.name[:3]: re.sub(r"\s+", "", path.read_text(encoding="utf-8")) for path in NOTES.glob("*.txt")}
    text = handout(assignment, "en")
    section = text[text.index("## Read") : text.index("## Write")]
    for line in section.splitlines():
        for piece in line.split(";"):
            for number in (named := re.findall(r"[Nn]otes? (\d\d\d)", piece)):
                assert number in notes and number in assignment.notes, number
            for quote in re.findall(r'"([^"]+)"', piece) if named else ():
                assert any(re.sub(r"\s+", "", quote) in notes[number] for number in named), quote
