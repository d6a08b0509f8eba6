"""Pages for a browser: one HTML file each, which needs no network.

A page is head.html with the shared style, a template of this folder after it,
and data that the template's script reads.
"""

import html
import json
from importlib.resources import files
from typing import Any

# In a script element, "</" ends it and "<!--" changes how it is read.
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render(name: str, title: str, data: Any) -> str:
    """Returns a page.

    Args:
        name: Name of the template, without `.html`.
        title: Title of the page, as plain text.
        data: What the page shows, as values of JSON.
    """
    folder = files(__name__)
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    # The data last, so that nothing in them is taken for a placeholder.
    parts = {
        "{{title}}": html.escape(title),
        "{{style}}": (folder / "style.css").read_text("utf-8"),
        "{{data}}": text,
    }
    page = "".join(
        (folder / f"{part}.html").read_text("utf-8") for part in ("head", name)
    )
    for placeholder, value in parts.items():
        page = page.replace(placeholder, value, 1)
    return page
