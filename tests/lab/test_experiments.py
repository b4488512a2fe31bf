"""The experiments as they are handed out: files that can be read, points that add up, questions that have answers."""

from collections import defaultdict

import pytest

from seq2seq_suite.lab import answers, experiment
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.experiment import EXPERIMENTS, read_experiment
from seq2seq_suite.lab.plug import CHANGES, SLOTS

COURSE = {assignment.name: assignment for assignment in ASSIGNMENTS}
NAMES = sorted(file.stem for file in EXPERIMENTS.glob("*.yaml"))


@pytest.fixture
def experiment_of(tmp_path, monkeypatch):
    """Reads an assignment's experiment for a student."""
    monkeypatch.setattr(experiment, "EXPERIMENTS", EXPERIMENTS)  # other tests have one of their own there

    def read(name):
        (tmp_path / "lab.yaml").write_text(f"assignment: {name}\nstudent: ada\n")
        return read_experiment(tmp_path)
    return read


@pytest.mark.parametrize("name", NAMES)
def test_points_add_up_and_only_what_the_assignment_asks_for_is_plugged_in(name, experiment_of):
    found, assignment = experiment_of(name), COURSE[name]
    assert found.given.points == assignment.experiment
    assert sum(question.points for question in found.given.questions.values()) == assignment.questions
    own = {function for part in assignment.parts for function in part.functions}
    for plan in found.plans.values():
        assert set(plan.plug) <= own & set(SLOTS) and set(plan.also) <= set(CHANGES)
        assert plan.config.training.threads == 1 and plan.config.backbone.dropout == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_every_question_has_an_answer_in_the_runs(name, experiment_of, monkeypatch):
    read = experiment_of(name)
    reading = ("apart", "same", "words", "loss", "parameters", "interval_low", "interval_high")
    for function in reading:
        monkeypatch.setitem(answers.FUNCTIONS, function, lambda *args: 1.0)
    runs = {run: answers.Measured(run, EXPERIMENTS, defaultdict(lambda: 1.0, dict.fromkeys(FIGURES, 1.0)))
            for run in read.plans}
    for key, question in read.given.questions.items():
        assert question.ask_zh, key
        if question.answer:
            found = answers.evaluate(question.answer, runs)
            assert not question.choices or found in question.choices, key


FIGURES = ("bleu", "exact_match", "forced", "decoding_seconds", "repeated", "invalid", "micro_f1", "macro_f1",
           "wer", "deletions", "substitutions", "insertions")
