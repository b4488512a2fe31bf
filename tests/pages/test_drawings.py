"""What a browser makes of objects, labels, answers and sound."""

import base64
from random import Random

import pytest
from page_tools import hard_to_read, reaching_over

from seq2seq_suite.metrics.error_rate import word_errors
from seq2seq_suite.report.page import drawings, render

DRAW = "([name, example, options]) => drawings[name](document.querySelector('main'), example, options)"
HARMFUL = "<img src=x onerror=\"document.title='taken'\">"
BOXES = [
    {"box": box, "label": label, "score": score}
    for box, label, score in (
        ([10, 10, 40, 40], "dog", 0.9),
        ([60, 50, 90, 90], "cat", 0.3),
        ([5, 60, 20, 80], HARMFUL, 0.7),
    )
]
GOLD = [{"box": [11, 10, 41, 40], "label": "dog", "score": 1.0}, BOXES[1] | {"score": 1.0}]
EXAMPLES = {
    "boxes": {
        "prediction": {"boxes": BOXES},
        "reference": {"boxes": GOLD},
        "shown_source": {"width": 100, "height": 100},
    },
    "labels": {
        "source": "a text " + HARMFUL,
        "prediction": {"labels": ["person", "food"]},
        "reference": {"labels": ["person", "place of a name that is long", HARMFUL]},
    },
    "tags": {
        "prediction": {"words": ["she", "saw", "her", HARMFUL], "tags": ["PRP", "NN", "PRP$", HARMFUL]},
        "reference": {"words": ["she", "saw", "her", HARMFUL], "tags": ["PRP", "VBD", "PRP$", "NN"]},
    },
    "answer": {
        "shown_source": {
            "question": "Where is Tom ?",
            "sentences": ["Mary went to the garden .", f"Tom went to the Kitchen {HARMFUL} ."],
        },
        "prediction": {"answers": ["garden"]},
        "reference": {"answers": ["kitchen", "the kitchen"]},
    },
    "sound": {
        "shown_source": {
            "seconds": 1.5,
            "frames": 30,
            "bins": 8,
            "values": base64.b64encode(bytes(range(240))).decode(),
            "sound": "data:audio/wav;base64,UklGRg==",
        },
        "prediction": {"text": "the dog slept"},
        "reference": {"text": "the dogs slept " + HARMFUL},
        "inspection": {"trace": {"frames": [["", 0.9], ["t", 0.8], ["t", 0.8], ["", 0.9], [HARMFUL, 0.5]]}},
    },
    "text": {
        "source": "a text " + HARMFUL,
        "reference": {"text": "ein Text " + HARMFUL * 2},
        "prediction": {"text": "der Text ist " + HARMFUL},
    },
    "attention": {
        "shown_source": {
            "question": "Where is Tom ?",
            "sentences": ["Mary went to the garden .", "Tom went to the kitchen ."],
        },
        "prediction": {"answers": ["garden"]},
        "reference": {"answers": ["kitchen"]},
        "inspection": {
            "source": [
                "where",
                "is",
                "tom",
                "?",
                "mary",
                "went",
                "to",
                "the",
                "garden",
                ".",
                "tom",
                "went",
                "to",
                "the",
                "kitchen",
                ".",
            ],
            "target": ["garden", "<end>"],
            "attention": {
                "cross": {
                    "layers": 1,
                    "heads": 1,
                    "rows": 2,
                    "columns": 16,
                    "values": base64.b64encode(bytes([0] * 8 + [204, 0, 51, 0, 0, 0, 0, 0] + [255] * 16)).decode(),
                }
            },
        },
    },
    "surprise": {
        "source": "Tom went home",
        "prediction": {
            "bits": 15.5,
            "pieces": [["▁Tom", 12.0], ["▁w", 0.0], ["ent", 2.5], ["▁" + HARMFUL, 1.0], ["<end>", 0.0]],
        },
        "reference": {"bits": 15.5},
    },
}


@pytest.fixture
def draw(opened, tmp_path):
    """A function: a drawing's name and an example -> the page on which it is drawn, in place of what is there."""

    def on_page(name, example, options=None, page=None, **window):
        name = {"attention": "answer"}.get(name, name)
        if page is None:
            (tmp_path / "page.html").write_text(render("plain.html", title="", parts=(), scripts=drawings([name])))
            page = opened(tmp_path / "page.html", **window)
        page.evaluate("document.querySelector('main').replaceChildren()")
        page.evaluate(DRAW, [name, example, options or {}])
        return page

    return on_page


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(("width", "theme"), [(400, "dark"), (1400, "light")])
def test_it_fits_can_be_read_and_strings_stay_text(draw, name, width, theme):
    page = draw(name, EXAMPLES[name], width=width, theme=theme)
    assert reaching_over(page) == [] and hard_to_read(page) == []
    assert page.locator("main img").count() == 0 and "taken" not in page.title()
    assert page.evaluate("document.querySelector('main').getBoundingClientRect().height") > 50


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_output_without_a_reference_or_anything_in_it_is_drawn(draw, name):
    some, gold = EXAMPLES[name]["prediction"], EXAMPLES[name]["reference"]
    page = None
    for prediction, reference in ((some, None), ({}, None), ({}, gold)):
        page = draw(name, {"prediction": prediction, "reference": reference}, page=page)
        assert page.inner_text("main").strip() and "undefined" not in page.inner_text("main")


def roles(page, selector):
    return [one.get_attribute("aria-label") for one in page.locator(selector).all()]


def test_boxes_above_the_slider_are_right_or_wrong(draw):
    page = draw("boxes", EXAMPLES["boxes"])
    assert page.inner_text("[role=status]") == "1 of 2 found, 1 wrong."
    assert roles(page, "svg g[tabindex]")[:3] == [
        "dog: in the reference",
        "cat: in the reference, not found",
        "dog: probability 0.90, right",
    ]
    page.locator("input[type=range]").fill("0.2")
    assert page.inner_text("[role=status]") == "2 of 2 found, 1 wrong."
    page.locator("input[type=range]").fill("0.8")
    assert page.inner_text("[role=status]") == "1 of 2 found, 0 wrong."
    inside = page.evaluate("""() => { const all = document.querySelector("svg").getBoundingClientRect();
      const boxes = [...document.querySelectorAll("svg rect")].map((one) => one.getBoundingClientRect());
      return boxes.every((one) => one.left >= all.left - 2 && one.right <= all.right + 2
        && one.top >= all.top - 2 && one.bottom <= all.bottom + 2); }""")
    assert inside


def test_labels_are_right_wrong_or_missed(draw):
    page = draw("labels", EXAMPLES["labels"])
    found = {
        role: [text.split(",")[0] for text in page.locator(f"main > p:not(.key) .chip.{role}").all_text_contents()]
        for role in ("right", "wrong", "missed")
    }
    assert found == {"right": ["person"], "wrong": ["food"], "missed": ["place of a name that is long", HARMFUL]}


def test_a_wrong_tag_has_the_right_one_below_it(draw):
    page = draw("tags", EXAMPLES["tags"])
    assert page.locator(".tags .wrong").all_text_contents() == ["NN", HARMFUL]
    assert page.locator(".tags .instead").all_text_contents() == ["VBD", "NN"]
    assert page.locator(".tags > div").nth(2).all_inner_texts() == ["her\nPRP$"]


def test_answers_are_marked_in_their_context(draw):
    page = draw("answer", EXAMPLES["answer"])
    assert page.locator(".context .wrong").all_text_contents() == ["garden"]
    assert page.locator(".context .missed").all_text_contents() == ["the", "Kitchen"]
    assert "right: kitchen or the kitchen" in page.inner_text("main")
    page = draw("answer", {**EXAMPLES["answer"], "prediction": {"answers": ["Kitchen"]}}, page=page)
    assert page.locator(".context .found").all_text_contents() == ["Kitchen"]
    neither = {"prediction": {"answers": ["yes"]}, "reference": {"answers": ["no"]}}
    page = draw("answer", {**EXAMPLES["answer"], **neither}, page=page)
    assert "Neither occurs verbatim" in page.inner_text("main")


def test_a_spectrogram_has_low_bands_below_and_symbols_where_ctc_reads_them(draw):
    page = draw("sound", EXAMPLES["sound"])
    assert page.locator("canvas").bounding_box()["height"] > 100 and page.locator("audio").count() == 1
    low, high = page.evaluate("""() => { const pen = document.querySelector("canvas").getContext("2d");
      return [pen.getImageData(0, 7, 1, 1).data[3], pen.getImageData(0, 0, 1, 1).data[3]]; }""")
    assert (low, high) == (0, 7)
    names = page.locator(".path span").all_text_contents()
    assert names == ["t", HARMFUL]
    assert page.locator("main .instead").all_text_contents() == ["dogs"]
    assert page.locator("main .pair .wrong").all_text_contents() == ["dog"]


def test_a_word_added_stands_apart_from_one_in_place_of_another(draw):
    example = {"reference": {"text": "the old dog sleeps ."}, "prediction": {"text": "the dog is sleeping."}}
    page = draw("text", example)
    assert {
        role: page.locator(f".pair .{role}").all_inner_texts() for role in ("missed", "instead", "inserted", "wrong")
    } == {"missed": ["old"], "instead": ["sleeps"], "inserted": ["is"], "wrong": ["sleeping"]}
    assert page.inner_text(".pair > div:last-child p") == "the dog is sleeping."
    assert page.locator(".key > span").count() == 3
    line = page.evaluate("""() => page.h("p", {}, texts.line("a red 狗 .", "a dark red 猫 !")).textContent""")
    assert line.strip() == "a dark red 猫 (狗) ! (.)"
    same = draw("text", {"reference": {"text": "a dog."}, "prediction": {"text": "a dog ."}}, page=page)
    assert "Reference and output agree" in same.inner_text("main") and same.locator(".key").count() == 0


def test_texts_are_aligned_with_as_many_errors_as_jiwer_counts(draw):
    random = Random(0)
    given = [[" ".join(random.choices("abcd", k=random.randint(1, 7))) for _ in range(2)] for _ in range(100)]
    found = draw("text", {}).evaluate(
        """(given) => given.map(([a, b]) => texts.aligned(a, b).map(
      ({kind, gold, found}) => [kind, gold?.word ?? "", found?.word ?? ""]))""",
        given,
    )
    for (reference, output), steps in zip(given, found, strict=True):
        assert sum(kind != "" for kind, _, _ in steps) == len(word_errors(reference, output))
        assert [
            " ".join(filter(None, side))
            for _, *sides in [("", *zip(*(pair for _, *pair in steps), strict=True))]
            for side in sides
        ] == [reference, output]
        for kind, said, word in steps:
            assert kind == ("" if said == word else "inserted" if not said else "missed" if not word else "wrong")


@pytest.mark.parametrize("name", EXAMPLES)
def test_beside_other_runs_only_the_output_is_drawn(draw, name):
    page = draw(name, EXAMPLES[name], {"without_reference": True})
    assert page.inner_text("main").strip() and page.locator("audio, canvas, .context").count() == 0


def test_a_symbol_is_shaded_by_its_surprise_and_tells_it(draw):
    page = draw("surprise", EXAMPLES["surprise"])
    pieces = page.locator(".pieces .piece")
    assert pieces.all_inner_texts() == ["Tom", "w", "ent", HARMFUL, "end"]
    shades = [
        float(one.evaluate("(e) => getComputedStyle(e).backgroundColor.match(/([\\d.]+)[)]$/)[1]"))
        for one in pieces.all()
    ]
    assert shades[0] == pytest.approx(0.45, abs=0.01)
    assert shades[0] > shades[2] > shades[3] > shades[1] == shades[4] == 0.0
    assert "15.5 bits in all, 1.19 a character" in page.inner_text("main")
    pieces.nth(2).hover()
    assert "ent: 2.5 bits, probability 17.7 %" in page.inner_text("body")


def test_a_context_is_shaded_by_the_answers_attention(draw):
    example = EXAMPLES["attention"]
    words, sentences = ("(e) => e.style.background.match(/(\\d+)%/)?.[1] ?? null", ".context p")
    page = draw("answer", example)
    shaded = {one.inner_text(): one.evaluate(words) for one in page.locator(".context p > span").all()}
    assert (shaded["garden"], shaded["Tom"], shaded["kitchen"]) == ("20", "5", "0")
    assert [one.get_attribute("title") for one in page.locator(sentences).all()] == [
        "80.0 % of the answer's attention",
        "20.0 % of the answer's attention",
    ]
    values = base64.b64encode(bytes([51, 204, 0] * 2)).decode()
    cross = {"layers": 1, "heads": 1, "rows": 2, "columns": 3, "values": values}
    whole = {
        "target": ["garden", "<end>"],
        "attention": {"cross": cross},
        "source": ["Where is Tom ?", *reversed(example["shown_source"]["sentences"])],
    }
    page = draw("answer", example | {"inspection": whole}, page=page)
    assert [one.evaluate(words) for one in page.locator(sentences).all()] == ["0", "20"]
    pieces = whole | {"source": ["▁Where", "▁is", "▁T"]}
    assert draw("answer", example | {"inspection": pieces}, page=page).locator(".context [style]").count() == 0
