"""What a browser makes of the page of a comparison, of two runs and of thirty."""

import json
from itertools import combinations, product

import pytest
from daily import daily
from page_tools import hard_to_read, reaching_over

from seq2seq_suite.report.comparison import write_comparison

HARMFUL = "<img src=x onerror=\"document.title='taken'\"></script>"
GOLD = "(TOP (S (NP (NN fish)) (VP (VB swims))))"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def shown(text, *, right):
    leaves = [{"tag": tag, "word": word} for tag, word in zip(("NN", "VB"), text.split(), strict=True)]
    label = "NP" if right else "PP"
    return {
        "text": text,
        "tree": {
            "label": "S",
            "bracket": ["S", 0, 2],
            "children": [{"label": label, "bracket": [label, 0, 1], "children": leaves[:1]}, leaves[1]],
        },
    }


def make(folder, place, *, task, drawing):
    name = f"{task}-of-a-name-that-does-not-fit-a-telephone-{place}"
    run = folder / name
    (run / "predictions").mkdir(parents=True)
    (run / "config.yaml").write_text(
        json.dumps(
            {
                "task": task,
                "seed": place % 3,
                "backbone": {"width": 64 + place // 3, "note": HARMFUL},
                **({"special": {"x": 1}} if place == 0 else {}),
            }
        )
    )
    (run / "metrics.jsonl").write_text(
        lines(
            *(
                {
                    "update": update,
                    "split": "validation",
                    "seconds": 3 * update,
                    "tokens": 10 * update,
                    "f1": 40.0 + update + place,
                }
                for update in (5, 9)
            )
        )
    )
    outputs = [
        {
            "source": f"source {row} {HARMFUL}",
            "reference": "Fische schwimmen " * 20,
            "kinds": [HARMFUL],
            "prediction": "Fische " * (2 + place % 3) + ("schwimmen " * 20 if row % 2 else ""),
            "equal": (row + place) % 2 > 0,
            "figures": {"f1": 10.0 * place},
        }
        for row in range(9)
    ]
    (run / "predictions" / "test.jsonl").write_text(lines(*outputs))
    (run / "predictions" / "test.details.json").write_text(json.dumps({"drawing": drawing}))
    if drawing == "tree":
        (run / "predictions" / "test.shown.json").write_text(
            json.dumps(
                {
                    str(row): {
                        "source": {"text": "fish swims"},
                        "reference": shown("fish swims", right=True),
                        "prediction": shown("fish swims", right=outputs[row]["equal"]),
                    }
                    for row in range(9)
                }
            )
        )
    figure = 99.0 - 2.5 * place
    return {
        "run": name,
        "task": task,
        "split": "test",
        "metric": "f1",
        "figure": figure,
        "low": figure - 1.0,
        "high": figure + 0.9 if place else float("nan"),
        "invalid": 0.0,
        "empty": 0.0,
        "repeated": 0.0,
        "truncated": 0.0,
        "core_parameters": 10_000 * (place + 1),
        "own_parameters": 3_000,
        "updates": 9,
        "tokens": 90,
        "minutes": 1.5,
        "tokens_per_second": 5.0,
        "latency_ms": 1.0 + place,
        "sentences_per_second": 900.0 - place,
        "passes_per_symbol": 1.0 / (1 + place),
        "milliseconds": 0.5 + place,
        "baseline": 10.0,
        "ceiling": 100.0,
        "seed": place % 3,
        "commit": "c",
        "higher_is_better": True,
        "directory": str(run),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    found = {}
    for count in (2, 30):
        folder = tmp_path_factory.mktemp(f"runs{count}")
        rows = [
            make(
                folder, place, task="parsing" if place < 20 else "translation", drawing="tree" if place < 20 else "text"
            )
            for place in range(count)
        ]
        pairs = [
            {
                "first": one["run"],
                "second": two["run"],
                "task": one["task"],
                "metric": "f1",
                "difference": two["figure"] - one["figure"],
                "low": -9.0,
                "high": -1.0,
                "test": "randomisation test",
                "p_value": 0.0001,
                "holm_p": 0.2 if number % 2 else 0.0001,
                "verdict": "not resolved" if number % 2 else "worse",
                "seeds": (),
            }
            for number, (one, two) in enumerate(combinations(rows, 2))
            if one["task"] == two["task"] and (count == 2 or one in (rows[0], rows[20]))
        ]
        write_comparison(rows, pairs, html=folder / "page.html")
        found[count] = folder / "page.html"
    return found


@pytest.mark.parametrize(
    ("count", "width", "theme"),
    daily(product([2, 30], [400, 1400], ["light", "dark"]), (2, 1400, "light"), (30, 400, "dark")),
)
def test_it_fits_the_window_and_can_be_read(opened, pages, count, width, theme):
    page = opened(pages[count], width=width, theme=theme)
    page.locator("#disagree .grid").first.wait_for()
    assert reaching_over(page) == [] and hard_to_read(page) == []
    assert page.locator("text=could not be drawn").count() == 0


def test_every_section_has_a_box_and_its_drawing(opened, pages):
    page = opened(pages[30])
    boxes = page.evaluate("""() => Object.fromEntries([...document.querySelectorAll("section")].map((one) =>
        [one.id, one.getBoundingClientRect().height]))""")
    assert list(boxes) == [
        "figures",
        "seeds",
        "curves",
        "times",
        "parameters",
        "configuration",
        "tests",
        "disagree",
        "runs",
    ]
    assert min(boxes.values()) > 80
    page.locator("#curves svg[role=img]").nth(1).wait_for()
    for name, count in {"figures": 2, "curves": 2, "times": 3, "parameters": 1}.items():
        assert page.locator(f"#{name} svg[role=img]").count() == count


def test_the_better_a_run_the_farther_right_it_stands(opened, pages):
    page = opened(pages[30])
    dots = page.locator("#figures circle:not([r='8'])")  # nor the ring
    page.locator("#figures svg").nth(1).wait_for()
    assert dots.count() == 22  # twelve of twenty, ten of ten
    page.locator("#figures button", has_text="Show all runs").click()
    page.wait_for_function("document.querySelectorAll('#figures circle').length === 32")
    places = [float(one.get_attribute("cx")) for one in dots.all()]
    assert len(places) == 30 and places[:20] == sorted(places[:20], reverse=True)
    assert "99.00" in page.locator("#figures svg").first.text_content()


def test_seeds_stand_beside_the_other_settings(opened, pages):
    page = opened(pages[2])
    row = page.locator("#configuration tr", has=page.locator("td", has_text="seed")).first
    assert row.locator("td").all_inner_texts() == ["seed", "0", "1"]


def test_differences_that_may_be_chance_are_not_filled(opened, pages):
    page = opened(pages[2])
    better, worse = page.locator("#tests td.better"), page.locator("#tests td.worse")
    assert [better.text_content(), worse.text_content()] == ["2.50".join(("+", "")), "−2.50"]
    page = opened(pages[30])
    assert page.locator("#tests td.worse").count() == 10 and page.locator("#tests td.better").count() == 0


def test_a_button_changes_the_task_and_the_axis(opened, pages):
    page = opened(pages[30])
    assert "parsing" in page.locator("#tests table").text_content()
    page.locator("#tests header button", has_text="translation").click()
    assert "parsing" not in page.locator("#tests table").text_content()
    page.locator("#curves header button", has_text="minutes").click()
    page.locator("#curves svg[role=img]", has_text="minutes").first.wait_for()


def test_outputs_are_drawn_side_by_side_and_strings_stay_text(opened, pages):
    page = opened(pages[2])
    assert page.locator("#disagree .grid").count() == 6 and page.locator("#disagree svg").count() == 12
    assert page.locator("#disagree svg .tiny").count() > 0
    page = opened(pages[30])
    page.locator("#disagree header button", has_text="translation").click()
    assert page.locator("#disagree .reference").count() == 6 and page.locator("#disagree .wrong").count() > 0
    assert page.locator("main img").count() == 0 and "taken" not in page.title()


def test_the_page_is_small(pages):
    assert pages[30].stat().st_size < 3_000_000
