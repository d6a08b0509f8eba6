"""Constituency trees, and their text with brackets.

Nothing here recurses: trees may be deeper than Python's recursion limit.
"""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from keras_transformer.support.errors import InputError

ROOT = "TOP"
# Only ASCII whitespace separates: a no-break space is part of a word.
_ATOM = re.compile(r"[^() \t\n\r\f\v]+")
_TOKEN = re.compile(rf"[()]|{_ATOM.pattern}")


@dataclasses.dataclass(frozen=True, eq=False, repr=False, slots=True)
class Tree:
    """A constituent, or a word with its part-of-speech tag.

    Trees are equal if their texts are.

    Args:
        label: Category of the constituent, or tag of the word.
        children: The constituents and tagged words inside; or the word, as a
            `str` without spaces and brackets (see `escape_brackets`); or an
            empty tuple for a sentence without words, which cannot be a child.

    Example:

    ```python
    tree = Tree.from_string("(TOP (NP (DT the) (NN dog)))")
    tree.words  # ["the", "dog"]
    tree.children[0] == Tree("NP", (Tree("DT", "the"), Tree("NN", "dog")))
    ```
    """

    label: str
    children: tuple["Tree", ...] | str

    def __post_init__(self):
        for atom in (self.label, self.children):
            if isinstance(atom, str) and not _ATOM.fullmatch(atom):
                raise InputError(
                    "Labels and words of a tree must not be empty or contain "
                    f"brackets or whitespace. Received: {atom!r}. Write "
                    "brackets as -LRB- and -RRB-: `escape_brackets(word)`."
                )

    @classmethod
    def from_string(cls, text: str) -> "Tree":
        """Returns the tree of a bracketed text, as `str(tree)` writes it.

        Args:
            text: One tree, as in the Penn Treebank: `(S (NP (DT the) ...`. An
                outer bracket without a label gets the label `TOP`.

        Raises:
            InputError: If brackets are missing, or the text is not one tree.
        """
        trees = list(read_bracketed(text.split("\n")))
        if len(trees) != 1:
            raise InputError(
                "A text must contain one tree. Received: "
                f"{len(trees)} trees in {text!r:.60}"
            )
        return trees[0]

    def walk(self) -> Iterator[tuple[Literal["open", "word", "close"], "Tree"]]:
        """Yields the tree in the order of its text.

        Each constituent comes with `"open"` and `"close"`, each tagged word
        with `"word"`.
        """
        # True: the children of the constituent were yielded.
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
        return [tree.children for event, tree in self.walk() if event == "word"]

    @property
    def tags(self) -> list[str]:
        """The part-of-speech tag of each word."""
        return [tree.label for event, tree in self.walk() if event == "word"]

    def __str__(self):
        parts = []
        for event, tree in self.walk():
            if event == "close":
                parts.append(")")
            elif event == "open":
                parts.append(f" ({tree.label}")
            else:
                parts.append(f" ({tree.label} {tree.children})")
        return "".join(parts)[1:]

    def __repr__(self):
        return f"Tree.from_string({str(self)!r})"

    def __eq__(self, other):
        if not isinstance(other, Tree):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def read_bracketed(lines: Iterable[str], name: str = "text") -> Iterator[Tree]:
    """Yields the trees of a text.

    A tree may take several lines, and a line may contain several trees. An
    InputError names the text and the line.
    """
    # Label and children so far of each open bracket.
    stack: list[list[str | Tree]] = []
    start = 0
    for number, line in enumerate(lines, 1):
        for token in _TOKEN.findall(line):
            if not _may_follow(stack, token):
                tree = f" in the tree that begins in line {start}"
                raise InputError(
                    f"{name}, line {number}: A tree must be written as (LABEL "
                    "trees) or (TAG word). Received: "
                    f"{token!r}{tree if stack else ' outside of a tree'}"
                )
            if token == "(":
                if stack and not stack[-1]:
                    stack[-1].append(ROOT)
                start = start if stack else number
                stack.append([])
            elif token != ")":
                stack[-1].append(token)
            else:
                parts = stack.pop()
                is_word = isinstance(parts[-1], str) and len(parts) > 1
                tree = Tree(parts[0], parts[1] if is_word else tuple(parts[1:]))
                if stack:
                    stack[-1].append(tree)
                else:
                    yield tree
    if stack:
        raise InputError(
            f"{name}: The tree that begins in line {start} lacks closing "
            f"brackets. Received: {len(stack)} open brackets at the end"
        )


def _may_follow(stack: list[list[str | Tree]], token: str) -> bool:
    """Returns whether a token may come after the open brackets."""
    if not stack:
        return token == "("
    parts = stack[-1]
    is_outermost = len(stack) == 1
    if token == ")":
        return len(parts) > 1 or (is_outermost and len(parts) == 1)
    if token != "(":
        return len(parts) < 2
    if not parts:  # only the root may have no label
        return is_outermost
    return len(parts) == 1 or not isinstance(parts[-1], str)


def pretty(tree: Tree, width: int = 80) -> str:
    """Returns the tree as indented lines.

    Args:
        tree: The tree.
        width: Shorter constituents are written in one line.
    """
    lines: list[str] = []
    starts: list[int] = []  # first line of each open constituent
    for event, node in tree.walk():
        indent = "  " * len(starts)
        if event == "word":
            lines.append(f"{indent}{node}")
        elif event == "open":
            starts.append(len(lines))
            lines.append(f"{indent}({node.label}")
        else:
            lines[-1] += ")"
            start = starts.pop()
            # If a child takes several lines, it is too long already.
            if len(lines) - start == 1 + len(node.children):
                children = map(str.lstrip, lines[start + 1 :])
                line = " ".join([lines[start], *children])
                if len(line) <= width:
                    lines[start:] = [line]
    return "\n".join(lines)


def escape_brackets(word: str) -> str:
    """Returns a word with its round brackets as `-LRB-` and `-RRB-`."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")
