"""A browser for the tests of pages: one for the session; without one they are skipped."""

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no browser: chromium, chromium-browser or google-chrome")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(
            executable_path=path,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
            ],
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def window(browser):
    """A window without a network: a function that opens a tab, its first tab, and the errors that pages have logged.

    A new tab takes three times as long as a page in one that is there.
    """
    context, errors = browser.new_context(offline=True), []

    def new_tab():
        tab = context.new_page()
        tab.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        tab.on("pageerror", lambda error: errors.append(str(error)))
        return tab

    yield new_tab, new_tab(), errors
    context.close()


@pytest.fixture
def opened(window):
    """A function that opens a page of a width and a theme; at the end no page may have logged an error."""
    new_tab, first, errors = window
    tabs = []

    def open_page(path, *, width=1400, theme="light"):
        tabs.append(new_tab() if tabs else first)
        tabs[-1].set_viewport_size({"width": width, "height": 900})
        tabs[-1].goto(f"{path.as_uri()}#{theme}")
        return tabs[-1]

    yield open_page
    for tab in tabs[1:]:
        tab.close()
    first.bring_to_front()  # behind others a page is drawn once a second
    first.mouse.move(0, 0)
    first.emulate_media(reduced_motion="no-preference")
    first.goto("about:blank")
    logged = errors.copy()
    errors.clear()
    assert not logged, logged
