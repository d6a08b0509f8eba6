"""Nodes are the page again, whatever it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.inference.html_nodes import nodes_of


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from("<>/!-?&;=\"' \nab1") | st.text(max_size=2)))
def test_nodes_are_the_page(pieces):
    page = "".join(pieces)
    assert "".join(node.raw for node in nodes_of(page)) == page


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("a &lt; b<!-- c --><br>", ["text", "comment", "void"]),
        ("<b>a</b>", ["open", "text", "close"]),
        ("<pre><b>a</b></pre>b", ["kept", "text"]),
        ("<div translate=no><div>a</div>b</div>c", ["kept", "text"]),
        ("<img class='x notranslate' alt=a>b", ["kept", "text"]),
        ("<!DOCTYPE html><?php a ?>b", ["kept", "kept", "text"]),
        ("a < b", ["text"]),
    ],
)
def test_kinds(page, kinds):
    assert [node.kind for node in nodes_of(page)] == kinds


def test_texts():
    found = [node.text for node in nodes_of("&auml;<code>&lt;a<b>c</b></code>")]
    assert found == ["ä", "<ac"]
