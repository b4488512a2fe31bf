"""What a browser makes of the inspection of an output."""

import pytest
import torch

from seq2seq_suite.config import Config
from seq2seq_suite.experiments.inspecting import inspect
from seq2seq_suite.experiments.verbs import LoadedRun
from seq2seq_suite.report.page import render
from seq2seq_suite.tasks import open_task
from seq2seq_suite.training.build import build_predictor
from seq2seq_suite.types import Example

PAIRS = [("The dog sees a cat .", "Der Hund sieht eine Katze ."), ("A bird sings .", "Ein Vogel singt .")]
STRATEGIES = ("autoregressive", "mask_predict", "ctc", "dag")
HEADS = [{"part": "encoder", "layer": 1, "head": 2, "habit": "the next <b>piece</b>", "share": 0.56},
         {"part": "encoder", "layer": 2, "head": 1, "habit": "the next <b>piece</b>", "share": 0.44}]
SHOW = """() => { for (const record of page.data("records")) {
  const place = page.h("section", {}, page.h("header", {}), page.h("div", {class: "drawn"}));
  document.querySelector("main").append(place);
  inspection.show(place.lastChild, record, {heads: page.data("heads")}); } }"""


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    """A page with a record of each kind of decoder."""
    records = []
    for kind in STRATEGIES:
        torch.manual_seed(1)
        config = Config.model_validate({
            "task": "translation", "device": "cpu", "strategy": {"kind": kind}, "training": {"precision": "float32"},
            "backbone": {"width": 16, "feed_forward_width": 16, "num_heads": 2, "encoder_layers": 2,
                         "decoder_layers": 1},
            "translation": {"source_subwords": "characters", "target_subwords": "characters"}})
        task = open_task(config.task, config)
        examples = [Example(source, target) for source, target in PAIRS]
        task.fit(examples)
        predictor = build_predictor(config, task, device=torch.device("cpu"))
        predictor.learner.eval()
        records += inspect(LoadedRun(config, predictor), examples[:1])
    path = tmp_path_factory.mktemp("page") / "inspection.html"
    path.write_text(render("plain.html", title="Inspection", scripts=["inspection.js"], parts=[],
                           data={"records": records, "heads": HEADS}))
    return path


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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
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
    told = page.locator(".told").first
    assert "probability" in told.inner_text() and "looked at" in told.inner_text()
    word.blur()
    assert page.locator("svg .word.lit").count() == 0 and "Hover over a word" in told.inner_text()


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


def test_there_is_a_map_of_every_head_and_habits_are_named_as_text(shown):
    page = shown()
    first = page.locator(".inspection").first
    assert first.locator(".maps button").count() == 2 * 2 + 2 + 2
    assert first.locator(".maps button", has_text="the next <b>piece</b>").count() == 2
    words = page.evaluate("inspection.heads(page.data('heads')).textContent")
    assert "layer 1, head 2 (56 %); layer 2, head 1 (44 %)" in words


def test_each_decoder_shows_how_it_wrote(shown):
    drawn = [one.inner_text() for one in shown().locator(".drawn").all()]
    assert "Left to right" in drawn[0] and "one symbol each" in drawn[0]
    assert "pass 4" in drawn[1] and "Foretold length" in drawn[1]
    assert "collapsed" in drawn[2]
    assert "are on the path that was taken" in drawn[3]


def test_pieces_are_joined_to_words(shown):
    page = shown()
    assert page.evaluate("inspection.words(['▁das', '▁Pf', 'erd', '<end>']).map((one) => one.text)") == [
        "das", "Pferd", "end"]
    assert page.evaluate("inspection.words(['a', 'b', ' ', 'c']).map((one) => one.places)") == [[0, 1], [3]]
