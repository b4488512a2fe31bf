"""The section `miniworld`: which rows a task reads by it, and which keys are refused where nothing reads them."""

import pytest

from seq2seq_suite import miniworld
from seq2seq_suite.config.schema import Config
from seq2seq_suite.miniworld import rich_world
from seq2seq_suite.options.miniworld import KNOBS, Miniworld
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks import TASKS

OFF_DEFAULT = {
    "words": 50,
    "cognates": 0.25,
    "ambiguity": 2,
    "ambiguity_skew": (0.6, 0.4),
    "ambiguity_scope": "choice",
    "ambiguity_named": True,
    "attachment": 1.0,
    "disagreement": (0.1, 0.02),
}
NEEDED = {
    "cognates": {"words": 50},
    "ambiguity_skew": {"ambiguity": 2},
    "ambiguity_scope": {"ambiguity": 2},
    "ambiguity_named": {"ambiguity": 2},
}


def config(task, **section):
    return Config.model_validate({"task": task, "miniworld": {"world": "rich", **section}})


def test_the_section_has_the_knobs_of_the_rich_world():
    knobs = Miniworld(world="rich").knobs()
    assert set(knobs) == set(KNOBS) == set(OFF_DEFAULT) and rich_world(**knobs) == rich_world()
    assert Miniworld().knobs() is None
    assert {view for views in KNOBS.values() for view in views} == miniworld.VIEWS.keys() - {"pictures"}


@pytest.mark.parametrize("task", sorted(TASKS))
@pytest.mark.parametrize("knob", KNOBS)
def test_a_knob_that_a_task_does_not_see_is_refused_by_name(knob, task):
    view = open_task(task, Config(task=task)).view
    given = {**NEEDED.get(knob, {}), knob: OFF_DEFAULT[knob]}
    if view in KNOBS[knob]:
        assert getattr(config(task, **given).miniworld, knob) == OFF_DEFAULT[knob]
    else:
        with pytest.raises(ValueError, match=f"miniworld.{knob} .* has no effect with task {task}"):
            config(task, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"miniworld": {"words": 9}}, "miniworld.words 9 has no effect with miniworld.world plain"),
        (
            {"miniworld": {"world": "rich"}, "data": {"path": "x"}},
            "miniworld.world rich has no effect with data.path x",
        ),
        ({"miniworld": {"world": "rich", "cognates": 0.1}}, "has no effect with miniworld.words 0"),
        ({"miniworld": {"world": "rich", "ambiguity_named": True}}, "has no effect with miniworld.ambiguity 1"),
        ({"miniworld": {"world": "rich", "ambiguity": 4, "ambiguity_skew": (0.5, 0.5)}}, "as many shares"),
        ({"miniworld": {"world": "rich", "ambiguity": 5}}, "less than or equal to 4"),
        ({"miniworld": {"world": "rich", "words": 4001}}, "less than or equal to 4000"),
        ({"miniworld": {"world": "rich", "cognates": 1.5}}, "less than or equal to 1"),
        ({"miniworld": {"world": "richest"}}, "'plain' or 'rich'"),
    ],
)
def test_values_without_effect_or_out_of_bounds_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        Config.model_validate({"task": "translation", **given})


def test_a_joint_run_has_a_world_for_each_task():
    parts = {"one": {"task": "parsing", "miniworld": {"world": "rich", "attachment": 2.0}}, "two": {"task": "tagging"}}
    joint = Config.model_validate({"task": "multitask", "tasks": parts})
    assert joint.tasks["one"].miniworld.attachment == 2.0 and joint.tasks["two"].miniworld.world == "plain"
    with pytest.raises(ValueError, match=r"each of its\s+tasks has its own section miniworld"):
        Config.model_validate({"task": "multitask", "tasks": parts, "miniworld": {"world": "rich"}})


def test_a_task_reads_the_rows_of_its_world(monkeypatch):
    few = {"train": 30, "validation": 10, "test": 10, "roles": 10}
    whole = miniworld.rows
    monkeypatch.setattr(
        miniworld,
        "rows",
        lambda view, split, *, size=0, **others: whole(view, split, size=size or few[split], **others),
    )
    monkeypatch.setattr("seq2seq_suite.data.sources.entry", lambda *given: (_ for _ in ()).throw(OSError))  # no cache
    task = open_task("translation", config("translation", words=50))
    expected = list(whole("translations", "roles", size=10, languages=("en", "de"), world=rich_world(words=50)))
    assert [example.source for example in task.read("roles")] == [row["en"] for row in expected]
    plain = open_task("translation", Config(task="translation"))
    assert [example.source for example in plain.read("test")] == [
        row["en"] for row in whole("translations", "test", size=10, languages=("en", "de"))
    ]
