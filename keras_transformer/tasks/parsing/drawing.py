"""Pictures of trees, as SVG.

Each word has a column; its tag is above it, and each constituent is above all
that it contains. No line crosses another or a label: between the columns lines
run only in the row below their parent.
"""

import html
import re
import unicodedata

from keras_transformer.tasks.parsing.trees import Tree, unescape_brackets

FONT_SIZE = 15
TAG_SIZE = 12
ROW = 38  # between labels
MARGIN = 18
GAP = 14  # between columns
# Where lines begin below a label's baseline and end above the next one's.
_BELOW, _ABOVE = 6, 16
_WORD_ROW = 22  # from tags to words
_NOT_IN_XML = re.compile(
    "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_STYLE = f"""
.tree-picture text {{ font: {FONT_SIZE}px Helvetica, Arial, sans-serif;
  text-anchor: middle; fill: #1d4ed8 }}
.tree-picture .constituent {{ font-weight: 600 }}
.tree-picture .tag {{ fill: #5b6472; font-size: {TAG_SIZE}px }}
.tree-picture .word {{ fill: #111827 }}
.tree-picture path {{ fill: none; stroke: #8492a6; stroke-width: 1.2;
  stroke-linejoin: round }}
.tree-picture rect {{ fill: #ffffff }}
@media (prefers-color-scheme: dark) {{
.tree-picture text {{ fill: #93c5fd }}
.tree-picture .tag {{ fill: #a3afc0 }}
.tree-picture .word {{ fill: #f1f5f9 }}
.tree-picture path {{ stroke: #64748b }}
.tree-picture rect {{ fill: #0f172a }}
}}
"""


def draw(tree: Tree) -> str:
    """Returns a picture of a tree.

    Widths of texts are estimated, since no font is at hand: a font that is
    much wider than Helvetica makes words touch each other.

    Args:
        tree: The tree. Brackets in words are shown as such.

    Returns:
        A self-contained SVG document in one string. It can be written to a
        file, which browsers show, or be part of an HTML document. Its colors
        follow the reader's choice of a light or a dark scheme.
    """
    # The same `Tree` object may occur several times, so nodes are numbered;
    # children after parents.
    nodes, children = [tree], []
    for node in nodes:  # and those that are added
        inside = () if isinstance(node.children, str) else node.children
        children.append(range(len(nodes), len(nodes) + len(inside)))
        nodes.extend(inside)
    widths = [_estimate_column(node) + GAP for node in nodes]
    levels = [0] * len(nodes)
    for i in reversed(range(len(nodes))):
        if children[i]:
            levels[i] = 1 + max(levels[j] for j in children[i])
            widths[i] = max(widths[i], sum(widths[j] for j in children[i]))
    # A label is in the middle of its columns.
    x = [MARGIN + widths[0] / 2] * len(nodes)
    for i, inside in enumerate(children):
        start = x[i] - sum(widths[j] for j in inside) / 2
        for j in inside:
            x[j] = start + widths[j] / 2
            start += widths[j]
    y = [MARGIN + FONT_SIZE + ROW * (levels[0] - level) for level in levels]
    lines, labels, words = [], [], []
    for i, node in enumerate(nodes):
        if isinstance(node.children, str):
            word = unescape_brackets(node.children)
            tag = _text(x[i], y[i], node.label, "tag")
            word = _text(x[i], y[i] + _WORD_ROW, word, "word")
            words.append((x[i], tag, word))
        else:
            labels.append(_text(x[i], y[i], node.label, "constituent"))
        if children[i]:
            top = y[i] + _BELOW
            bar = top + (ROW - _BELOW - _ABOVE) // 2
            lines.append(
                "".join(
                    f"M{x[i]:.1f} {top}V{bar}H{x[j]:.1f}V{y[j] - _ABOVE}"
                    for j in children[i]
                )
            )
    width = round(widths[0] + 2 * MARGIN)
    height = y[0] + ROW * levels[0] + _WORD_ROW + MARGIN
    title = " ".join(map(unescape_brackets, tree.words))
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="tree-picture" '
            f'role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">',
            f"<title>{_escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%"/>',
            f'<path d="{" ".join(lines)}"/>',
            *labels,
            # In the order of the text.
            *(text for _, *texts in sorted(words) for text in texts),
            "</svg>\n",
        ]
    )


def _estimate_column(node: Tree) -> float:
    """Returns about the width of a label, or of a tag and its word."""
    if isinstance(node.children, str):
        word = unescape_brackets(node.children)
        tag = TAG_SIZE / FONT_SIZE * _estimate_width(node.label)
        return max(tag, _estimate_width(word))
    return _estimate_width(node.label)


def _estimate_width(text: str) -> float:
    """Returns at least the width of a text in Helvetica, in pixels.

    The classes of characters are those of bold letters, which are wider.
    """
    width = 0.0
    for character in text:
        if unicodedata.combining(character):
            continue
        if (
            unicodedata.east_asian_width(character) in "WF"
            or character in "mwMW@%—…"
        ):
            width += 1.0
        elif character in "fijlrtI.,:;'`|!()[]/ ":
            width += 0.39
        else:
            width += 0.78 if character.isupper() or character == "&" else 0.62
    return FONT_SIZE * width


def _text(x: float, y: int, text: str, name: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" class="{name}">{_escape(text)}</text>'


def _escape(text: str) -> str:
    """Returns a text as XML, with � for what XML cannot contain."""
    return html.escape(_NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text))
