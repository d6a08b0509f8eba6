"""Files of the Penn Treebank and of treebanks in its format."""

import functools
import logging
import os
import re
from collections.abc import Iterator

from keras_transformer.support.text_files import read_lines
from keras_transformer.tasks.parsing.trees import ROOT, Tree, read_bracketed

_warn = functools.cache(logging.getLogger(__name__).warning)  # once per file

ROOTS = (ROOT, "S1", "ROOT")
EMPTY = "-NONE-"


def read_trees(path: str | os.PathLike) -> Iterator[Tree]:
    r"""Yields the trees of a file, normalized as usual for training parsers.

    - The root is `TOP`: it replaces `S1`, `ROOT` and an outer bracket without
      a label, and is added to trees without a root.
    - Empty elements (`-NONE-`) are removed, with the constituents that
      contain nothing else. Trees without words are skipped with a warning.
    - Functions, indices and features are removed from labels: `NP-SBJ-1`,
      `NP=2` and SPMRL's `NP##case=nom##` become `NP`. `ADVP|PRT` becomes
      `ADVP`. Labels that begin with a hyphen (`-LRB-`) are kept.
    - Words lose the backslashes of the format: `1\/2` becomes `1/2`.

    Args:
        path: A file in UTF-8, perhaps compressed, with one or more lines per
            tree. It is read lazily.

    Raises:
        InputError: If the format is wrong. The message names the line.
        OSError: If the file cannot be read.

    Reference:
        Bies et al., 1995: Bracketing Guidelines for Treebank II Style.
    """
    skipped = 0
    for tree in map(_normalize, read_bracketed(read_lines(path), str(path))):
        if tree.children:
            yield tree
        else:
            skipped += 1
    if skipped:
        _warn(f"{path}: skipped {skipped:,} trees without words")


def _normalize(tree: Tree) -> Tree:
    # Children of each open constituent, the root's first.
    stack: list[list[Tree]] = [[]]
    for event, node in tree.walk():
        label = base_label(node.label)
        if event == "word":
            if label != EMPTY:
                word = re.sub(r"\\([/*])", r"\1", node.children)
                stack[-1].append(Tree(label, word))
        elif node is tree and label in ROOTS:
            continue
        elif event == "open":
            stack.append([])
        elif children := stack.pop():
            stack[-1].append(Tree(label, tuple(children)))
    return Tree(ROOT, tuple(stack[0]))


def base_label(label: str) -> str:
    """Returns a label without functions and features; see `read_trees`."""
    return re.split(r"[-=|]|##", label)[0] or label
