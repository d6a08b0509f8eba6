"""Trees become sequences of symbols, and these trees over a sentence."""

import itertools
import random
import re

import pytest
from random_trees import random_trees

from keras_transformer.tasks.parsing import Tree, symbols
from keras_transformer.tasks.parsing.linearization import (
    align,
    linearize,
    restore_tree,
)

TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"


def symbols_of(sequence):
    return [x for x in sequence if re.fullmatch(r"[(/)][^() ]+", x)]


def restored(sequence, words):
    """Returns the tree and the flag of a list of symbols and pieces."""
    are_symbols = [symbols_of([part]) != [] for part in sequence]
    spelled = [f"▁{word}" for word in words]
    tree, is_repaired = restore_tree(sequence, are_symbols, words, spelled)
    return str(tree), is_repaired


def test_trees_survive_the_round_trip():
    for tree in filter(lambda tree: tree.words, random_trees(200)):
        sequence = linearize(tree)
        assert set(symbols_of(sequence)) == set(symbols([tree]))
        for parts in (sequence, symbols_of(sequence)):
            assert restored(parts, tree.words) == (str(tree), False)


def test_trees_have_the_words_of_the_sentence():
    for sequence in ("(NP ▁a /DT ▁b c /NN )NP", "(NP ▁x /DT ▁y /NN )NP"):
        found = restored(sequence.split(), ["a", "bc"])
        assert found == ("(TOP (NP (DT a) (NN bc)))", False)


def test_any_sequence_is_a_tree_over_the_words():
    generator = random.Random(5)
    parts = ["(S", "(NP", "/DT", "/NN", ")S", ")NP", "<unk>", "(", "/", ")"]
    parts += ["(TOP", ")TOP", "//", "/,", "a b", "▁w0", "▁w1", "▁w2"]
    flags = set()
    for _ in range(500):
        sequence = generator.choices(parts, k=generator.randint(0, 14))
        words = [f"w{i}" for i in range(generator.randint(0, 6))]
        text, is_repaired = restored(sequence, words)
        tree = Tree.from_string(text)
        assert tree.words == words
        flags.add(is_repaired)
        found, kept = symbols_of(linearize(tree)), symbols_of(sequence)
        assert is_repaired == (found != kept)
        # Nothing is invented, and nothing changes its place.
        left = iter(kept)
        assert all(x[0] == ")" or x == "/XX" or x in left for x in found)
    assert flags == {False, True}


@pytest.mark.parametrize(
    ("sequence", "words", "tree"),
    [
        # Everything except symbols is a word.
        ("(NP ( / x /a(b /DT [] /NN )) )NP )S", "a b", "(NP (DT a) (NN b))"),
        # A tag without a word.
        ("/DT (NP /NN /NN )NP /.", "a b", "(DT a) (NP (NN b))"),
        # A closing bracket without an opening one.
        (")NP (NP /DT )NP )NP /NN )S", "a b", "(NP (DT a)) (NN b)"),
        ("(S (NP /DT )VP /NN )NP )S", "a b", "(S (NP (DT a) (NN b)))"),
        ("(S /DT )TOP /NN )S", "a b", "(S (DT a) (NN b))"),
        # One that closes all that are inside of its constituent.
        ("(S (VP (NP /DT )VP /NN )S", "a b", "(S (VP (NP (DT a))) (NN b))"),
        ("(S (X (NP (NP /DT )S /NN", "a b", "(S (X (NP (NP (DT a))))) (NN b)"),
        ("(NP (NP (X /DT )NP /NN )NP", "a b", "(NP (NP (X (DT a))) (NN b))"),
        # Words without a tag: in the innermost constituent that is open.
        ("", "a b", "(XX a) (XX b)"),
        ("/XX /XX", "a b c", "(XX a) (XX b) (XX c)"),
        ("(NP /DT )NP", "a b", "(NP (DT a)) (XX b)"),
        ("(S (NP /DT )NP (VP", "a b", "(S (NP (DT a)) (VP (XX b)))"),
        ("(S (NP /DT )NP (VP )VP", "a b", "(S (NP (DT a)) (XX b))"),
        ("(S (NP", "a b", "(S (NP (XX a) (XX b)))"),
        # Open brackets.
        ("(S (VP /DT (X /NN )X", "a b", "(S (VP (DT a) (X (NN b))))"),
        ("(S (NP /DT /NN )NP (VP", "a b", "(S (NP (DT a) (NN b)))"),
        # Constituents without words.
        ("(X )X (S (X (Y )Y )X /DT (X )X /NN )S", "a b", "(S (DT a) (NN b))"),
        ("(S /DT /NN (X /NN )X )S", "a b", "(S (DT a) (NN b))"),
        ("(TOP /DT /NN", "a b", "(TOP (DT a) (NN b))"),
        ("(TOP dog) /( // )TOP x", "a b", "(TOP (/ a)) (XX b)"),
        # A written word that is missing: before the next tag.
        (
            "(NP ▁a /DT )NP (VP ▁c /VB",
            "a b c",
            "(NP (DT a)) (VP (XX b) (VB c))",
        ),
        # One too many.
        ("(NP ▁a /DT ▁a /DT ▁b /NN )NP", "a b", "(NP (DT a) (NN b))"),
        # A different one.
        ("(NP ▁a /DT ▁x /NN )NP", "a b c", "(NP (DT a) (NN b)) (XX c)"),
        # Missing at the end, and at the beginning.
        ("(NP ▁a /DT ▁b /NN", "a b c", "(NP (DT a) (NN b) (XX c))"),
        ("(NP ▁b /NN )NP", "a b c", "(NP (XX a) (NN b)) (XX c)"),
    ],
)
def test_the_rules_of_repair(sequence, words, tree):
    found = restored(sequence.split(), words.split())
    assert found == (f"(TOP {tree})", True)


def all_alignments(written, words):
    """Yields each alignment, after what decides among alignments."""
    pair, drop, skip = range(3)
    for kept in itertools.product((True, False), repeat=len(written)):
        for places in itertools.combinations(range(len(words)), sum(kept)):
            found, steps, edits, at = [], [], len(words), 0
            rest = iter(places)
            for one, is_kept in zip(written, kept, strict=True):
                place = next(rest) if is_kept else None
                found.append(place)
                if is_kept:
                    steps += [skip] * (place - at) + [pair]
                    edits -= one == words[place]
                    at = place + 1
                else:
                    steps.append(drop)
                    edits += 1
            yield edits, steps, found


def test_the_alignment_is_the_first_of_those_with_the_fewest_edits():
    generator = random.Random(3)
    for _ in range(150):
        written, words = (
            generator.choices("abc", k=generator.randint(0, 5)) for _ in "ab"
        )
        *_, expected = min(all_alignments(written, words))
        assert align(written, words) == expected, (written, words)


@pytest.mark.parametrize(
    ("tree", "sequence"),
    [
        (TREE, "(S (NP ▁the /DT ▁dog /NN )NP (VP ▁barks /VBZ )VP ▁. /. )S"),
        ("(TOP (UH yes) (. .))", "▁yes /UH ▁. /."),
        ("(TOP (TOP (TOP dog)))", "(TOP ▁dog /TOP )TOP"),
        ("(TOP)", ""),
    ],
)
def test_linearize(tree, sequence):
    assert linearize(Tree.from_string(tree)) == sequence.split()


def test_symbols():
    texts = [TREE, "(TOP (S (UH yes) (. .)))", TREE]
    expected = "(NP (S (VP )NP )S )VP /. /DT /NN /UH /VBZ".split()
    assert symbols(map(Tree.from_string, texts)) == expected
    assert symbols([]) == []
