"""What a browser makes of the live page, over a real server."""

import pytest
from serving import served, train
from small_run import small_config, start, write_trees

SENTENCE = "The dog sees a cat zyxw ."


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    train(folder / "qa", task="qa")
    start(small_config(write_trees(folder / "data"), max_updates=2, validate_every=2, log_every=2), folder / "parsing")
    kinds = [
        train(folder / kind, task="translation", strategy={"kind": kind})
        for kind in ("autoregressive", "mask_predict", "ctc")
    ]
    with served([*kinds, folder / "parsing", folder / "qa"], folder / "own") as client:
        yield str(client.base_url)


@pytest.fixture
def opened_live(browser, address):
    """A function that opens the page; at the end it may have logged no error."""
    context, errors = browser.new_context(), []

    def open_page(*, width=1400, theme="light"):
        page = context.new_page()
        # A refusal is an answer, of which Chromium logs the status.
        page.on(
            "console",
            lambda said: (
                errors.append(said.text) if said.type == "error" and "status of 422" not in said.text else None
            ),
        )
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{address}/#{theme}")
        return page

    yield open_page
    context.close()
    assert not errors, errors


def run(page, text=SENTENCE):
    page.locator("textarea").first.fill(text)
    page.keyboard.press("Enter")
    page.wait_for_selector("#others .output, .error")


@pytest.mark.parametrize(("width", "theme"), [pytest.param(1400, "light", marks=pytest.mark.slow), (400, "dark")])
def test_a_typed_sentence_is_answered_by_all_decoders_side_by_side(opened_live, width, theme):
    page = opened_live(width=width, theme=theme)
    assert "No text yet." in page.inner_text("#results")
    run(page)
    assert page.locator("#results .grid > div").count() == 3
    assert "zyxw" in page.inner_text("#others .unknown")
    assert page.locator("#others .output svg text").count() > len(SENTENCE.split())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.evaluate("""() => [...document.querySelectorAll("#results *, #others *")]
        .filter((one) => !one.closest(".scroll") && one.checkVisibility() &&
                         one.getBoundingClientRect().right > innerWidth + 1)
        .map((one) => one.outerHTML.slice(0, 80))""")
    assert not wide, wide


def test_what_each_run_looked_at_is_drawn_on_demand(opened_live):
    page = opened_live(width=400)
    run(page)
    assert page.locator(".inspection").count() == 0
    for summary in page.locator("#results summary").all():
        summary.click()
    for place in range(3):
        page.locator("#results .inspection").nth(place).wait_for()
    assert page.locator("#results .inspection svg").count() > 3
    assert page.locator("#results .error").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_replay_shows_each_piece_at_its_moment_and_then_all(opened_live):
    page = opened_live()
    page.locator("select").select_option("100")
    run(page)
    page.get_by_role("button", name="Replay").click()
    assert page.locator(".ahead").count() > 0
    page.locator("select").select_option("0")
    assert page.locator(".ahead").count() == 0


def test_an_input_that_is_refused_says_why_in_three_parts(opened_live):
    page = opened_live()
    page.get_by_role("button", name="Parse", exact=True).click()
    page.locator("textarea").first.fill("word " * 3000)
    with page.expect_response("**/api/predict") as refused:
        page.keyboard.press("Enter")
    assert refused.value.status == 422
    page.wait_for_selector(".error")
    text = page.inner_text(".error")
    assert "3000 words" in text and "expected:" in text and "remedy:" in text
    page.close()


def test_an_example_can_be_tried_and_markup_stays_text(opened_live):
    page = opened_live()
    page.locator(".tries button").first.click()
    page.wait_for_selector("#others .output")
    run(page, "<img src=x onerror=alert(1)> <b>bold</b>")
    assert page.locator("#results img, #results b b").count() == 0
    assert "<b>bold</b>" in page.inner_text("#others .unknown")


@pytest.mark.parametrize(
    ("filled", "missing"),
    [("question", "context"), pytest.param("context", "question", marks=pytest.mark.slow)],
)
def test_a_field_that_is_missing_is_named_and_marked_and_the_other_one_is_kept(opened_live, filled, missing):
    page = opened_live()
    page.get_by_role("button", name="Answer", exact=True).click()
    page.locator(f"textarea[name={filled}]").fill("Where is Mary ?")
    page.keyboard.press("Enter")
    assert f"The {missing} is missing." in page.inner_text("#results .error")
    assert page.locator("[aria-invalid=true]").get_attribute("name") == missing
    assert page.evaluate("document.activeElement.name") == missing
    assert page.locator(f"textarea[name={filled}]").input_value() == "Where is Mary ?"
    page.keyboard.type("Mary went home .")
    page.keyboard.press("Enter")
    page.wait_for_selector("#results .output")
    assert page.locator("[aria-invalid=true]").count() == 0


def test_the_search_is_set_for_the_runs_that_know_it_and_the_address_asks_the_same_again(opened_live):
    page = opened_live()
    page.locator("input[name=temperature]").fill("2")
    page.locator("input[name=seed]").fill("7")
    asked = []
    page.on("request", lambda request: asked.append(request.post_data_json) if request.method == "POST" else None)
    run(page)
    sampled = {body["run"]: "temperature" in body for body in asked if "trace" in body}
    assert sampled == {"autoregressive": True, "mask_predict": False, "ctc": False}
    before = page.locator("#results .output").first.inner_text()
    again = page.context.new_page()
    again.goto(page.url)
    again.wait_for_selector("#others .output")
    assert again.locator("input[name=seed]").input_value() == "7"
    assert again.locator("#results .output").first.inner_text() == before


def test_an_output_and_the_link_are_copied_and_the_report_is_linked(opened_live):
    page = opened_live()
    run(page)
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    page.get_by_role("button", name="copy output").first.click()
    assert page.evaluate("window.copied") == page.locator("#results .output").first.inner_text()
    page.get_by_role("button", name="copy link").click()
    assert page.evaluate("window.copied") == page.url and "zyxw" in page.url
    with page.context.expect_page() as opened:
        page.locator("#results a").first.click()
    assert "BLEU" in opened.value.inner_text("main")
