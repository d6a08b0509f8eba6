"""Pages for a browser: one HTML file each, which needs no network.

A page is head.html with the shared script and style, a template, and the data
that the template's script reads.
"""

import base64
import html
import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.plotting.figures import COLORS

if TYPE_CHECKING:
    from keras_transformer.inference.records import TranslationAttention

# In a script element, "</" ends it and "<!--" changes how it is read.
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class HtmlPage(str):
    """HTML that needs no network. Notebooks show it in a frame."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<page of {len(self):,} characters>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self)}" width="100%" height="640" '
            'style="border: 1px solid #8888"></iframe>'
        )


def render_page(package: str, name: str, title: str, data: Any) -> HtmlPage:
    """Returns the page of a template in the folder `templates` of a package."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    for character, escape in _ESCAPED.items():
        text = text.replace(character, escape)
    parts = {
        "title": html.escape(title),
        "script": _read_template(__package__, "page.js"),
        "style": _read_template(__package__, "style.css"),
        "data": text,
    }
    head = _read_template(__package__, "head.html")
    template = head + _read_template(package, name)
    # In one pass: a title may look like a placeholder.
    page = re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], template)
    return HtmlPage(page)


def _read_template(package: str, name: str) -> str:
    return (files(package) / "templates" / name).read_text("utf-8")


def attention_page(attention: "TranslationAttention") -> HtmlPage:
    """Returns a page with the attention of all layers and heads.

    It shows each layer as lines between two columns of tokens, like the
    paper's Figures 3 to 5, and each head as a heat map. Scores are rounded to
    1/255.

    Args:
        attention: From `Translator.attention`.
    """
    data = attention._asdict() | {
        "num_layers": len(attention.encoder),
        "num_heads": len(attention.encoder[0]),
        "colors": COLORS,
    }
    for kind in ("encoder", "decoder", "cross"):
        scores = np.rint(255 * np.stack(data[kind])).astype(np.uint8)
        data[kind] = base64.b64encode(scores.tobytes()).decode("ascii")
    title = f"Attention: {attention.source}"
    return render_page(__package__, "attention.html", title, data)
