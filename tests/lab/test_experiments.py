"""The experiments as they are handed out: files that can be read, points that add up, questions that have answers."""

from collections import defaultdict

import pytest
import yaml

from seq2seq_suite.common.errors import ConfigError
from seq2seq_suite.config import config_file
from seq2seq_suite.lab import answers, experiment
from seq2seq_suite.lab.assignments import ASSIGNMENTS
from seq2seq_suite.lab.experiment import EXPERIMENTS, OF_A_RUN, read_experiment
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
    runs = {
        run: answers.Measured(run, EXPERIMENTS, defaultdict(lambda: 1.0, dict.fromkeys(FIGURES, 1.0)))
        for run in read.plans
    }
    for key, question in read.given.questions.items():
        assert question.ask_zh, key
        if question.answer:
            found = answers.evaluate(question.answer, runs)
            assert not question.choices or found in question.choices, key


FIGURES = (
    "bleu",
    "exact_match",
    "forced",
    "decoding_seconds",
    "repeated",
    "invalid",
    "micro_f1",
    "macro_f1",
    "wer",
    "deletions",
    "substitutions",
    "insertions",
    "main",
)


@pytest.mark.parametrize("name", ["speech", "study"])
def test_whatever_is_chosen_makes_runs_and_the_grader_takes_that_and_nothing_else(name, experiment_of, tmp_path):
    given = experiment_of(name).given
    for choice, options in given.choices.items():
        for option in options:
            chosen = given.chosen | {choice: option}
            other = next((one for one in given.choices if one != choice and given.choices[one] == options), choice)
            if other != choice and chosen[other] == option:
                chosen[other] = given.chosen[choice]
            (tmp_path / "experiment.yaml").write_text(
                yaml.safe_dump(
                    {
                        "base": "labels.yaml",
                        "settings": {"training.max_updates": 1},
                        "chosen": chosen,
                        "runs": {"x": {}},
                    }
                )
            )
            plans = read_experiment(tmp_path, own=False).plans
            assert set(plans) == set(given.runs)
            assert min(plan.config.training.max_updates for plan in plans.values()) > 1
            mine = [plan.config for run, plan in plans.items() if choice in given.runs[run]["choose"]]
            assert all(reached(config, *setting) for config in mine for setting in options[option].items())


def reached(config, key, value):
    if key in OF_A_RUN:
        return True
    for name in key.split("."):
        config = getattr(config, name)
    return config == value or list(config) == value


def test_a_study_is_of_two_tasks_and_two_ways():
    choices = experiment.File.model_validate(config_file.parse(EXPERIMENTS / "study.yaml")).choices
    assert choices["first"] == choices["second"] and choices["a"] == choices["b"]
    assert len(choices["first"]) >= 3 and len(choices["a"]) >= 6


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"first": "detection"}, "chosen: first: detection"),
        ({"second": "translation"}, "first and second are both"),
        ({"b": "default"}, "a and b are both default"),
        ({"a": ""}, "chosen: a: nothing"),
    ],
)
def test_a_choice_out_of_bounds_is_refused(chosen, said, experiment_of, tmp_path):
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump({"base": "labels.yaml", "chosen": chosen, "runs": {}}))
    with pytest.raises(ConfigError, match=said):
        experiment_of("study")
        read_experiment(tmp_path, own=False)
