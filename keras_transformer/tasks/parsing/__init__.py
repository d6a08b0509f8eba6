"""Constituency trees: files, sequences of symbols, scores."""

from keras_transformer.tasks.parsing.bracketing import bracketing_scores
from keras_transformer.tasks.parsing.linearization import symbols
from keras_transformer.tasks.parsing.penn import read_trees
from keras_transformer.tasks.parsing.trees import Tree, escape_brackets, pretty

__all__ = [
    "Tree",
    "bracketing_scores",
    "escape_brackets",
    "pretty",
    "read_trees",
    "symbols",
]
