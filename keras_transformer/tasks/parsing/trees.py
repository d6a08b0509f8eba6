"""Constituency trees, and their text with brackets.

Nothing here recurses: trees may be deeper than Python's recursion limit.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from keras_transformer.support.errors import InputError

ROOT = "TOP"
# Separators are those of ASCII. A no-break space is part of a word.
_SEPARATORS = " \t\n\r\f\v"
_TOKEN = re.compile(rf"[()]|[^(){_SEPARATORS}]+")
_ATOM = re.compile(rf"[^(){_SEPARATORS}]+")
_BRACKETS = {"(": "-LRB-", ")": "-RRB-"}


@dataclasses.dataclass(frozen=True, eq=False, repr=False, slots=True)
class Tree:
    """A constituent, or a word with its part-of-speech tag.

    Trees are equal if their texts are.

    Args:
        label: Category of the constituent, or tag of the word.
        children: The constituents and tagged words inside; or the word, as a
            `str`. An empty tuple is a sentence without words: such a tree is
            the child of no other.

    Raises:
        InputError: If the label or the word is empty or contains a bracket or
            whitespace, or a child has no children.

    Example:

    ```python
    tree = Tree.parse("(TOP (NP (DT the) (NN dog)))")
    tree.words  # ["the", "dog"]
    tree.children[0] == Tree("NP", (Tree("DT", "the"), Tree("NN", "dog")))
    ```
    """

    label: str
    children: tuple["Tree", ...] | str

    def __post_init__(self):
        word = self.children if isinstance(self.children, str) else None
        for name, text in (("label", self.label), ("word", word)):
            if text is not None and not _ATOM.fullmatch(text):
                raise InputError(
                    f"A {name} must be a text without brackets and "
                    f"whitespace. Received: {name}={text!r}. Write the "
                    "brackets of words as -LRB- and -RRB-: "
                    "`escape_brackets(word)`."
                )
        for child in self.children if word is None else ():
            if not child.children:
                raise InputError(
                    "A constituent must have children. Received: "
                    f"({child.label} ) inside ({self.label} ...)"
                )

    @classmethod
    def parse(cls, text: str) -> "Tree":
        """Returns the tree that a text shows.

        Args:
            text: One tree, as in the Penn Treebank: `(S (NP (DT the) ...`. An
                outer bracket without a label gets the label `TOP`.

        Raises:
            InputError: If brackets are missing, or the text is not one tree.
        """
        trees = [tree for _, tree in parse_trees(text.split("\n"))]
        if len(trees) != 1:
            raise InputError(
                "A text must have one tree. Received: "
                f"{len(trees)} trees in {_shorten(text)}"
            )
        return trees[0]

    def walk(
        self,
    ) -> Iterator[tuple[Literal["open", "word", "close"], "Tree"]]:
        """Yields the tree in the order of its text.

        Yields:
            `"open"` and `"close"` with each constituent, and `"word"` with
            each tagged word.
        """
        # A constituent whose children are on the stack is there twice.
        stack: list[tuple[bool, Tree]] = [(False, self)]
        while stack:
            closing, tree = stack.pop()
            if closing:
                yield "close", tree
            elif isinstance(tree.children, str):
                yield "word", tree
            else:
                yield "open", tree
                stack.append((True, tree))
                stack.extend((False, child) for child in tree.children[::-1])

    @property
    def words(self) -> list[str]:
        """The words, with brackets written as `-LRB-` and `-RRB-`."""
        return [tree.children for kind, tree in self.walk() if kind == "word"]

    @property
    def tags(self) -> list[str]:
        """The part-of-speech tag of each word."""
        return [tree.label for kind, tree in self.walk() if kind == "word"]

    def __str__(self):
        parts = []
        for kind, tree in self.walk():
            if kind == "close":
                # A tree without words keeps its space: (TOP ).
                at = -1 if tree.children else len(parts)
                parts[at:] = [parts[-1] + ")"] if tree.children else [")"]
            elif kind == "open":
                parts.append(f"({tree.label}")
            else:
                parts.append(f"({tree.label} {tree.children})")
        return " ".join(parts)

    def __repr__(self):
        return f"Tree.parse({str(self)!r})"

    def __eq__(self, other):
        if not isinstance(other, Tree):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


class TreeBuilder:
    """Builds a tree from its parts, in the order of its text.

    A constituent that is closed without children is left out.

    Args:
        label: Label of the root.
    """

    def __init__(self, label: str = ROOT):
        self._stack: list[tuple[str, list[Tree]]] = [(label, [])]

    def open(self, label: str) -> None:
        """Opens a constituent."""
        self._stack.append((label, []))

    def word(self, tag: str, word: str) -> None:
        """Adds a tagged word to the constituent that was opened last."""
        self._stack[-1][1].append(Tree(tag, word))

    def close(self, label: str) -> None:
        """Closes the last open constituent with a label, and all inside of it.

        Does nothing if none is open.
        """
        for at in reversed(range(1, len(self._stack))):
            if self._stack[at][0] == label:
                self._close_from(at)
                break

    def _close_from(self, at: int) -> None:
        while len(self._stack) > at:
            label, children = self._stack.pop()
            if children:
                self._stack[-1][1].append(Tree(label, tuple(children)))

    def finish(self) -> Tree:
        """Closes what is open, and returns the tree."""
        self._close_from(1)
        label, children = self._stack[0]
        return Tree(label, tuple(children))


def parse_trees(
    lines: Iterable[str], name: str = "text"
) -> Iterator[tuple[int, Tree]]:
    """Yields each tree of a text, and the number of the line it begins in.

    Args:
        lines: Lines of text. A tree may take several lines, and a line may
            have several trees. Lines that begin with `*x*` between trees are
            comments, as in the Switchboard part of the Penn Treebank.
        name: What the error messages call the text.

    Raises:
        InputError: If brackets are missing, or there is something else.
    """
    # Label, if it was read, and children of the constituents that are open.
    stack: list[tuple[list[str], list[Tree] | list[str]]] = []
    start = 0

    def error(number, text):
        begin = f", in the tree that begins in line {start}" if stack else ""
        return InputError(f"{name}, line {number}: {text}{begin}.")

    for number, line in enumerate(lines, 1):
        if not stack and line.startswith("*x*"):
            continue
        for token in _TOKEN.findall(line):
            labels, children = stack[-1] if stack else ([], [])
            if token == "(":
                if stack and not labels:
                    if len(stack) > 1:
                        raise error(number, "A bracket has no label")
                    labels.append(ROOT)
                if children and isinstance(children[0], str):
                    raise error(number, f"A bracket after word {children[0]!r}")
                start = start if stack else number
                stack.append(([], []))
            elif not stack:
                what = "a closing bracket" if token == ")" else "text"
                raise error(
                    number, f"There is {what} outside of a tree: {token!r}"
                )
            elif token != ")":
                if not labels:
                    labels.append(token)
                elif children:
                    raise error(
                        number, f"There is text after a child: {token!r}"
                    )
                else:
                    children.append(token)
            elif not labels or (not children and len(stack) > 1):
                raise error(number, "A bracket is empty")
            else:
                stack.pop()
                (label,) = labels
                is_word = children and isinstance(children[0], str)
                tree = Tree(label, children[0] if is_word else tuple(children))
                if stack:
                    stack[-1][1].append(tree)
                else:
                    yield start, tree
    if stack:
        raise InputError(
            f"{name}: The tree that begins in line {start} lacks closing "
            f"brackets. Received: {len(stack)} open brackets at the end"
        )


def pretty(tree: Tree, width: int = 80) -> str:
    """Returns the tree as indented lines.

    Args:
        tree: The tree.
        width: A constituent that is shorter is written in one line.
    """
    # Length of the text of each constituent, children first.
    length: dict[int, int] = {}
    for kind, node in tree.walk():
        if kind == "word":
            length[id(node)] = len(str(node))
        elif kind == "close":
            inside = sum(length[id(child)] + 1 for child in node.children)
            length[id(node)] = len(node.label) + 2 + inside
    lines: list[str] = []
    stack: list[tuple[int, Tree] | None] = [(0, tree)]
    while stack:
        item = stack.pop()
        if item is None:
            lines[-1] += ")"
            continue
        depth, node = item
        if (
            2 * depth + length[id(node)] <= width
            or not node.children
            or isinstance(node.children, str)
        ):
            lines.append("  " * depth + str(node))
        else:
            lines.append("  " * depth + f"({node.label}")
            stack.append(None)
            stack.extend((depth + 1, child) for child in node.children[::-1])
    return "\n".join(lines)


def escape_brackets(word: str) -> str:
    """Returns a word with its round brackets as `-LRB-` and `-RRB-`."""
    for bracket, name in _BRACKETS.items():
        word = word.replace(bracket, name)
    return word


def unescape_brackets(word: str) -> str:
    """Returns a word with `-LRB-` and `-RRB-` as round brackets."""
    for bracket, name in _BRACKETS.items():
        word = word.replace(name, bracket)
    return word


def _shorten(text: str, length: int = 60) -> str:
    return repr(text if len(text) <= length else text[:length] + "...")
