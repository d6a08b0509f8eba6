"""Pictures of trees: what is in them, and that nothing overlaps."""

import functools
import itertools
import re
import unicodedata
import xml.etree.ElementTree as ET

import matplotlib
import random_trees
from hypothesis import given

from keras_transformer.tasks.parsing import Tree, draw

SVG = "{http://www.w3.org/2000/svg}"
TREE = Tree.from_string(
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
)


class Picture:
    """The texts and lines of a picture.

    `texts` has class, text, x and y of each text; `lines` has the segments of
    each path that begins at a parent, as their two ends.
    """

    def __init__(self, tree):
        self.root = ET.fromstring(draw(tree))
        self.texts = [
            (
                node.get("class"),
                node.text,
                float(node.get("x")),
                float(node.get("y")),
            )
            for node in self.root.iter(f"{SVG}text")
        ]
        (path,) = self.root.iter(f"{SVG}path")
        parts = re.split(" (?=M)", path.get("d"))
        self.lines = [segments(part) for part in parts if part]

    def of(self, name):
        return [text for text in self.texts if text[0] == name]


def segments(path):
    """Returns the lines of a path."""
    found, at = [], None
    for command, numbers in re.findall(r"([A-Z])([^A-Z]*)", path):
        numbers = [float(number) for number in numbers.split()]
        if command in "VH":
            x, y = at
            end = (x, numbers[0]) if command == "V" else (numbers[0], y)
            found.append((at, end))
        else:
            end = tuple(numbers[-2:])
        at = end
    return found


@functools.cache
def helvetica(font):
    """Returns the widths of the characters of ASCII, in thousandths."""
    path = f"{matplotlib.get_data_path()}/fonts/pdfcorefonts/{font}.afm"
    with open(path, encoding="ascii") as file:
        found = re.findall(r"^C (\d+) ; WX (\d+)", file.read(), re.MULTILINE)
    widths = {chr(int(code)): int(width) for code, width in found}
    return {c: width for c, width in widths.items() if " " <= c <= "~"}


def boxes(picture):
    """Returns left, right, top and bottom of each text in Helvetica."""
    for name, text, x, y in picture.texts:
        bold = "-Bold" if name == "constituent" else ""
        widths = helvetica(f"Helvetica{bold}")
        size = 12 if name == "tag" else 15
        letters = unicodedata.normalize("NFD", text or "")
        # A letter that is not in ASCII is as wide as most.
        width = sum(
            widths.get(c, 0 if unicodedata.combining(c) else 556)
            for c in letters
        )
        half = size / 1000 * width / 2
        yield x - half, x + half, y - 12, y + 4


def test_texts():
    picture = Picture(TREE)
    assert [text for _, text, _, _ in picture.of("word")] == TREE.words
    assert [text for _, text, _, _ in picture.of("tag")] == TREE.tags
    labels = [text for _, text, _, _ in picture.of("constituent")]
    assert labels == ["TOP", "S", "NP", "VP"]
    assert picture.root.find(f"{SVG}title").text == "the dog barks ."
    assert len(picture.texts) == 12


def test_positions():
    picture = Picture(TREE)
    y = {text: at for _, text, _, at in picture.texts}
    assert y["TOP"] < y["S"] < y["NP"] == y["VP"] < y["DT"] == y["VBZ"]
    assert y["DT"] < y["the"] == y["barks"]
    x = {text: at for _, text, at, _ in picture.texts}
    assert x["TOP"] == x["S"]
    assert x["VP"] == x["VBZ"] == x["barks"]
    assert x["the"] < x["NP"] < x["dog"] < x["barks"]


def test_lines():
    picture = Picture(TREE)
    x = {text: at for _, text, at, _ in picture.texts}
    ends = [
        [lines[i][1][0] for i in range(2, len(lines), 3)]
        for lines in picture.lines
    ]  # each child: down, across, down
    assert ends == [
        [x["S"]],
        [x["NP"], x["VP"], x["."]],
        [x["the"], x["dog"]],
        [x["barks"]],
    ]
    starts = [lines[0][0][0] for lines in picture.lines]
    assert starts == [x["TOP"], x["S"], x["NP"], x["VP"]]


@random_trees.fixed
@given(random_trees.trees)
def test_nothing_overlaps(tree):
    picture = Picture(tree)
    width, height = (
        float(picture.root.get(name)) for name in ("width", "height")
    )
    assert picture.root.get("viewBox") == f"0 0 {width:.0f} {height:.0f}"
    found = list(boxes(picture))
    for left, right, top, bottom in found:
        assert 0 < left < right < width
        assert 0 < top < bottom < height
    for (a, b, c, d), (e, f, g, h) in itertools.combinations(found, 2):
        assert b <= e or f <= a or d <= g or h <= c
    # Every constituent has lines, but a root without words.
    assert len(picture.lines) == len(picture.of("constituent")) - (
        not tree.words
    )
    for lines in picture.lines:
        for (x, y), (z, w) in lines:
            low_x, high_x = sorted((x, z))
            low_y, high_y = sorted((y, w))
            for left, right, top, bottom in found:
                apart_x = high_x < left or right < low_x
                assert apart_x or high_y < top or bottom < low_y
    for some, others in itertools.combinations(picture.lines, 2):
        for a, b in itertools.product(some, others):
            assert not crosses(a, b)


def crosses(a, b):
    (a_left, a_right), (a_top, a_bottom) = (
        sorted(v) for v in zip(*a, strict=True)
    )
    (b_left, b_right), (b_top, b_bottom) = (
        sorted(v) for v in zip(*b, strict=True)
    )
    return not (
        a_right < b_left
        or b_right < a_left
        or a_bottom < b_top
        or b_bottom < a_top
    )


def test_no_text_is_wider_than_its_column():
    words = [20 * chr(code) for code in range(33, 127) if chr(code) not in "()"]
    tagged = tuple(Tree("WRB", word) for word in words)
    labelled = tuple(Tree(word, (Tree("A", "a"),)) for word in words)
    for children in (tagged, labelled):
        picture = Picture(Tree("TOP", children))
        row = (
            picture.of("word")
            if children is tagged
            else (picture.of("constituent")[1:])
        )
        assert len(row) == len(words)
        in_row = [t[1] for t in row]
        found = [
            box
            for box, text in zip(boxes(picture), picture.texts, strict=True)
            if text[1] in in_row
        ]
        for (_, right, *_), (left, *_) in itertools.pairwise(sorted(found)):
            assert right < left


def test_texts_are_escaped():
    tree = Tree("TOP", (Tree("A&B", "<b>&amp;'\""), Tree("NN", "a\x01\ud800b")))
    picture = Picture(tree)
    words = [text for _, text, _, _ in picture.of("word")]
    assert words == ["<b>&amp;'\"", "a\N{REPLACEMENT CHARACTER}" + "\ufffdb"]
    assert [text for _, text, _, _ in picture.of("tag")] == ["A&B", "NN"]
    assert picture.root.find(f"{SVG}title").text == " ".join(words)
    draw(tree).encode("utf-8")


def test_brackets_are_shown():
    tree = Tree.from_string(
        "(TOP (-LRB- -LRB-) (NN f-LRB-x-RRB-) (-RRB- -RRB-))"
    )
    picture = Picture(tree)
    assert [text for _, text, _, _ in picture.of("word")] == ["(", "f(x)", ")"]
    assert picture.of("tag")[0][1] == "-LRB-"
    assert picture.root.find(f"{SVG}title").text == "( f(x) )"


def test_trees_without_constituents():
    (name, text, _, _) = Picture(Tree("TOP", ())).texts[0]
    assert (name, text) == ("constituent", "TOP")
    assert [t for _, t, _, _ in Picture(Tree("NN", "dog")).texts] == [
        "NN",
        "dog",
    ]


def test_the_same_object_twice():
    word = Tree("NP", (Tree("NN", "dog"),))
    picture = Picture(Tree("TOP", (word, word)))
    (_, _, first, _), (_, _, second, _) = picture.of("word")
    assert first < second


def test_dark_scheme_changes_every_color():
    light, dark = draw(TREE).split("@media (prefers-color-scheme: dark)")
    colors = "(text|tag|word|path|rect) .*?(#[0-9a-f]{6})"
    light = dict(re.findall(colors, light, re.DOTALL))
    dark = dict(re.findall(colors, dark))
    assert set(light) == set(dark) == {"text", "tag", "word", "path", "rect"}
    for scheme in (light, dark):
        for name, color in scheme.items():
            # WCAG 2.1: 4.5 for text, and 3 for lines.
            least = {"rect": 1.0, "path": 3.0}.get(name, 4.5)
            assert contrast(color, scheme["rect"]) >= least, (name, color)


def contrast(*colors):
    light = []
    for color in colors:
        values = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4
            for v in values
        ]
        weights = (0.2126, 0.7152, 0.0722)
        light.append(sum(w * v for w, v in zip(weights, linear, strict=True)))
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_wide_characters_and_combining_marks():
    def width(text):
        return float(Picture(Tree("NN", text)).root.get("width"))

    assert width("日本") > width("NN") > width("nn")
    assert width("e\u0301" * 9) == width("e" * 9)


def test_deep_tree():
    tree = Tree.from_string(f"{'(X ' * 5_000}(NN dog){')' * 5_000}")
    picture = Picture(tree)
    assert len(picture.of("constituent")) == 5_000
    assert len({x for _, _, x, _ in picture.texts}) == 1
