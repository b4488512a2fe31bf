"""What a browser makes of the page of a run."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest
from daily import daily
from page_tools import hard_to_read, reaching_over

from seq2seq_suite.report.run import write_report

OLD = Path(__file__).parents[1] / "fixtures" / "run-0.1.0"
HARMFUL = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>"


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "a run with a name that is long enough to be cut on a telephone"
    (run / "predictions").mkdir(parents=True)
    (run / "summary.json").write_text(
        json.dumps(
            {
                "task": "translation",
                "primary_metric": "bleu",
                "signature": "bleu|" + "x" * 300,
                "updates": 20,
                "formula": "mean",
                "parameters": 12345,
                "intervals": {"test": {"bleu": [85.0, 90.0]}},
                "best_update": 15,
                "peak_memory_mb": 500.0,
                "phase_seconds": {"data": 1.0, "train": 60.0, "validation": 5.0, "test": 3.0},
                "failures": {"test": {"invalid": 0.0, "empty": 0.0, "repeated": 1.0, "truncated": 0.0}},
                "splits": {
                    "test": {"bleu": 87.654, "tokenised_lowercase_bleu": 3.0},
                    "compositional": {"bleu": 70.0},
                    "validation": {"bleu": 88.5},
                },
            }
        )
    )
    (run / "metrics.jsonl").write_text(
        lines(
            *(
                {
                    "update": update,
                    "split": "train",
                    "loss_cross_entropy": 3 / update,
                    "loss_tags": 2 / update,
                    "seconds": update,
                    "tokens": 9 * update,
                    "learning_rate": 1e-3,
                }
                for update in range(1, 21)
            ),
            *(
                {
                    "update": update,
                    "split": "validation",
                    "loss_cross_entropy": 3.5 / update,
                    "seconds": update,
                    "bleu": 60 + update,
                }
                for update in (5, 10, 15, 20)
            ),
        )
    )
    outputs = [
        {
            "source": f"source {row} " + "the cat " * (row % 30),
            "reference": "die Katze " * 30 + "w" * 200,
            "prediction": "die Katze " * 30 + "w" * 200 if row % 3 else "der Kater " * 40,
            "equal": row % 3 > 0,
            "kinds": [] if row % 3 else [["order", "missing"][row % 2], HARMFUL],
            "length": row % 30,
            "counts": [row % 3 > 0, 1],
            "figures": {"bleu": 100.0 if row % 3 else row / 3},
            "origin": "o" * 300,
            "facts": {"speaker": f"s{row}"},
        }
        for row in range(90)
    ]
    outputs[7]["source"] = HARMFUL
    for split in ("test", "compositional"):
        (run / "predictions" / f"{split}.jsonl").write_text(lines(*outputs))
        (run / "predictions" / f"{split}.details.json").write_text(
            json.dumps(
                {
                    "length_unit": "words",
                    "panels": [
                        {
                            "kind": "dots",
                            "title": f"A chart of {split}",
                            "question": HARMFUL,
                            "x": "x",
                            "y": "y ↑",
                            "note": "",
                            "series": [
                                {"name": HARMFUL, "role": "", "points": [["a", 1, 0, 2, 3], [HARMFUL, 2, 1, 3, 4]]}
                            ],
                        }
                    ],
                }
            )
        )
    (run / "config.yaml").write_text("task: translation  # " + "long " * 80)
    (run / "provenance.json").write_text(json.dumps({"command": ["python"] * 60, "commit": "c" * 40, "seed": 1}))
    return write_report(run)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    run = tmp_path_factory.mktemp("old") / "run"
    shutil.copytree(OLD, run, ignore=shutil.ignore_patterns("checkpoints"))
    return write_report(run)


@pytest.mark.parametrize(
    ("which", "width", "theme"),
    daily(
        product(["report", "old"], [400, 1400], ["light", "dark"]),
        ("report", 400, "dark"),
        ("report", 1400, "light"),
        ("old", 400, "light"),
    ),
)
def test_nothing_reaches_over_the_edge_of_the_window(opened, request, which, width, theme):
    page = opened(request.getfixturevalue(which), width=width, theme=theme)
    assert reaching_over(page) == []
    assert page.locator("text=could not be drawn").count() == 0


@pytest.mark.parametrize(
    ("which", "theme"), daily(product(["report", "old"], ["light", "dark"]), ("report", "light"), ("report", "dark"))
)
def test_text_stands_out_from_what_is_under_it(opened, request, which, theme):
    page = opened(request.getfixturevalue(which), theme=theme)
    assert hard_to_read(page) == []


def test_every_section_has_a_box_and_its_charts_are_drawn(opened, report):
    page = opened(report)
    boxes = page.evaluate("""() => Object.fromEntries([...document.querySelectorAll("section")].map((one) =>
        [one.id, one.getBoundingClientRect().height]))""")
    assert list(boxes) == ["training", "examples", "errors", "inside", "figures", "origin"] and min(boxes.values()) > 80
    assert page.locator("#training svg[role=img]").count() == 4  # losses, metric, learning rate (folded), times
    assert page.locator("#errors .panel").count() == 4
    assert "60 of 90" in page.locator(".lede").text_content()


def test_training_is_shown_over_updates_minutes_and_symbols(opened, report):
    page = opened(report)
    seen = [page.locator("#training svg").nth(1).text_content()]
    for axis in ("minutes", "symbols"):
        page.locator("#training header button", has_text=axis).click()
        seen.append(page.locator("#training svg").nth(1).text_content())
    assert [axis in text for axis, text in zip(("updates", "minutes", "symbols"), seen, strict=True)] == [True] * 3


def test_filters_choose_examples_and_search_finds_words(opened, report):
    page = opened(report)
    items, first = page.locator("#examples .list button"), page.locator("#examples .list .text").first
    assert items.count() == 90 and first.text_content().startswith("source 0")
    page.locator("#examples button", has_text="Best").click()
    assert items.first.text_content().startswith("100.0")
    page.locator("#examples button", has_text="Longest").click()
    assert "29" in page.locator("#examples .example").text_content()
    page.locator("#examples select").select_option("kind:order")
    assert items.count() == 15
    page.locator("#examples select").select_option("right")
    assert items.count() == 60
    page.locator("#examples select").select_option("")
    page.locator("#examples input").fill("speaker nothing has this")
    assert page.locator("text=No output matches.").count() == 1
    page.locator("#examples button", has_text="Show all").click()
    assert items.count() == 90
    page.locator("#examples input").fill("source 13 cat")
    assert items.count() == 1


def test_an_output_is_drawn_beside_its_reference_with_what_differs_marked(opened, report):
    page = opened(report)
    drawn = page.locator("#examples .example")
    counts = {role: drawn.locator(f".pair .{role}").count() for role in ("missed", "instead", "wrong", "inserted")}
    assert counts == {"missed": 0, "instead": 61, "wrong": 61, "inserted": 19}
    page.locator("#examples button", has_text="Best").click()
    assert drawn.locator(".missed, .wrong").count() == 0 and "agree" in drawn.text_content()


def test_a_drawing_that_is_loaded_draws_the_output_and_one_that_fails_gives_way_to_text(opened, report):
    page = opened(report)
    page.evaluate("""() => { drawings.text = (element, example, options) =>
        element.append(`${example.prediction.text.length} ${options.unit}`); }""")
    page.locator("#examples .list button").nth(1).click()
    assert "400 words" in page.locator("#examples .example").text_content()
    page.evaluate("() => { drawings.text = () => { throw new Error('no'); }; }")
    page.locator("#examples .list button").nth(2).click()
    assert page.locator("#examples .example .wrong").count() > 0


def test_arrow_keys_go_through_the_list_of_examples(opened, report):
    page = opened(report)
    page.locator("#examples .list button").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("#examples .list button").nth(1).get_attribute("aria-current") == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"


def test_the_charts_of_the_task_are_those_of_the_chosen_split(opened, report):
    page = opened(report)
    assert page.locator("text=A chart of test").count() == 1
    page.locator("#errors button", has_text="new combinations").click()
    assert page.locator("text=A chart of compositional").count() == 1
    assert page.locator("text=A chart of test").count() == 0


def test_strings_of_the_data_stay_text(opened, report):
    page = opened(report)
    page.locator("#examples input").fill("onerror")
    assert page.locator("main img, main script").count() == 0 and "taken" not in page.title()


def test_a_page_is_small_and_asks_nothing_of_the_network(opened, browser, report):
    asked = []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.close()
    assert asked == [report.as_uri()] and report.stat().st_size < 3_000_000


def test_an_old_run_says_what_is_missing_and_how_to_add_it(opened, old):
    page = opened(old)
    assert "evaluate" in page.locator("#examples .state code").text_content()
    assert "has not finished" in page.locator(".lede").text_content()


def test_a_button_changes_between_light_and_dark(opened, report):
    page = opened(report)
    colours = []
    for _ in range(2):
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.click("#theme")
    assert colours == ["rgb(252, 252, 250)", "rgb(20, 22, 26)"]
