"""A headless Chromium for pages, without a network."""

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


@contextlib.contextmanager
def open_page(html, **settings):
    """Yields a page of Playwright that shows HTML; see `open_address`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(html, "utf-8")
        with open_address(file.as_uri(), **settings) as page:
            yield page


@contextlib.contextmanager
def open_address(
    address, width=1200, height=900, scheme="light", has_touch=False
):
    """Yields a page of Playwright.

    A message on its console, an error, or a request to a different address
    fails the test.
    """
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"needs one of {', '.join(_NAMES)}")
    from playwright.sync_api import sync_playwright

    problems = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=_FLAGS
        )
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=has_touch,
        )
        page = context.new_page()
        context.on("console", lambda message: problems.append(message.text))
        context.on("weberror", lambda one: problems.append(str(one.error)))
        context.on(
            "request",
            lambda request: (
                request.url.startswith(address) or problems.append(request.url)
            ),
        )
        page.goto(address)
        yield page
        browser.close()
    assert not problems, problems
