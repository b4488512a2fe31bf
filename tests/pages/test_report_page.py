"""What a browser makes of the page of a run."""

import json

import pytest

from seq2seq_suite.report.html import write_report

CONTRASTS = """() => {
  const channel = (value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map((value) => channel(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const under = (element) => { for (let one = element; one; one = one.parentElement) {
    const colour = getComputedStyle(one).backgroundColor; if (!/, 0\\)$/.test(colour)) return colour; } };
  const found = [];
  for (const element of document.querySelectorAll("main *, .bar *")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element), svg = element instanceof SVGElement;
    const [a, b] = [light(svg ? style.fill : style.color), light(under(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push([element.textContent.slice(0, 40), (a + 0.05) / (b + 0.05)]);
  }
  return found; }"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "a run with a name that is long enough to be cut on a telephone"
    (run / "predictions").mkdir(parents=True)
    (run / "summary.json").write_text(json.dumps({
        "task": "translation", "primary_metric": "bleu", "signature": "bleu|" + "x" * 300, "updates": 20,
        "parameters": 12345, "splits": {"test": {"bleu": 87.654, "tokenised_lowercase_bleu": 3.0},
                                        "compositional": {"bleu": 70.0}, "validation": {"bleu": 88.5}}}))
    rows = [{"update": update, "split": "train", "loss_cross_entropy": 3 / update, "loss_tags": 2 / update,
             "learning_rate": 1e-3} for update in range(1, 21)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    outputs = [{"source": "the cat " * 30, "reference": "die Katze " * 30 + "w" * 200, "prediction": "der Kater " * 40,
                "figures": {"bleu": 2.0}, "origin": "o" * 300}] * 3
    (run / "predictions" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in outputs))
    (run / "config.yaml").write_text("task: translation  # " + "long " * 80)
    (run / "provenance.json").write_text(json.dumps({"command": ["python"] * 60, "commit": "c" * 40}))
    return write_report(run)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_reaches_over_the_edge_of_the_window(opened, report, width, theme):
    page = opened(report, width=width, theme=theme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate("""() => [...document.querySelectorAll("main > *, .cards > div, .curves > div, .pair > div")]
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.className)""")
    assert not wide, wide


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out_from_what_is_under_it(opened, report, theme):
    page = opened(report, theme=theme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(CONTRASTS) == []


def test_a_button_changes_between_light_and_dark(opened, report):
    page = opened(report)
    colours = []
    for _ in range(2):
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.click("#theme")
    assert colours == ["rgb(252, 252, 250)", "rgb(20, 22, 26)"]


def test_the_keyboard_reaches_the_theme_first_and_the_examples_in_order(opened, report):
    page = opened(report)
    reached = []
    for _ in range(3):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached[0] == "theme" and reached[-1] in ("SUMMARY", "DIV")
