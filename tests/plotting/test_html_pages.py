import json
import re
from html import unescape

import pytest

from keras_transformer.plotting.html_pages import render_page

# It ends a script, opens a comment in it, and looks like a placeholder.
TEXT = "</script><!--{{style}}\u2028\u00e4"


@pytest.fixture(scope="module")
def page():
    return render_page(
        "keras_transformer.plotting",
        "trace.html",
        f"Title {TEXT}",
        {"source": TEXT},
    )


def test_the_data_are_in_the_page_whatever_they_contain(page):
    (data,) = re.findall(r'id="data">(.*)</script>', page)
    assert "<" not in data
    assert json.loads(data) == {"source": TEXT}
    (title,) = re.findall("<title>(.*)</title>", page, re.S)
    assert unescape(title) == f"Title {TEXT}"


def test_a_notebook_shows_the_page_in_a_frame(page):
    (quoted,) = re.findall(r'^<iframe srcdoc="([^"]*)"', page._repr_html_())
    assert unescape(quoted) == page
    assert repr(page) == f"<page of {len(page):,} characters>"
