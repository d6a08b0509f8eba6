"""Makes a page of a template and data.

A page is head.html with the shared script and style, a template of this folder
after it, and data that the template's script reads.
"""

import html
import json
import re
from importlib.resources import files
from typing import Any

# In a script element, "</" ends it and "<!--" changes how it is read.
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class Page(str):
    """HTML that needs no network. A notebook shows it in a frame."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<page of {len(self):,} characters>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self)}" width="100%" height="640" '
            'style="border: 1px solid #8888"></iframe>'
        )


def render(name: str, title: str, data: Any) -> Page:
    """Returns a page.

    Args:
        name: Name of the template, without `.html`.
        title: Title of the page, as plain text.
        data: What the page shows, as values of JSON.
    """
    folder = files(__package__)
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    parts = {
        "title": html.escape(title),
        "script": (folder / "page.js").read_text("utf-8"),
        "style": (folder / "style.css").read_text("utf-8"),
        "data": text,
    }
    page = "".join(
        (folder / f"{part}.html").read_text("utf-8") for part in ("head", name)
    )
    # In one pass: a title may look like a placeholder.
    return Page(re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], page))
