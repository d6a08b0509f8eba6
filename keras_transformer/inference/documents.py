"""Translates documents: plain text and HTML, sentence by sentence.

`translate` is what translates: it takes a list of texts and returns as many.
All sentences of a document are given to it in one call, so that it can form
batches; a sentence that occurs twice is translated once.
"""

import bisect
import html
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from keras_transformer.inference.html_nodes import (
    Node,
    attribute_texts,
    nodes_of,
    runs_of,
    with_attributes,
)
from keras_transformer.text.sentence_splitting import (
    SENTENCE_MARKS,
    join_sentences,
    split_sentences,
)

Translate = Callable[[list[str]], list[str]]

# Of files that are HTML.
PAGE_SUFFIXES = (".html", ".htm", ".xhtml")
# A sentence with more has its tags placed by the number of words: each is
# looked for in all of the sentence, and they may be nested.
_MOST_ELEMENTS = 64
_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
# Marks of quotations, lists and headings at the beginning of a line.
_LIST_MARKS = re.compile(r"(?:[-*+•–>#]+[ \t]+)*")
# A character of a text in HTML.
_CHARACTER = re.compile(r"(?sa)&(?:#\d+|#[xX][\da-fA-F]+|[a-zA-Z]\w*);?|.")


def translate_text(translate: Translate, text: str) -> str:
    r"""Translates a text of several sentences and lines.

    Line breaks, blank lines, indentation, spaces between sentences and the
    marks of lists at the beginning of a line (`-`, `*`, `>`, `#`) are kept,
    and so is a sentence without letters. A sentence ends with its line.

    Args:
        translate: Takes a list of sentences, returns their translations.
        text: Any text.

    Returns:
        The translation.

    Example:

    ```python
    translate_text(kt.Translator.open("runs/demo"), "A dog. A cat.\n\n- Yes.\n")
    # "Ein Hund. Eine Katze.\n\n- Ja.\n"
    ```
    """
    parts = []  # marks, sentence, and the whitespace after it
    starts_line = True
    for sentence, space in split_sentences(text):
        marks = _LIST_MARKS.match(sentence)[0] if starts_line else ""
        parts.append((marks, sentence[len(marks) :], space))
        starts_line = not sentence or len(f"{space}.".splitlines()) > 1
    known = _translations(translate, (sentence for _, sentence, _ in parts))
    return join_sentences(
        (marks + known.get(sentence, sentence), space)
        for marks, sentence, space in parts
    )


def translate_html(
    translate: Translate, page: str, language: str | None = None
) -> str:
    """Translates the texts of an HTML page, and changes nothing else.

    Tags, comments, whitespace between sentences, and what stands in `script`,
    `style`, `pre`, `code` and the like, in an element with `translate="no"`
    or in one of the class `notranslate`, are kept as they are. The attributes
    `alt` and `title` are translated.

    A sentence is translated without its tags. An element within it, such as
    `<b>`, is placed where the translation of the element's own text is found
    in that of the sentence, once and as whole words. If this fails for one of
    the elements, one continues in another sentence, or there are more than 64,
    all tags of the sentence are placed after as large a part of its words as in
    the source. But with an element that is kept, such as `<code>`, the texts
    between the tags of the sentence are then translated separately.

    Args:
        translate: Takes a list of sentences, returns their translations.
        page: The page, or a part of one. It may be invalid HTML.
        language: Code of the language that `translate` translates to: the new
            `lang` of the element `html`. Default: that is kept.

    Returns:
        The translated page.

    Example:

    ```python
    translate_html(kt.Translator.open("runs/demo"), "<p>A <b>dog</b>.</p>")
    # "<p>Ein <b>Hund</b>.</p>"
    ```
    """
    nodes = list(nodes_of(page))
    parts = list(_parts(nodes))
    texts = [text for part in parts for text in part.texts]
    attributes = [text for node in nodes for text in attribute_texts(node)]
    known = _translations(translate, [*texts, *attributes])
    translated = "".join(part.translated(known) for part in parts)
    return "".join(
        with_attributes(node, known, language) for node in nodes_of(translated)
    )


def _translations(translate: Translate, texts: Iterable[str]) -> dict[str, str]:
    """Returns translations, of one line each, of the texts with letters."""
    wanted = list(dict.fromkeys(filter(_LETTER.search, texts)))
    translations = map(_collapsed, translate(wanted) if wanted else [])
    return dict(zip(wanted, translations, strict=True))


# === Sentences of HTML ===


class _Element(NamedTuple):
    """An element within a sentence."""

    opening: str
    inner: list["Node | _Element"]
    closing: str

    @property
    def text(self) -> str:
        return "".join(item.text for item in self.inner)


class _Sentence(NamedTuple):
    """A sentence with the tags within it, or nodes without letters."""

    nodes: list[Node]
    is_joined: bool = False  # the next sentence follows without whitespace

    @property
    def text(self) -> str:
        return _collapsed("".join(node.text for node in self.nodes))

    @property
    def texts(self) -> list[str]:
        """What may have to be translated."""
        pieces = [_collapsed(x.text) for x in self.nodes if x.kind == "text"]
        if not any(map(_LETTER.search, pieces)):
            return []
        texts = [self.text, *_element_texts(_tree(self.nodes) or [])]
        return [*texts, *pieces] if self._has_kept_text else texts

    @property
    def _has_kept_text(self) -> bool:
        return any(node.kind == "kept" and node.text for node in self.nodes)

    def translated(self, known: Mapping[str, str]) -> str:
        tree, target = _tree(self.nodes), known.get(self.text)
        if not self.texts:
            placed = "".join(node.raw for node in self.nodes)
        elif tree is None or (placed := _place(tree, target, known)) is None:
            placed = (
                "".join(_piece(node, known) for node in self.nodes)
                if self._has_kept_text
                else _spread(self.nodes, target)
            )
        # The empty sentence makes the other's end one between sentences.
        pairs = [(placed, ""), ("", "")] if self.is_joined else [(placed, "")]
        return join_sentences(pairs)


def _parts(nodes: list[Node]) -> Iterator[_Sentence]:
    """Yields what a page consists of."""
    for is_inline, run in runs_of(nodes):
        if is_inline and any(_LETTER.search(node.text) for node in run):
            yield from _parts_of_run(run)
        else:
            yield _Sentence(run)


def _parts_of_run(run: list[Node]) -> Iterator[_Sentence]:
    """Yields the sentences of nodes that may be of one sentence."""
    starts, ends, at = [], [], 0
    for sentence, space in split_sentences("".join(map(_shape, run))):
        if sentence:
            starts.append(at)
            ends.append(at + len(sentence))
        at += len(sentence) + len(space)

    def sentence_of(placed: tuple[Node, int]) -> int | None:
        """Returns the index of the sentence that a node belongs to."""
        node, at = placed
        if node.kind == "close":  # it belongs to what is before it
            i = bisect.bisect_left(starts, at) - 1
            return i if i >= 0 and at <= ends[i] else None
        i = bisect.bisect_right(starts, at) - 1
        return i if i >= 0 and at < ends[i] else None

    cut = _cut(run, sorted({*starts, *ends}))
    for i, group in itertools.groupby(cut, sentence_of):
        nodes = [node for node, _ in group]
        first, last = _inner(nodes) if i is not None else (0, 0)
        yield _Sentence(nodes[:first])
        if first < last:
            yield _Sentence(nodes[first:last], ends[i] in starts[i + 1 : i + 2])
        yield _Sentence(nodes[last:])


def _shape(node: Node) -> str:
    """Returns a text of the same length, to split it into sentences."""
    if node.kind == "kept":  # no sentence ends within
        return re.sub(r"\W", "x", node.text)
    return re.sub(r"[^\S\u00a0\u202f]", " ", node.text)  # lines mean nothing


def _cut(run: list[Node], cuts: list[int]) -> Iterator[tuple[Node, int]]:
    """Yields nodes, the texts cut at positions, and where they begin."""
    start = 0
    for node in run:
        end = start + len(node.text)
        first, last = bisect.bisect(cuts, start), bisect.bisect_left(cuts, end)
        if node.kind == "text" and first < last:
            characters = _CHARACTER.findall(node.raw)
            if list(map(html.unescape, characters)) != list(node.text):
                characters = [html.escape(x, quote=False) for x in node.text]
            edges = [start, *cuts[first:last], end]
            for a, b in itertools.pairwise(edges):
                part = slice(a - start, b - start)
                raw = "".join(characters[part])
                yield node._replace(raw=raw, text=node.text[part]), a
        else:
            yield node, start
        start = end


def _inner(nodes: list[Node]) -> tuple[int, int]:
    """Returns the slice without tags that surround all of a sentence.

    They are pairs, those whose other tag is elsewhere, and what has no text.
    """
    partners: dict[int, int] = {}
    opened: list[int] = []
    for i, node in enumerate(nodes):
        if node.kind == "open":
            opened.append(i)
        elif node.kind == "close" and opened:
            if nodes[opened[-1]].name == node.name:
                partners[i] = opened.pop()
                partners[partners[i]] = i
    first, last = 0, len(nodes)
    while first < last:
        if not nodes[first].text and first not in partners:
            first += 1
        elif not nodes[last - 1].text and last - 1 not in partners:
            last -= 1
        elif partners.get(first) == last - 1:
            first, last = first + 1, last - 1
        else:
            break
    return first, last


def _tree(nodes: list[Node]) -> list[Node | _Element] | None:
    """Returns nodes with elements instead of tags.

    None if the tags are not pairs, or there are too many elements.
    """
    if sum(node.kind in ("open", "kept") for node in nodes) > _MOST_ELEMENTS:
        return None
    levels: list[list] = [[]]
    opened: list[Node] = []
    for node in nodes:
        if node.kind == "open":
            opened.append(node)
            levels.append([])
        elif node.kind == "close":
            if not opened or opened[-1].name != node.name:
                return None
            element = _Element(opened.pop().raw, levels.pop(), node.raw)
            levels[-1].append(element)
        else:
            levels[-1].append(node)
    return None if opened else levels[0]


def _element_texts(items: list[Node | _Element]) -> Iterator[str]:
    for item in items:
        if isinstance(item, _Element):
            yield _collapsed(item.text)
            yield from _element_texts(item.inner)


def _place(
    items: list[Node | _Element], target: str, known: Mapping[str, str]
) -> str | None:
    """Returns a translation with its elements, None if one is not found."""
    spots = [(0, 0, "")]  # start, end, and what is there instead
    for item in items:
        source = _collapsed(item.text)
        if isinstance(item, _Element):
            span = _find(source, target, known.get(source))
            inner = span and _place(item.inner, target[slice(*span)], known)
            raw = None if inner is None else item.opening + inner + item.closing
        elif item.kind == "text":
            continue
        else:
            span, raw = _find(source, target, None), item.raw
        if span is None or raw is None:
            return None
        spots.append((*span, raw))
    spots = [*sorted(spots), (len(target), 0, "")]
    placed = ""
    for (_, start, raw), (end, *_) in itertools.pairwise(spots):
        if start > end:
            return None  # two overlap
        placed += raw + html.escape(target[start:end], quote=False)
    return placed


def _find(
    source: str, target: str, translation: str | None
) -> tuple[int, int] | None:
    """Returns where a translation is in that of its sentence.

    Names and numbers may be as in the source.
    """
    for wanted in filter(None, (translation, source)):
        if not source.endswith(tuple(SENTENCE_MARKS)):
            wanted = wanted.rstrip(SENTENCE_MARKS)
        pattern = rf"(?<!\w){re.escape(wanted)}(?!\w)"
        spans = [m.span() for m in re.finditer(pattern, target, re.IGNORECASE)]
        if wanted and len(spans) == 1:
            return spans[0]
    return None


def _spread(nodes: list[Node], target: str) -> str:
    """Returns a translation with tags after the same part of its words."""
    source = "".join(node.text for node in nodes)
    starts = [match.start() for match in _WORD.finditer(source)]
    words = [match.span() for match in _WORD.finditer(target)]
    most, words = len(words), [*words, (len(target), 0)]
    position = least = at = 0  # in source, in words, in target
    placed = ""
    for node in nodes:
        position += len(node.text)
        if node.kind == "text":
            continue
        count = bisect.bisect_left(starts, position)
        index = round(count * most / max(len(starts), 1))
        if node.kind == "close":  # after a word, if there is one
            index = min(max(index, least), most)
            end = max(at, words[index - 1][1] if index else 0)
            if not source.endswith(tuple(SENTENCE_MARKS), 0, position):
                before = target[at:end].rstrip(SENTENCE_MARKS + ",")
                end = at + len(before)
        else:
            end = max(at, words[index][0])
            least = index + 1
        placed += html.escape(target[at:end], quote=False) + node.raw
        at = end
    return placed + html.escape(target[at:], quote=False)


def _piece(node: Node, known: Mapping[str, str]) -> str:
    """Returns a node of a sentence that is translated in pieces."""
    translation = known.get(_collapsed(node.text))
    if node.kind != "text" or translation is None:
        return node.raw
    inner = node.text.strip()
    before, _, after = node.text.partition(inner)
    return before + html.escape(translation, quote=False) + after


def _collapsed(text: str) -> str:
    return " ".join(text.split())
