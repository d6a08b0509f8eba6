"""Nodes are the page again, whatever it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.inference.html_nodes import nodes_of, runs_of


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
        ("<p><textarea><p>a</textarea>b", ["open", "kept", "text"]),
        # "/" means something in XHTML, and for elements that HTML adopted.
        ("<img translate=no alt=a />b", ["kept", "text"]),
        ("<p translate=no />a</p>b", ["kept", "text"]),
        ("<i/>a</i>", ["open", "text", "close"]),
        ("a<svg class=b />b", ["text", "kept", "text"]),
        ('<a xmlns="http://www.w3.org/1999/xhtml"/>b', ["void", "text"]),
    ],
)
def test_kinds(page, kinds):
    assert [node.kind for node in nodes_of(page)] == kinds


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        # A sibling ends it.
        ("<p {0}>A<p>B<p>C", "<p {0}>A"),
        ("<p {0}>A<b>B<hr>C", "<p {0}>A<b>B"),
        (
            "<p {0}>A<button><p>B</button>C<h1>D",
            "<p {0}>A<button><p>B</button>C",
        ),
        ("<ul><li {0}>A<ul><li>B</ul>C<li>D", "<li {0}>A<ul><li>B</ul>C"),
        ("<dl><dt {0}>A<dd>B", "<dt {0}>A"),
        ("<dl><dd {0}>A<p>B<dt>C", "<dd {0}>A<p>B"),
        ("<select><option {0}>A<option>B", "<option {0}>A"),
        ("<select><option {0}>A<optgroup>B", "<option {0}>A"),
        ("<table><tr><th {0}>A<td>B", "<th {0}>A"),
        ("<table><tr><td {0}>A<tr><td>B", "<td {0}>A"),
        ("<table><tr {0}><td>A<td>B<tr><td>C", "<tr {0}><td>A<td>B"),
        ("<table><thead {0}><tr><td>A<tbody><tr>B", "<thead {0}><tr><td>A"),
        ("<head {0}><title>A</title><body>B", "<head {0}><title>A</title>"),
        # The end of its parent ends it.
        ("<ul><li {0}>A<li {0}>B</ul>C", "<li {0}>B"),
        ("<div><p {0}>A<b>B</div>C", "<p {0}>A<b>B"),
        ("<div><b {0}>A</div>C", "<b {0}>A"),
        # Its own end tag ends it.
        ("<p {0}>A</p>B", "<p {0}>A</p>"),
        ("<div {0}>A<p>B<div>C</div>D</p></i>E</div>F", None),
        ("<ul {0}><li>A<li>B<ul><li>C</ul></ul>D", None),
    ],
)
@pytest.mark.parametrize("mark", ["class='a notranslate'", "translate=no"])
def test_where_a_kept_element_ends(page, kept, mark):
    nodes = [
        node.raw for node in nodes_of(page.format(mark)) if node.kind == "kept"
    ]
    assert nodes[-1] == (kept or page[:-1]).format(mark)


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("&auml;<code>&lt;a<b>c</b></code>", ["ä", "<ac"]),
        # What is kept and no part of a sentence.
        ("a<svg><title>b</title></svg><pre>c</pre>d", ["a", "", "", "d"]),
    ],
)
def test_texts(page, texts):
    assert [node.text for node in nodes_of(page)] == texts


@pytest.mark.parametrize(
    ("page", "runs"),
    [
        ("a<b>b</b><p>c", ["ab", "", "c"]),
        ("Press <button>b</button> now", ["Press b now"]),
        ("<label>a <input></label> b", ["a  b"]),
        ("<button>a</button> <button>b</button>", ["a ", "b"]),
        ("<button translate=no>a</button><button>b</button>", ["a", "b"]),
        ("<label>a</label>: <input><label>b</label>", ["a: ", "b"]),
    ],
)
def test_runs(page, runs):
    found = ["".join(x.text for x in run) for _, run in runs_of(nodes_of(page))]
    assert found == runs
