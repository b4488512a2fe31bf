"""What a browser makes of trees."""

import pytest

from seq2seq_suite.common.trees import read_trees
from seq2seq_suite.report.page import render
from seq2seq_suite.tasks.parsing.errors import drawn

GOLD = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT the) (NN mat)))) (. .)))"
FLAT = "(TOP (S (NP (DT the) (NN cat)) (VP (VBD sat)) (PP (IN on) (NP (DT the) (NN mat))) (. .)))"
DRAW = "(example) => drawings.tree(document.querySelector('main'), example)"


@pytest.fixture
def draw(opened, tmp_path):
    """A function: output and reference -> the page on which they are drawn."""

    def on_page(prediction, reference=None, **options):
        (tmp_path / "page.html").write_text(render("plain.html", title="", parts=(), scripts=["draw_tree.js"]))
        page = opened(tmp_path / "page.html", **options)
        shown = [
            {"text": text, "tree": drawn(next(read_trees(text))[1]) if text.startswith("(") else None}
            for text in (prediction, reference)
            if text is not None
        ]
        page.evaluate(DRAW, dict(zip(("prediction", "reference"), shown, strict=False)))
        return page

    return on_page


def test_a_tree_has_all_its_words_and_labels_inside_its_picture(draw):
    page = draw(GOLD)
    said = "TOP S NP VP PP NP DT NN VBD IN DT NN . the cat sat on the mat ."
    assert sorted(page.locator("svg text").all_text_contents()) == sorted(said.split(" "))
    outside = page.evaluate("""() => { const box = document.querySelector("svg").getBoundingClientRect();
      return [...document.querySelectorAll("svg text")].map((one) => one.getBoundingClientRect()).filter((one) =>
        one.left < box.left || one.right > box.right || one.top < box.top || one.bottom > box.bottom).length; }""")
    assert outside == 0


def test_brackets_that_only_one_of_two_trees_has_stand_out(draw):
    page = draw(FLAT, GOLD, width=400)
    marked = page.locator("svg g[tabindex]").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")
    assert marked == ["VP, missed", "VP, not in the reference"]
    page.locator("svg g[tabindex]").last.focus()
    assert page.inner_text("#tip") == "VP: the reference has no such bracket"
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_equal_trees_are_drawn_once_and_a_broken_one_is_said(draw):
    page = draw(GOLD, GOLD)
    assert page.locator("svg").count() == 1 and "same brackets" in page.inner_text("main")
    page = draw("no tree", GOLD)
    assert page.locator("svg").count() == 1 and "not well-formed" in page.inner_text("main")
