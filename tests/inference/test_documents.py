"""Documents: what is translated, and what is kept."""

import re
import sys

import pytest

from keras_transformer.inference import documents, html_nodes
from keras_transformer.inference.documents import translate_html, translate_text

WORDS = {
    "The": "Der",
    "red": "rote",
    "dog": "Hund",
    "sleeps": "schläft",
    "cat": "Katze",
    "eats": "frisst",
}


class Fake:
    """Translates word by word, and records what it was asked."""

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(list(texts))
        return [
            re.sub(r"\w+", lambda match: WORDS.get(match[0], match[0]), text)
            for text in texts
        ]


def shout(texts):
    return [text.upper() for text in texts]


def identity(texts):
    return texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The dog sleeps. The cat eats.",
            "Der Hund schläft. Der Katze frisst.",
        ),
        (
            "The dog\nsleeps\n\n  The cat.\r\n\tdog  \n",
            "Der Hund\nschläft\n\n  Der Katze.\r\n\tHund  \n",
        ),
        (
            "- The dog\n  * cat\n> > dog\n# The cat - dog",
            "- Der Hund\n  * Katze\n> > Hund\n# Der Katze - Hund",
        ),
        ("", ""),
        (" \n\n", " \n\n"),
        ("----\n3.14\n!?\n", "----\n3.14\n!?\n"),
        ("狗。猫。", "狗。猫。"),
    ],
)
def test_texts(text, expected):
    assert translate_text(Fake(), text) == expected


def test_translations_of_several_lines_are_one_line():
    found = translate_text(lambda texts: ["a\nb \u2028 c"] * len(texts), "x\ny")
    assert found == "a b c\na b c"


def test_one_call_with_each_sentence_once():
    fake = Fake()
    translate_text(fake, "dog. \nThe cat.\n1.\n\n- dog.\ndog.")
    assert fake.calls == [["dog.", "The cat."]]
    fake = Fake()
    translate_text(fake, "\n 1 \n")
    translate_html(fake, "<p>1 &amp; 2</p><pre>dog</pre>")
    assert fake.calls == []


PAGE = """<!DOCTYPE html>
<html lang='en' class="x">
<head><title>The dog</title>
  <script>if (a < b) { "The dog" }</script><style>p { dog: cat }</style>
  <!-- The dog -->
</head>
<body>
<h1 id=dog data-title="dog" title="The red dog">The <em>dog</em></h1>
<p>The <b class="dog">red dog</b> sleeps.
   The
   <a href="/cat?a=1&amp;b=dog">cat</a> eats. <br>
The dog<img src=dog.png alt='The "cat"'/>
<pre>
 The dog
</pre>
<p translate="no">The <i>dog</i></p>
<ul><li>cat<li class="a notranslate">cat</li></ul>
<p>The dog eats <code>dog.cat</code> &lt; 5 &amp; &quot;sleeps&quot;.</p>
</body>
</html>
"""
TRANSLATED = """<!DOCTYPE html>
<html lang="de" class="x">
<head><title>Der Hund</title>
  <script>if (a < b) { "The dog" }</script><style>p { dog: cat }</style>
  <!-- The dog -->
</head>
<body>
<h1 id=dog data-title="dog" title="Der rote Hund">Der <em>Hund</em></h1>
<p>Der <b class="dog">rote Hund</b> schläft.
   Der <a href="/cat?a=1&amp;b=dog">Katze</a> frisst. <br>
Der Hund<img src=dog.png alt="Der &quot;Katze&quot;"/>
<pre>
 The dog
</pre>
<p translate="no">The <i>dog</i></p>
<ul><li>Katze<li class="a notranslate">cat</li></ul>
<p>Der Hund frisst <code>dog.cat</code> &lt; 5 &amp; "schläft".</p>
</body>
</html>
"""


def test_a_page():
    fake = Fake()
    assert translate_html(fake, PAGE, "de") == TRANSLATED
    assert len(fake.calls) == 1
    texts = fake.calls[0]
    assert "The red dog sleeps." in texts and "The cat eats." in texts
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("dog. 1 &copy; 2000. The", "Hund. 1 &copy; 2000. Der"),
        ("dog. 1 &#169; &quot 2000. A", "Hund. 1 &#169; &quot 2000. A"),
        # What cannot be cut within a character.
        ("dog. 1 &bne; 2000. A", "Hund. 1 =\u20e5 2000. A"),
    ],
)
def test_what_is_kept_of_a_text_is_as_in_the_page(page, expected):
    assert translate_html(Fake(), page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<HTML><p>dog", '<HTML lang="de"><p>Hund'),
        ('<html lang="en" dir="ltr">', '<html lang="de" dir="ltr">'),
    ],
)
def test_the_language(page, expected):
    assert translate_html(Fake(), page, "de") == expected
    assert translate_html(identity, page) == page


@pytest.mark.parametrize(
    ("page", "translations", "expected"),
    [
        # Where its translation is, in another order.
        (
            "<i>He</i> saw <b>the dog</b>.",
            {
                "He saw the dog.": "Den Hund sah er.",
                "He": "Er.",
                "the dog": "den Hund",
            },
            "<b>Den Hund</b> sah <i>er</i>.",
        ),
        # Nested.
        (
            "a <a><b>big</b> dog</a> c",
            {
                "a big dog c": "x gros hund y",
                "big dog": "gros hund",
                "big": "gros",
            },
            "x <a><b>gros</b> hund</a> y",
        ),
        # Not found, found twice, or not as a whole word: the same part.
        ("a <b>b</b> c", {"a b c": "x y z"}, "x <b>y</b> z"),
        ("a <b>b</b>.", {"a b.": "x y."}, "x <b>y</b>."),
        ("a <b>b</b> b", {"a b b": "x b b"}, "x <b>b</b> b"),
        ("a <b>b</b> c", {"a b c": "x bb c"}, "x <b>bb</b> c"),
        ("a b <b>c</b> d", {"a b c d": "y z"}, "y <b>z</b>"),
        ("a <b>b</b> c", {"a b c": ""}, "<b></b>"),
        ("a <b>b</b> <i>c</i>", {"a b c": "x y"}, "x <b>y</b><i></i>"),
        # An element that continues in another sentence.
        ("<b>Ah. Be</b> c", {"Ah.": "X.", "Be c": "y z"}, "<b>X. y</b> z"),
        # Two in the same place.
        (
            "a <b>b</b> <i>c</i> d",
            {"a b c d": "x v w z", "b": "v w", "c": "w z"},
            "x <b>v</b> <i>w</i> z",
        ),
        # Something without text, in the middle and at the ends.
        ("a<img> b", {"a b": "x y"}, "x <img>y"),
        ("<img>a b<!-- c --> ", {"a b": "z < y"}, "<img>z &lt; y<!-- c --> "),
        # What is kept is found as it is, or all is translated in pieces.
        (
            "Go <code>a. B</code> on.",
            {"Go a. B on.": "Mit a. B los."},
            "Mit <code>a. B</code> los.",
        ),
        (
            "Go <code>a. B</code> <b>on</b>.",
            {"Go a. B on.": "Mit a los.", "on": "los"},
            "GO <code>a. B</code> <b>los</b>.",
        ),
        # From Chinese.
        (
            "<b>狗。</b>猫。",
            {"狗。": "Dog.", "猫。": "Cat."},
            "<b>Dog. </b>Cat.",
        ),
    ],
)
def test_elements_within_sentences(page, translations, expected):
    def translate(texts):
        return [translations.get(text, text.upper()) for text in texts]

    assert translate_html(translate, page) == expected


def test_attributes_of_kept_elements_are_kept():
    page = (
        '<img translate="no" alt="The dog"/><p title="dog" class=notranslate>'
    )
    assert translate_html(shout, page) == page


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("If <math>x</math> is", ["If x is", "If", "is"]),
        ("Press <button>Save</button> now", ["Press Save now", "Save"]),
        ("Enter <input> or <output>5</output>", ["Enter or 5"]),
        ("A <svg><text>B</text></svg> C", ["A C"]),
        ("<ruby>漢<rp>(<rt>kan</ruby>字", ["漢字", "漢"]),
        ("<button>A</button><button>B</button>", ["A", "B"]),
    ],
)
def test_sentences_of_phrases(page, expected):
    fake = Fake()
    translate_html(fake, f"<p>{page}</p>")
    assert fake.calls == [expected]


def test_deeply_nested_elements():
    page = f"{{}} {'<i>' * 2000}{{}}{'</i>' * 2000} {{}}"
    found = translate_html(shout, page.format("a", "b", "c"))
    assert found == page.format("A", "B", "C")


@pytest.mark.parametrize(("count", "is_found"), [(64, True), (65, False)])
def test_many_elements(count, is_found):
    """Up to 64 are found, in another order; more stay in their order."""

    def reverse(texts):
        return [" ".join(reversed(text.split())) for text in texts]

    page = " ".join(f"<b id={i}>w{i}</b>" for i in range(count))
    ids = re.findall("id=([0-9]+)", translate_html(reverse, page))
    assert list(map(int, ids[:: -1 if is_found else 1])) == list(range(count))


def work_of(page):
    """Returns lines executed, and characters split, stripped and searched."""
    files = {documents.__file__, html_nodes.__file__}
    work = 0

    def count_lines(frame, event, _):
        nonlocal work
        if frame.f_code.co_filename not in files:
            return None
        if event == "call" and frame.f_code is documents._find.__code__:
            work += len(frame.f_locals["target"])
        work += event == "line"
        return count_lines

    def count_characters(frame, event, function):
        nonlocal work
        if event == "c_call" and frame.f_code.co_filename in files:
            if function.__name__ in ("split", "rstrip"):
                work += len(function.__self__)

    before = sys.gettrace(), sys.getprofile()
    sys.settrace(count_lines)
    sys.setprofile(count_characters)
    try:
        translate_html(identity, page)
    finally:
        sys.settrace(before[0])
        sys.setprofile(before[1])
    return work


@pytest.mark.parametrize(
    "unit",
    [
        "dog. ",
        "a{0}&amp;<",
        "<b>",
        "<b></i>",
        "<b>a{0}</b> ",
        "<b>a{0} ",
        "<code>a{0}</code> b ",
        "<p translate=no>a",
        "<div><p>a ",
    ],
)
def test_work_grows_with_the_length_of_a_page(unit, monkeypatch):
    monkeypatch.setattr(html_nodes, "_DEEPEST", 8)
    long = "".join(map(unit.format, range(800)))
    short = "".join(map(unit.format, range(400)))
    assert work_of(long) < 2.5 * work_of(short)  # 4 times, if with the square
