"""An HTML page as nodes, which are the page again when they are joined.

Python's parser says where they start; no tag is written again. So whatever is
not translated, valid or not, remains as it is.
"""

import html
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from typing import NamedTuple

# Elements that may stand within a sentence. All others end it.
_INLINE = frozenset(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i img "
    "input ins kbd label mark math output q rp rt ruby s samp small span "
    "strike strong sub sup svg time tt u var wbr".split()
)
_VOID = frozenset(
    "area base br col embed hr img input link meta param source track "
    "wbr".split()
)
# Elements whose content is not translated.
_KEPT = frozenset(
    "code kbd math pre rp rt samp script style svg template textarea tt "
    "var".split()
)
# Elements whose content is not part of the sentence around them.
_APART = frozenset("rp rt svg".split())
# Those with no letter between them are in several sentences.
_LABELS = frozenset("button label".split())
# Start tags, and open elements that they end: those whose end tag is optional.
_ENDED = {
    start: frozenset(ended.split())
    for starts, ended in {
        "address article aside blockquote center details dialog div dl "
        "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
        "hgroup hr main menu nav ol p pre search section table ul": "p",
        "li": "li",
        "dt dd": "dt dd",
        "td th": "td th",
        "tr": "td th tr caption colgroup",
        "tbody tfoot thead": "td th tr tbody thead caption colgroup",
        "optgroup": "optgroup option",
        "option": "option",
        "body": "head",
    }.items()
    for start in starts.split()
}
# Within these, start tags end no element that is around them.
_SCOPES = frozenset(
    "button dl math menu object ol select svg table template textarea "
    "ul".split()
)
_DEEPEST = 512  # no browser nests deeper; it bounds the time per tag
_TRANSLATED_ATTRIBUTES = ("alt", "title")
# A quoted value with what is before it. Values are read one after another, so
# that a value which looks like an attribute is not taken for one.
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
    """Finds where the pieces of a page start, and which form one node."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        # Start, kind and name of each piece of each node.
        self.nodes: list[list[tuple[int, str, str]]] = []
        self._opened: list[str] = []
        self._kept_depth = math.inf  # of the kept element, if it is open
        self._is_xhtml = "www.w3.org/1999/xhtml" in page
        self._lines = [0, *(match.end() for match in re.finditer("\n", page))]
        self.feed(page)
        self.close()

    def _add(self, kind: str, name: str = "", is_kept: bool = False) -> None:
        line, column = self.getpos()
        start = self._lines[line - 1] + column if self.nodes else 0
        depth = self._depth_at(kind, name)
        is_within = depth > self._kept_depth
        if (
            is_within
            or (kind == "close" and depth == self._kept_depth)
            or (kind == "text" and self.nodes and self.nodes[-1][-1][1] == kind)
        ):
            self.nodes[-1].append((start, kind, name))
        else:
            self.nodes.append([(start, "kept" if is_kept else kind, name)])
        if not is_within:
            is_open = is_kept and kind == "open"
            self._kept_depth = depth if is_open else math.inf
        self._opened[depth:] = [name] if kind == "open" else []

    def _depth_at(self, kind: str, name: str) -> int:
        """Returns how many elements are still open around a piece."""
        depth = len(self._opened)
        is_end = kind == "close"
        ended = {name} if is_end else _ENDED.get(name, ())
        for i in reversed(range(depth)[-_DEEPEST:] if ended else ()):
            if self._opened[i] in ended:
                depth = i
            if depth == i if is_end else self._opened[i] in _SCOPES:
                break
        return depth

    def handle_starttag(
        self, tag: str, attrs: list, is_empty: bool = False
    ) -> None:
        values = dict(attrs)
        is_kept = (
            tag in _KEPT
            or (values.get("translate") or "").lower() == "no"
            or "notranslate" in (values.get("class") or "").split()
        )
        is_void = is_empty or tag in _VOID
        self._add("void" if is_void else "open", tag, is_kept)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        # In HTML, the "/" of other elements means nothing.
        is_empty = self._is_xhtml or tag in ("math", "svg")
        self.handle_starttag(tag, attrs, is_empty)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_comment(self, data: str) -> None:
        self._add("comment")

    def handle_data(self, data: str) -> None:
        # The rest of a tag that cannot be read is not text.
        self._add("kept" if re.match(r"<[^\s<]", data) else "text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    handle_charref = handle_entityref

    def handle_decl(self, decl: str) -> None:
        self._add("kept")

    handle_pi = unknown_decl = handle_decl


def nodes_of(page: str) -> Iterator[Node]:
    """Yields the nodes of a page. Their `raw` together are the page."""
    nodes = _Scanner(page).nodes or [[(0, "kept", "")]]
    ends = [*(pieces[0][0] for pieces in nodes[1:]), len(page)]
    for pieces, end in zip(nodes, ends, strict=True):
        start, kind, name = pieces[0]
        text = ""
        if kind == "text" or name in _INLINE - _APART:
            spans = itertools.pairwise([*pieces, (end, "", "")])
            texts = (page[x[0] : y[0]] for x, y in spans if x[1] == "text")
            text = html.unescape("".join(texts))
        yield Node(kind, name, page[start:end], text)


def runs_of(nodes: Iterable[Node]) -> Iterator[tuple[bool, list[Node]]]:
    """Yields nodes side by side, and whether they may be of one sentence."""
    count, has_letters = 0, True

    def run_of(node: Node) -> tuple[bool, int]:
        nonlocal count, has_letters
        if node.name in _LABELS:
            count += node.kind != "close" and not has_letters
            has_letters = node.kind == "open"
        else:
            has_letters |= any(map(str.isalpha, node.text))
        return node.is_inline, count

    for (is_inline, _), run in itertools.groupby(nodes, run_of):
        yield is_inline, list(run)


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
