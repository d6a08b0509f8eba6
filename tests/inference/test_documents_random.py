"""Pages made at random: no tag is lost, and no text forgotten."""

import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.inference.documents import translate_html


def shout(texts):
    return [text.upper() for text in texts]


def identity(texts):
    return texts


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, attributes))

    def handle_endtag(self, tag):
        self.found.append(tag)

    def handle_comment(self, data):
        self.found.append(("comment", data))


def tags(page):
    return sorted(map(str, Tags(page).found))


PIECES = st.sampled_from(
    [
        *(
            "The dog",
            "sleeps.",
            "A ",
            "b",
            " ",
            "\n",
            "1",
            "。",
            "&lt;",
            "&amp",
        ),
        *("&#65;", "&nbsp;", "<", ">", "“Hi.” ", "< 3", "\r\n", "&x;", "ß"),
        *("<b>", "</b>", "<i class='x y'>", "</i>", '<a href="?a=1">', "</a>"),
        *("<p>", "</p>", "<br>", "<br/>", "<img src=x>", "<!-- c. D -->"),
        *("<code>", "</code>", "<pre>", "</pre>", "<script>a</script>"),
        *(
            "<td translate=no>",
            "</td>",
            "<span class='notranslate'>",
            "</span>",
        ),
        *(
            "<!DOCTYPE html>",
            "<?php ?>",
            "<![CDATA[x]]>",
            "<title>",
            "</title>",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=16).map("".join), st.sampled_from([1, 2, 3]))
def test_no_tag_is_lost(page, words):
    """Whatever a translation is: as long, shorter, or empty."""

    def translate(texts):
        return [" ".join(text.split()[: words - 1]) for text in texts]

    for function in (translate, shout, identity):
        assert tags(translate_html(function, page)) == tags(page)


CLEAN = st.sampled_from(
    [
        *(
            "The dog",
            " sleeps.",
            " A ",
            "b ",
            "\n  ",
            " 1 ",
            "“Hi.” ",
            "ß",
            "，",
        ),
        *("<b>", "</b>", "<i class='x y'>", "</i>", "<p>", "</p>", "<br>"),
        *(
            "<img alt=x>",
            "<!-- c. D -->",
            "<code>a  b</code>",
            "<pre>a\n  b</pre>",
        ),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CLEAN, max_size=16).map("".join))
def test_all_but_the_texts_is_kept(page):
    """Tags in their order, texts but for whitespace within a sentence."""
    found = translate_html(identity, page)
    plain = [re.sub(r"<.*?>|\s", "", text) for text in (found, page)]
    assert plain[0] == plain[1]
    assert re.findall("<.*?>", found) == re.findall("<.*?>", page)


# Elements, and what is put into them beside texts.
CHILDREN = {
    "div": ("p", "div", "ul", "dl", "table"),
    "ul": ("li",),
    "dl": ("dt", "dd"),
    "table": ("tr",),
    "tr": ("td", "th"),
    "li": ("p", "div", "ul"),
    "td": ("p", "table"),
}
WITH_END_TAG = ("div", "ul", "dl", "table")
WITHOUT_TEXT = ("ul", "dl", "table", "tr")
MARKS = st.sampled_from([" translate=no", " class='a notranslate'"])
TEXT = "a <b>bc</b> &lt; d", "A <b>BC</b> &lt; D"


@st.composite
def pages(draw, parent="div", is_kept=False, depth=0):
    """A valid page, and the same with what is translated in capitals."""
    page = translated = ""
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(CHILDREN[parent]))
        mark = draw(st.just("") | MARKS)
        inner = (TEXT[0], TEXT[not (is_kept or mark)])
        if name in WITHOUT_TEXT or (name in CHILDREN and draw(st.booleans())):
            inner = ("", "")
            if depth < 4:
                inner = draw(pages(name, is_kept or bool(mark), depth + 1))
        has_end = name in WITH_END_TAG or draw(st.booleans())
        end = f"</{name}>" if has_end else ""
        page += f"<{name}{mark}>{inner[0]}{end}"
        translated += f"<{name}{mark}>{inner[1]}{end}"
    return page, translated


@settings(max_examples=100, deadline=None)
@given(pages())
def test_all_texts_but_those_kept_are_translated(pair):
    page, translated = pair
    found = translate_html(shout, f"<div>{page}</div>e")
    assert found == f"<div>{translated}</div>E"
