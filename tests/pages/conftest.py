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


@pytest.fixture
def opened(browser):
    """A function that opens a page of a width and a theme; at the end no page may have logged an error."""
    context = browser.new_context(offline=True)
    errors = []

    def open_page(path, *, width=1400, theme="light"):
        page = context.new_page()
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{path.as_uri()}#{theme}")
        return page

    yield open_page
    context.close()
    assert not errors, errors
