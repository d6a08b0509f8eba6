"""An HTML page as nodes, which are the page again when they are joined.

Python's parser says where they begin; nothing is written anew. So whatever is
not translated, valid or not, remains as it is.
"""

import html
import itertools
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import NamedTuple

# Elements that may stand within a sentence. All others end it.
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd "
    "mark q s samp small span strike strong sub sup time tt u var wbr".split()
)
_VOID = frozenset(
    "area base br col embed hr img input link meta param source track "
    "wbr".split()
)
# Elements whose content is no language.
_KEPT = frozenset(
    "code kbd math pre samp script style svg template textarea tt var".split()
)
_TRANSLATED_ATTRIBUTES = ("alt", "title")
# A quoted value with what is before it. Values are read one after another, so
# that one which looks like an attribute is none.
_ATTRIBUTE = re.compile(r"""(\s([^\s=>"'/]+)\s*=\s*)("[^"]*"|'[^']*')""")


class Node(NamedTuple):
    """A tag, a text, a comment, or an element that is kept as a whole."""

    kind: str  # "text", "open", "close", "void", "comment" or "kept"
    name: str  # of the element, in lower case
    raw: str  # as in the page
    text: str = ""  # what a reader sees

    @property
    def is_inline(self) -> bool:
        """Whether it may stand within a sentence."""
        return self.kind in ("text", "comment") or self.name in _INLINE


class _Scanner(HTMLParser):
    """Finds where the pieces of a page start, so that they can be cut out."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        # Start, kind, name, and whether an element is kept.
        self.found: list[tuple[int, str, str, bool]] = []
        self._lines = [0, *(match.end() for match in re.finditer("\n", page))]
        self.feed(page)
        self.close()

    def _add(self, kind: str, name: str = "", is_kept: bool = False) -> None:
        line, column = self.getpos()
        start = self._lines[line - 1] + column
        self.found.append((start, kind, name, is_kept))

    def handle_starttag(self, tag: str, attrs: list) -> None:
        values = dict(attrs)
        is_kept = (
            tag in _KEPT
            or (values.get("translate") or "").lower() == "no"
            or "notranslate" in (values.get("class") or "").split()
        )
        if tag not in _VOID:
            self._add("open", tag, is_kept)
        else:
            self._add("kept" if is_kept else "void", tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self._add("void", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_comment(self, data: str) -> None:
        self._add("comment")

    def handle_data(self, data: str) -> None:
        # The rest of a tag that cannot be read is no text.
        self._add("kept" if re.match(r"<[^\s<]", data) else "text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_decl(self, decl: str) -> None:
        self._add("kept")

    def handle_pi(self, data: str) -> None:
        self._add("kept")

    def unknown_decl(self, data: str) -> None:
        self._add("kept")


def nodes_of(page: str) -> Iterator[Node]:
    """Yields the nodes of a page. Their `raw` together are the page."""
    found = _Scanner(page).found or [(0, "kept", "", False)]
    cuts = [0, *(start for start, *_ in found[1:]), len(page)]
    pieces: list[list] = []  # kind, name, whether it is kept, raw
    for (_, *piece), (start, end) in zip(
        found, itertools.pairwise(cuts), strict=True
    ):
        if pieces and pieces[-1][0] == piece[0] == "text":
            pieces[-1][-1] += page[start:end]
        else:
            pieces.append([*piece, page[start:end]])
    remaining = iter(pieces)
    for kind, name, is_kept, raw in remaining:
        if kind == "open" and is_kept:
            inner, depth = [], 1
            while depth and (piece := next(remaining, None)):
                inner.append(piece)
                if piece[1] == name:
                    depth += {"open": 1, "close": -1}.get(piece[0], 0)
            texts = (piece[-1] for piece in inner if piece[0] == "text")
            text = html.unescape("".join(texts)) if name in _INLINE else ""
            raw += "".join(piece[-1] for piece in inner)
            yield Node("kept", name, raw, text)
        else:
            yield Node(kind, name, raw, html.unescape(raw) * (kind == "text"))


def attribute_texts(node: Node) -> list[str]:
    """Returns the values of the attributes that are translated."""
    if node.kind not in ("open", "void"):
        return []
    return [
        html.unescape(match[3][1:-1])
        for match in _ATTRIBUTE.finditer(node.raw)
        if match[2].lower() in _TRANSLATED_ATTRIBUTES
    ]


def with_attributes(
    node: Node, known: Mapping[str, str], language: str | None
) -> str:
    """Returns a node as HTML, with its attributes translated.

    Args:
        node: Any node.
        known: Translations of what `attribute_texts` returns.
        language: The value of the attribute `lang` of the element `html`.
    """
    if node.kind not in ("open", "void"):
        return node.raw
    has_language = False

    def changed(match: re.Match) -> str:
        nonlocal has_language
        name, value = match[2].lower(), html.unescape(match[3][1:-1])
        if name in _TRANSLATED_ATTRIBUTES and value in known:
            value = known[value]
        elif node.name == "html" and name == "lang" and language:
            value, has_language = language, True
        else:
            return match[0]
        return f'{match[1]}"{html.escape(value)}"'

    raw = _ATTRIBUTE.sub(changed, node.raw)
    if node.name == "html" and language and not has_language:
        at = len("<html")
        raw = f'{raw[:at]} lang="{html.escape(language)}"{raw[at:]}'
    return raw
