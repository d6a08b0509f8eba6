"""Trees, their text, and what is no tree."""

import pytest
import random_trees
from hypothesis import given

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, escape_brackets, pretty
from keras_transformer.tasks.parsing.trees import read_bracketed

TEXT = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
TREE = Tree(
    "TOP",
    (
        Tree(
            "S",
            (
                Tree("NP", (Tree("DT", "the"), Tree("NN", "dog"))),
                Tree("VP", (Tree("VBZ", "barks"),)),
                Tree(".", "."),
            ),
        ),
    ),
)
DEPTH = 10_000  # Python's recursion limit is 1,000


def chain(depth):
    return f"{'(X ' * depth}(NN dog){')' * depth}"


def test_parse_and_str():
    tree = Tree.from_string(TEXT)
    assert tree.label == "TOP"
    (sentence,) = tree.children
    assert [child.label for child in sentence.children] == ["NP", "VP", "."]
    assert sentence.children[0].children[1].children == "dog"
    assert str(TREE) == TEXT
    assert tree == TREE
    assert hash(tree) == hash(TREE)
    assert eval(repr(tree)) == TREE


@pytest.mark.parametrize(
    "text",
    [
        "(TOP(S(NP(DT the)(NN dog))(VP(VBZ barks))(. .)))",
        "( (S ( NP (DT the)\n(NN dog) )\t(VP\r\n(VBZ barks))(. . )) )\n\n",
        "(\n(S (NP (DT\nthe) (NN dog)) (VP (VBZ barks)) (. .)))",
        " " + TEXT,
    ],
)
def test_spaces_do_not_matter(text):
    assert str(Tree.from_string(text)) == TEXT


def test_words_and_tags():
    assert TREE.words == ["the", "dog", "barks", "."]
    assert TREE.tags == ["DT", "NN", "VBZ", "."]


def test_walk():
    assert [(kind, tree.label) for kind, tree in TREE.walk()] == [
        ("open", "TOP"),
        ("open", "S"),
        ("open", "NP"),
        ("word", "DT"),
        ("word", "NN"),
        ("close", "NP"),
        ("open", "VP"),
        ("word", "VBZ"),
        ("close", "VP"),
        ("word", "."),
        ("close", "S"),
        ("close", "TOP"),
    ]


def test_one_word():
    tree = Tree.from_string("(NN dog)")
    assert (tree.label, tree.children) == ("NN", "dog")
    assert (tree.words, tree.tags) == (["dog"], ["NN"])
    assert str(tree) == pretty(tree) == "(NN dog)"


def test_no_words():
    tree = Tree("TOP", ())
    assert str(tree) == pretty(tree) == pretty(tree, width=1) == "(TOP)"
    assert Tree.from_string("(TOP )") == Tree.from_string("(TOP)") == tree
    assert tree.words == tree.tags == []


def test_only_spaces_of_ascii_separate():
    text = "(NP (CD 5\u00a0000) (NN \u2009\u3000\ufeff\x85x))"
    assert Tree.from_string(text).words == [
        "5\u00a0000",
        "\u2009\u3000\ufeff\x85x",
    ]
    assert str(Tree.from_string(text)) == text


def test_deep_trees():
    text = chain(DEPTH)
    tree = Tree.from_string(text)
    assert str(tree) == text
    assert repr(tree) == f"Tree.from_string({text!r})"
    assert tree == Tree.from_string(text)
    assert tree != Tree.from_string(chain(DEPTH - 1))
    assert hash(tree) == hash(Tree.from_string(text))
    assert (tree.words, tree.tags) == (["dog"], ["NN"])
    tree = Tree.from_string(chain(2_000))  # pretty's text is quadratic
    lines = pretty(tree).split("\n")
    assert lines[1] == "  (X" and len(lines) == 2_000 + 1


@random_trees.fixed
@given(random_trees.trees)
def test_random_trees(tree):
    assert Tree.from_string(str(tree)) == tree
    assert Tree.from_string(pretty(tree)) == tree
    assert str(tree).count("(") == sum(k != "close" for k, _ in tree.walk())
    assert len(tree.words) == len(tree.tags)


# === What is no tree ===


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 trees"),
        ("(NN a) (NN b)", "2 trees"),
        ("(NP (NN dog)", "line 1 .* 1 open"),
        ("\n(NP\n(NN dog", "line 2 .* 2 open"),
        ("(NP (NN dog)))", r"text, line 1: .*'\)'"),
        ("\n\ndog", "text, line 3: .*'dog'"),
        ("(NP\n(NN dog) cat)", "line 2: .*'cat', .* line 1"),
        ("(NP (NN dog cat))", "line 1: .*'cat'"),
        ("(NP dog (NN cat))", "line 1: .*'dog'"),
        ("(NP (NN))", "line 1: .* line 1"),
        ("(NP ())", "line 1"),
        ("()", "line 1"),
        ("(NP ((NN dog)))", "line 1"),
    ],
)
def test_text_is_no_tree(text, message):
    with pytest.raises(InputError, match=message):
        Tree.from_string(text)


@pytest.mark.parametrize("text", ["", "a b", "(", "f(x)", "a\n", "\t", "a\x0b"])
def test_label_and_word_have_no_brackets_and_spaces(text):
    with pytest.raises(InputError, match="label="):
        Tree(text, "dog")
    with pytest.raises(InputError, match="label="):
        Tree(text, (Tree("NN", "dog"),))
    with pytest.raises(InputError, match="word="):
        Tree("NN", text)


def test_errors_shorten_the_text():
    with pytest.raises(InputError) as error:
        Tree.from_string(TEXT * 100)
    assert len(str(error.value)) < 150


# === Several trees ===


def test_read_bracketed():
    lines = "(NN a)\n\n(NN\nb) (NN c)\n (NN\n\nd)".split("\n")
    assert [(n, str(tree)) for n, tree in read_bracketed(lines)] == [
        (1, "(NN a)"),
        (3, "(NN b)"),
        (4, "(NN c)"),
        (5, "(NN d)"),
    ]


def test_reading_streams():
    trees = read_bracketed(["(NN a)", ")"], "some.mrg")
    assert next(trees) == (1, Tree("NN", "a"))
    with pytest.raises(InputError, match="some.mrg, line 2"):
        next(trees)


# === Other forms ===


def test_pretty():
    lines = [
        "(TOP",
        "  (S",
        "    (NP (DT the) (NN dog))",
        "    (VP (VBZ barks))",
        "    (. .)))",
    ]
    assert pretty(TREE, width=50) == "\n".join(lines)
    assert pretty(TREE) == pretty(TREE, width=len(TEXT)) == TEXT
    lines[2:3] = ["    (NP", "      (DT the)", "      (NN dog))"]
    assert pretty(TREE, width=25) == "\n".join(lines)


def test_brackets_of_words():
    for word, escaped in (
        ("f(x)[y]", "f-LRB-x-RRB-[y]"),
        ("((x))", "-LRB--LRB-x-RRB--RRB-"),
        ("dog", "dog"),
    ):
        assert escape_brackets(word) == escaped
