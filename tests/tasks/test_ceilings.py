"""Ceilings: the best that training data can tell, by the product's own metrics, and the figures that need them."""

import json
from dataclasses import replace

import pytest
from daily import daily
from task_tools import installed

from seq2seq_suite import miniworld
from seq2seq_suite.cli import app as cli
from seq2seq_suite.common.examples import Example
from seq2seq_suite.config.schema import Config
from seq2seq_suite.data.formats import Row
from seq2seq_suite.data.pictures import Objects
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.tasks import TASKS, find_task, trivial


def _row(fields):
    return Row(fields, "", 1)


HARD = {
    "parsing": {"attachment": 4.0},
    "translation": {"words": 500, "ambiguity": 4},
    "multilabel": {"words": 200, "disagreement": (0.1, 0.02)},
    "tagging": {"words": 200},
    "qa": {"words": 200},
}


@pytest.mark.parametrize("name", daily(HARD, "parsing", "translation", "tagging", "qa"))
def test_no_output_beats_the_ceiling_by_more_than_chance_and_the_oracle_reaches_it(name):
    """The oracle's own outputs have it; the reference itself may have more only where chance drew the reference."""
    task = open_task(name, Config.model_validate({"task": name, "miniworld": {"world": "rich", **HARD[name]}}))
    train, test = (
        [
            found
            for row in miniworld.rows(task.view, split, size=60, world=miniworld.rich_world(**HARD[name]))
            for found in task.examples(_row(row))
        ]
        for split in ("train", "test")
    )
    task.fit(train)
    ceiling = trivial.ceiling(task, train, test)
    best = task.score_examples(task.oracle(train, test), test).figures
    assert ceiling == best[task.primary_metric] <= 100.0
    assert all(figure <= ceiling + 1e-9 for figure in trivial.figures(task, train, test).values())


def test_a_ceiling_counts_what_the_likelier_reading_gets_right():
    world = {"attachment": 4.0}
    task = open_task("parsing", Config.model_validate({"task": "parsing", "miniworld": {"world": "rich", **world}}))
    rows = list(miniworld.rows("trees", "test", size=300, world=miniworld.rich_world(**world)))
    test = [found for row in rows for found in task.examples(_row(row))]
    score = task.score_examples(task.oracle([], test), test)
    sites = [site for row in rows for site in row.get("sites", ())]
    wrong = sum("oracle" in row for row in rows)
    assert score.figures["attachment"] == pytest.approx(100.0 * (1 - wrong / len(sites)))
    assert task.score_examples([example.reference for example in test], test).figures["attachment"] == 100.0
    likelier = sum(max(verb, 1 - verb) for _, _, verb in sites)
    assert abs((len(sites) - wrong) - likelier) < 3 * sum(verb * (1 - verb) for _, _, verb in sites) ** 0.5


def test_unseen_words_without_a_law_lower_the_ceiling_of_translation():
    knobs = {"words": 2000, "cognates": 0.0}
    task = open_task(
        "translation", Config.model_validate({"task": "translation", "miniworld": {"world": "rich", **knobs}})
    )
    train, test = (
        [
            found
            for row in miniworld.rows("translations", split, size=100, world=miniworld.rich_world(**knobs))
            for found in task.examples(_row(row))
        ]
        for split in ("train", "test")
    )
    few, all_seen = trivial.ceiling(task, train, test), trivial.ceiling(task, [*train, *test], test)
    assert few < 90.0 < all_seen == pytest.approx(100.0)


def _heard_and_seen(name, folder, *, train=30, test=20):
    """A task of the rich world, fitted to few examples; of speech some test sentences sound like others."""
    installed(name)
    if speaks := find_task(name).view == "speech":
        pytest.importorskip("espeakng_loader")
    keys = {"audio": {"cache": str(folder)}, "data": {"max_length": 1024}} if speaks else {}
    sections = {"miniworld": {"world": "rich"}, "backbone": {"max_positions": 8192}, **keys}
    task = open_task(name, Config.model_validate({"task": name, **sections}))
    found = [
        list(miniworld.rows(task.view, split, size=size, world=miniworld.rich_world()))
        for split, size in (("train", train), ("test", 1000 if speaks else test))
    ]
    found[1].sort(key=lambda row: "oracle" not in row)
    seen, asked = (
        [example for row in some[:size] for example in task.examples(_row(row))]
        for some, size in zip(found, (train, test), strict=True)
    )
    task.fit(seen)
    return task, seen, asked


@pytest.mark.parametrize("name", ["asr", "speech_translation", "detection"])
def test_the_oracle_of_sounds_and_pictures_reaches_the_ceiling_and_no_baseline_does(name, tmp_path):
    task, train, test = _heard_and_seen(name, tmp_path)
    ceiling = trivial.ceiling(task, train, test)
    outputs = task.oracle(train, test)
    assert task.score_examples(outputs, test).figures[task.primary_metric] == pytest.approx(ceiling, abs=1e-9)
    best = max if task.higher_is_better else min
    figures = trivial.figures(task, train, test)
    assert best(*figures.values(), ceiling) == ceiling and all(0.0 <= figure <= 100.0 for figure in figures.values())
    assert trivial.limits(task, train, test) == {**figures, "best possible": ceiling}
    others = [(one.reference, output) for one, output in zip(test, outputs, strict=True) if one.also]
    assert len(others) == (0 if name == "detection" else 3)
    if name == "asr":  # one word of each is not the spoken one
        assert ceiling == pytest.approx(100.0 * len(others) / sum(len(one.reference.split()) for one in test))
    elif name == "speech_translation":
        assert 90.0 < ceiling < 100.0


def test_a_wholly_hidden_object_lowers_the_ceiling_of_detection(tmp_path):
    task, train, test = _heard_and_seen("detection", tmp_path, test=10)
    assert trivial.ceiling(task, train, test) == pytest.approx(100.0)
    back, front = (20, 20, 40, 40), (19, 19, 41, 41)
    one = test[0].source.things[0]
    things = replace(one, label="circle", scan=-1, box=back), replace(one, label="square", scan=-1, box=front)
    source = replace(test[0].source, things=things, clutter=())
    hidden = replace(test[0], source=source, reference=Objects((back, front), ("circle", "square")))
    task.target.labels = ("circle", "square")
    assert trivial.ceiling(task, train, [hidden]) == pytest.approx(50.0)  # all squares, no circle


@pytest.mark.parametrize("name", daily(TASKS, "asr", "detection", "qa"))
def test_no_baseline_is_worse_than_the_empty_output(name, tmp_path):
    task, train, test = _heard_and_seen(name, tmp_path)
    figures = trivial.figures(task, train, test)
    nothing = task.score_examples([None] * len(test), test).figures[task.primary_metric]
    assert figures
    assert all(figure >= nothing if task.higher_is_better else figure <= nothing for figure in figures.values()), (
        figures
    )


def test_the_plain_world_has_no_ceiling():
    assert trivial.ceiling(open_task("qa", Config(task="qa")), [], [Example("a", "b", "")]) is None


def test_a_run_in_the_rich_world_records_baseline_and_ceiling(tmp_path, monkeypatch):
    settings = [
        "miniworld.world=rich",
        "miniworld.attachment=4.0",
        "training.max_updates=2",
        "search.max_length_factor=1.0",
        "search.max_length_extra=5",
        "data.test_splits=[test]",
    ]
    whole = miniworld.rows
    monkeypatch.setattr(
        miniworld, "rows", lambda view, split, *, size=0, **others: whole(view, split, size=40, **others)
    )
    monkeypatch.setattr("seq2seq_suite.data.sources.entry", lambda *given: (_ for _ in ()).throw(OSError))  # no cache
    assert cli.main(["run", "parsing", *settings, "--output", str(tmp_path / "run")]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0.0 < summary["baseline"]["test"] < summary["ceiling"]["test"] <= 100.0
    assert "attachment" in summary["splits"]["test"]
    assert f"best possible: {summary['ceiling']['test']:.1f}" in (tmp_path / "run" / "report.html").read_text()
