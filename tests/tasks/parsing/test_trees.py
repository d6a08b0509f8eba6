import pytest
from random_trees import random_trees

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, escape_brackets, pretty
from keras_transformer.tasks.parsing.trees import read_bracketed

TEXT = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
NOUN_PHRASE = Tree("NP", (Tree("DT", "the"), Tree("NN", "dog")))
VERB_PHRASE = Tree("VP", (Tree("VBZ", "barks"),))
TREE = Tree("TOP", (Tree("S", (NOUN_PHRASE, VERB_PHRASE, Tree(".", "."))),))
DEPTH = 10_000  # Python's recursion limit is 1,000


def chain(depth):
    return f"{'(X ' * depth}(NN dog){')' * depth}"


def test_text():
    assert str(TREE) == TEXT
    assert Tree.from_string(TEXT) == TREE == eval(repr(TREE))
    assert hash(Tree.from_string(TEXT)) == hash(TREE)
    assert TREE.words == ["the", "dog", "barks", "."]
    assert TREE.tags == ["DT", "NN", "VBZ", "."]
    found = [f"{kind} {tree.label}" for kind, tree in NOUN_PHRASE.walk()]
    assert found == ["open NP", "word DT", "word NN", "close NP"]


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


@pytest.mark.parametrize(
    ("tree", "text", "words", "tags"),
    [
        (Tree("NN", "dog"), "(NN dog)", ["dog"], ["NN"]),
        (Tree("TOP", ()), "(TOP)", [], []),
    ],
)
def test_trees_without_constituents(tree, text, words, tags):
    assert Tree.from_string(text) == tree != text
    assert str(tree) == pretty(tree) == pretty(tree, width=1) == text
    assert (tree.words, tree.tags) == (words, tags)


def test_only_spaces_of_ascii_separate():
    words = ["5\u00a0000", "\u2009\u3000\ufeff\x85x"]
    text = f"(NP (CD {words[0]}) (NN {words[1]}))"
    assert Tree.from_string(text).words == words


def test_deep_trees():
    text = chain(DEPTH)
    tree = Tree.from_string(text)
    assert str(tree) == text
    assert tree == Tree.from_string(text) != Tree.from_string(chain(DEPTH - 1))
    assert (tree.words, tree.tags) == (["dog"], ["NN"])
    lines = pretty(Tree.from_string(chain(2_000))).split("\n")
    assert lines[1] == "  (X" and len(lines) == 2_000 + 1


def test_random_trees():
    for tree in random_trees(200):
        assert Tree.from_string(str(tree)) == tree
        assert Tree.from_string(pretty(tree)) == tree
        assert str(tree).count("(") == sum(k != "close" for k, _ in tree.walk())
        assert len(tree.words) == len(tree.tags)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 trees"),
        ("(NN a) (NN b)", "2 trees"),
        (TEXT * 100, r"100 trees in .{,70}$"),
        ("(NP (NN dog)", "line 1 .* 1 open"),
        ("\n(NP\n(NN dog", "line 2 .* 2 open"),
        ("(NP (NN dog)))", r"text, line 1: .*'\)'"),
        ("\n\ndog", "text, line 3: .*'dog'"),
        ("(NP\n(NN dog) cat)", "line 2: .*'cat' .* line 1"),
        ("(NP (NN dog cat))", "line 1: .*'cat'"),
        ("(NP dog (NN cat))", r"line 1: .*'\('"),
        ("(NP (NN))", "line 1: .* line 1"),
        ("(NP ())", "line 1"),
        ("()", "line 1"),
        ("(NP ((NN dog)))", "line 1"),
    ],
)
def test_text_that_is_not_a_tree(text, message):
    with pytest.raises(InputError, match=message):
        Tree.from_string(text)


@pytest.mark.parametrize("atom", ["", "a b", "(", "a)", "a\t"])
def test_labels_and_words_are_written_as_they_are(atom):
    for label, word in ((atom, "dog"), ("NN", atom), (atom, ())):
        with pytest.raises(InputError, match="Labels and words"):
            Tree(label, word)
    assert Tree("NN", "a\u00a0b").words == ["a\u00a0b"]


def test_several_trees():
    lines = "(NN a)\n\n(NN\nb) (NN c)\n (NN\n\nd)\n)".split("\n")
    trees = read_bracketed(lines, "some.mrg")
    for expected in ("a", "b", "c", "d"):
        assert next(trees).children == expected
    with pytest.raises(InputError, match="some.mrg, line 8"):
        next(trees)


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
    assert escape_brackets("(f(x)[y]") == "-LRB-f-LRB-x-RRB-[y]"
