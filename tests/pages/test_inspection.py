"""What a browser makes of the inspection of an output."""

import json
from itertools import product

import pytest
import torch
from daily import daily

from seq2seq_suite.common.examples import Example
from seq2seq_suite.config.schema import Config
from seq2seq_suite.inspection.report import inspect
from seq2seq_suite.prediction.build import build_predictor
from seq2seq_suite.prediction.load_run import LoadedRun
from seq2seq_suite.prediction.open_task import open_task
from seq2seq_suite.report.page import drawings, render
from seq2seq_suite.report.run import write_report

PAIRS = [("The dog sees a cat .", "Der Hund sieht eine Katze ."), ("A bird sings .", "Ein Vogel singt .")]
STRATEGIES = ("autoregressive", "mask_predict", "ctc", "dag")
SHOW = """() => { for (const record of page.data("records")) {
  const place = page.h("section", {}, page.h("header", {}), page.h("div", {class: "drawn"}));
  document.querySelector("main").append(place);
  inspection.show(place.lastChild, record); } }"""


HARMFUL = "<img src=x onerror=\"document.title='taken'\"></script>"


@pytest.fixture(scope="module")
def records():
    """A record of each kind of decoder."""
    found = []
    for kind in STRATEGIES:
        torch.manual_seed(1)
        config = Config.model_validate(
            {
                "task": "translation",
                "device": "cpu",
                "strategy": {"kind": kind},
                "training": {"precision": "float32"},
                "backbone": {
                    "width": 16,
                    "feed_forward_width": 16,
                    "num_heads": 2,
                    "encoder_layers": 2,
                    "decoder_layers": 1,
                },
                "translation": {"source_subwords": "characters", "target_subwords": "characters"},
            }
        )
        task = open_task(config.task, config)
        examples = [Example(source, target) for source, target in PAIRS]
        task.fit(examples)
        predictor = build_predictor(config, task, device=torch.device("cpu"))
        predictor.learner.eval()
        found += inspect(LoadedRun(config, predictor), examples[:1])
    return found


@pytest.fixture(scope="module")
def inspected(records, tmp_path_factory):
    """A page with these records."""
    path = tmp_path_factory.mktemp("page") / "inspection.html"
    path.write_text(
        render(
            "plain.html",
            title="Inspection",
            scripts=[*drawings(["text"]), "inspection.js", "live_replay.js"],
            parts=[],
            data={"records": records},
        )
    )
    return path


@pytest.fixture(scope="module")
def report(records, tmp_path_factory):
    """The page of a run in which two outputs of three were inspected."""
    run = tmp_path_factory.mktemp("runs") / "run"
    for name in ("predictions", "inspection"):
        (run / name).mkdir(parents=True)
    (run / "summary.json").write_text(
        json.dumps(
            {
                "task": "translation",
                "primary_metric": "bleu",
                "splits": {"test": {"bleu": 50.0}, "compositional": {"bleu": 40.0}},
            }
        )
    )
    rows = [
        {
            "source": f"source {row}",
            "reference": "a",
            "prediction": "b",
            "equal": False,
            "kinds": [],
            "length": 2,
            "counts": [0, 1],
            "figures": {"bleu": 0.0},
            "origin": "",
            "facts": {},
        }
        for row in range(3)
    ]
    (run / "predictions" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    harmful = {**records[0], "row": 2, "source": [HARMFUL, "b"], "output": HARMFUL, "reference": HARMFUL}
    (run / "inspection" / "test.json").write_text(json.dumps({"examples": [{**records[1], "row": 0}, harmful]}))
    (run / "inspection" / "compositional.json").write_text(
        json.dumps({"examples": [{"row": 0}], "heads": [], "least_share": 0.4, "measured": 100})
    )  # as 0.1.0 writes it
    return write_report(run)


@pytest.fixture
def shown(opened, inspected):
    """A function that opens the page with everything drawn."""

    def show(**options):
        page = opened(inspected, **options)
        page.emulate_media(reduced_motion="reduce")
        page.evaluate(SHOW)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        return page

    return show


def test_a_pass_of_blocks_shows_what_it_writes_where(shown):
    page, symbols = shown(), ["a", "b", "c", "<end>"]
    written = [[True, False, True, False], [False, True, False, False], [False, False, False, True]]
    passes = [{"milliseconds": 1.5, "symbols": symbols, "written": one} for one in written]
    page.evaluate(
        "(record) => inspection.show(document.querySelector('main'), record)",
        {"trace": {"kind": "blocks", "milliseconds": 5.0, "passes": passes}},
    )
    rows = page.locator(".inspection").last.locator(".step").all()
    found = [
        [(cell.get_attribute("class").split()[1], cell.text_content()) for cell in row.locator(".cell").all()]
        for row in rows
    ]
    assert found == [[("new", "a"), ("open", ""), ("new", "c")], [("new", "b"), ("old", "c")], [("new", "end")]]
    assert "3 passes for 4 symbols" in page.locator(".inspection").last.text_content()


def test_candidates_of_risk_are_listed_in_place_of_steps(shown):
    page, found = shown(), [["a b", 61.25, 3], [HARMFUL, 40.0, 1], [None, 0.0, 1]]
    trace = {"kind": "autoregressive", "milliseconds": 5.0, "candidates": found, "metric": "BLEU", "sampled": True}
    page.evaluate("(record) => inspection.show(document.querySelector('main'), record)", {"trace": trace})
    drawn = page.locator(".inspection").last
    assert [row.inner_text().split("\t") for row in drawn.locator("tbody tr").all()] == [
        ["a b", "61.3", "3×"],
        [HARMFUL, "40.0", "1×"],
        ["(malformed)", "0.0", "1×"],
    ]
    assert drawn.locator("tbody b").all_inner_texts() == ["a b"] and "Of 5 samples" in drawn.inner_text()
    assert page.evaluate("(trace) => [liveReplay.rows(trace, ''), liveReplay.moments(trace)]", trace) == [[], [5.0]]


windows = pytest.mark.parametrize(
    ("width", "theme"), daily(product([400, 1400], ["light", "dark"]), (400, "dark"), (1400, "light"))
)


@windows
def test_an_inspection_stays_inside_the_window(shown, width, theme):
    page = shown(width=width, theme=theme)
    page.locator(".maps button").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".drawn").count() == len(STRATEGIES) and page.locator(".state.error").count() == 0
    small = page.evaluate("""() => [...document.querySelectorAll("main *")].filter((one) => one.checkVisibility()
        && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())
        && parseFloat(getComputedStyle(one).fontSize) < 10).map((one) => one.textContent)""")
    assert small == []


def test_focus_on_a_word_lights_what_it_looked_at_and_tells_its_probability(shown):
    page = shown()
    word = page.locator("svg .word[data-side='1']").first
    word.focus()
    assert page.locator("svg .word.lit[data-side='0']").count() > 0
    status = page.locator(".note.status").first
    assert "probability" in status.inner_text() and "attends to" in status.inner_text()
    word.blur()
    assert page.locator("svg .word.lit").count() == 0 and "Hover over a word" in status.inner_text()


def test_focus_on_a_piece_tells_four_others(shown):
    page = shown()
    page.locator(".piece").first.focus()
    assert len(page.locator("#tip").inner_text().splitlines()) == 5
    page.keyboard.press("Escape")
    assert page.locator("#tip").evaluate("(one) => getComputedStyle(one).visibility") == "hidden"


def test_a_map_is_enlarged_by_enter_and_read_by_arrow_keys(shown):
    page = shown()
    button = page.locator(".maps button").first
    button.focus()
    page.keyboard.press("Enter")
    large = page.locator(".large svg[role=img]").first
    assert "arrow keys" in large.get_attribute("aria-label")
    large.focus()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # scrolled
    page.keyboard.press("ArrowRight")
    assert " → " in page.locator("#tip").inner_text()
    button.click()
    assert page.locator(".large svg[role=img]").count() == 0


def test_there_is_a_map_of_every_head(shown):
    page = shown()
    first = page.locator(".inspection").first
    assert first.locator(".maps button").count() == 2 * 2 + 2 + 2


def test_each_decoder_shows_how_it_wrote(shown):
    drawn = [one.inner_text() for one in shown().locator(".drawn").all()]
    assert "Left to right" in drawn[0] and "one symbol each" in drawn[0]
    assert "pass 4" in drawn[1] and "Predicted length" in drawn[1]
    assert "collapsed" in drawn[2]
    assert "are on the chosen path" in drawn[3]


def test_pieces_are_joined_to_words(shown):
    page = shown()
    assert page.evaluate("inspection.words(['▁das', '▁Pf', 'erd', '<end>']).map((one) => one.text)") == [
        "das",
        "Pferd",
        "end",
    ]
    assert page.evaluate("inspection.words(['a', 'b', ' ', 'c']).map((one) => one.places)") == [[0, 1], [3]]


@windows
def test_the_page_of_a_run_shows_what_was_inspected(opened, report, width, theme):
    page = opened(report, width=width, theme=theme)
    inside = page.locator("#inside")
    assert inside.locator(".maps button").count() == 8
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_output_in_the_list_leads_to_its_inspection(opened, report):
    page = opened(report)
    inside = page.locator("#inside")
    buttons = page.locator("#examples .list button")
    buttons.nth(1).click()
    assert page.get_by_role("button", name="Look inside").count() == 0
    buttons.nth(2).click()
    page.get_by_role("button", name="Look inside").click()
    assert inside.locator("select").first.input_value() == "1" and HARMFUL in inside.inner_text()
    assert page.title().startswith("run")


def test_records_with_nothing_in_them_are_drawn_as_nothing(opened, report):
    page = opened(report)
    page.locator("#inside").get_by_role("button", name="new combinations").click()
    assert page.locator("#inside .maps").count() == page.locator(".state.error").count() == 0


def test_a_run_without_an_inspection_names_the_command_that_adds_it(opened, report, tmp_path):
    for name in ("summary.json", "predictions"):
        (tmp_path / name).symlink_to(report.parent / name)
    page = opened(write_report(tmp_path))
    assert "seq2seq_suite evaluate" in page.locator("#inside .state").inner_text()


def test_what_was_detected_is_drawn_on_the_picture_and_its_coordinates_are_not_compared_as_words(
    opened, records, tmp_path
):
    run, dot = tmp_path / "run", "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    for name in ("predictions", "inspection"):
        (run / name).mkdir(parents=True)
    (run / "predictions" / "test.jsonl").write_text(json.dumps({"source": "picture 1", "equal": False}) + "\n")
    (run / "predictions" / "test.details.json").write_text(json.dumps({"drawing": "boxes"}))
    sides = [{"boxes": [{"box": [1, 2, 30, 40], "label": label, "score": 1.0}]} for label in ("cat", "dog")]
    (run / "predictions" / "test.shown.json").write_text(
        json.dumps(
            {
                "0": {
                    "source": {"picture": dot, "width": 96, "height": 96},
                    "reference": sides[0],
                    "prediction": sides[1],
                }
            }
        )
    )
    said = {side: json.dumps(one) for side, one in zip(("reference", "output"), sides, strict=True)}
    (run / "inspection" / "test.json").write_text(
        json.dumps({"examples": [{**records[0], "row": 0, **said, "hypotheses": [[said["output"], 0.0]] * 2}]})
    )
    page = opened(write_report(run))
    inside = page.locator("#inside")
    assert inside.locator("image").count() == 1 and inside.locator("g rect").count() == 2
    assert "[1," not in inside.inner_text() and inside.locator(".missed, .inserted").count() == 0
    assert inside.locator(".maps").count() > 0
    assert page.locator("#examples .thumb").count() == 1
