"""A headless Chromium for pages, without a network."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@contextlib.contextmanager
def open_page(html, width=1200, height=900, scheme="light"):
    """Yields a page of Playwright that shows HTML.

    A message of the browser's console, an error of a script and a request to
    a network fail the test.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"needs one of {', '.join(_NAMES)}")
    from playwright.sync_api import sync_playwright

    problems = []
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as tmp:
        browser = playwright.chromium.launch(
            executable_path=program, args=_FLAGS
        )
        page = browser.new_page(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith("file:") or problems.append(request.url)
            ),
        )
        file = Path(tmp) / "page.html"
        file.write_text(html, "utf-8")
        page.goto(file.as_uri())
        yield page
        browser.close()
    assert problems == []
