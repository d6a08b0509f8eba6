"""The graphs, compared with an implementation in Python and with examples."""

import itertools
import random
import re

import pytest
import reference_linearization as reference
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import fixed, trees

from keras_transformer.tasks.parsing import Tree, tree_ops
from keras_transformer.tasks.parsing.linearization import join_words, linearize

TREE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))"
SEQUENCE = "(S (NP ▁the /DT ▁dog /NN )NP (VP ▁barks /VBZ )VP ▁. /. )S"
SYMBOLS = "(S (NP /DT /NN )NP (VP /VBZ )VP /. )S"
WORDS = ["the", "dog", "barks", "."]

restore_in_graph = tf.function(tree_ops.restore_texts, reduce_retracing=True)


def restored(sequences, words):
    """Returns trees and flags of lists of symbols, padded and in one batch."""
    longest = max(map(len, sequences))
    pieces = [row + [""] * (longest - len(row)) for row in sequences]
    is_symbol = [
        [re.fullmatch(r"[(/)][^() ]+", one) is not None for one in row]
        for row in pieces
    ]
    shape = [len(sequences), longest]
    words = tf.ragged.constant(words, tf.string, ragged_rank=1)
    found, repaired = restore_in_graph(
        tf.constant(pieces, tf.string, shape),
        tf.constant(is_symbol, tf.bool, shape),
        words,
        words.with_values(tf.strings.join(["▁", words.values])),
    )
    texts = [text.decode() for text in found.numpy()]
    return list(zip(texts, repaired.numpy().tolist(), strict=True))


def test_restore():
    sequences = [
        SEQUENCE.split(),
        SYMBOLS.split(),
        # The words of the sentence count.
        SEQUENCE.replace("▁", "▁un").split(),
        # Words may be written in pieces.
        SEQUENCE.replace("▁barks", "▁b ar ks").split(),
        [],
    ]
    expected = [(TREE, False)] * 4 + [("(TOP)", False)]
    assert restored(sequences, [WORDS] * 4 + [[]]) == expected


def test_repaired_compares_the_symbols():
    """Joined with spaces, some of these are the symbols of the tree."""
    sequences = [["/XX /XX"], ["(X /XX", ")X"], ["(X", ")X"], ["/NN"]]
    words = [["a", "b"], ["a"], [], []]
    found = restored(sequences, words)
    assert all(repaired for _, repaired in found)
    assert [Tree.from_string(text).words for text, _ in found] == words


def random_sequences(count, generator):
    symbols = ["(S", "(NP", "/DT", "/NN", ")S", ")NP", "<unk>", "(", "/", ")"]
    symbols += ["(TOP", ")TOP", "(VP", ")VP", "//", "/,", "a b"]
    words = [f"▁w{i}" for i in range(6)]
    for _ in range(count):
        length = generator.randint(0, 14)
        kinds = generator.choice([symbols, symbols[:10] + words])
        yield [generator.choice(kinds) for _ in range(length)]


def test_any_sequence_is_restored_as_in_python():
    generator = random.Random(5)
    sequences = list(random_sequences(1_500, generator))
    words = [
        [f"w{i}" for i in range(generator.randint(0, 6))] for _ in sequences
    ]
    expected = [
        reference.restore(*pair) for pair in zip(sequences, words, strict=True)
    ]
    found = restored(sequences, words)
    assert found == [(str(tree), repaired) for tree, repaired in expected]
    assert 0 < sum(not repaired for _, repaired in found) < len(found)
    # Nothing is invented, and nothing changes its place.
    for (text, repaired), sequence in zip(found, sequences, strict=True):
        again = reference.symbols_of(Tree.from_string(text))
        symbols = [p for p in sequence if re.fullmatch(r"[(/)][^() ]+", p)]
        assert repaired == (again != symbols)
        kept = iter(symbols)
        for symbol in again:
            assert symbol[0] == ")" or symbol == "/XX" or symbol in kept


@settings(fixed, max_examples=20)
@given(st.lists(trees.filter(lambda tree: tree.words), min_size=9))
def test_trees_survive_the_round_trip(found):
    texts = [str(tree) for tree in found]
    expected = [reference.linearize(tree) for tree in found]
    assert [" ".join(linearize(tree)) for tree in found] == expected
    words = [tree.words for tree in found]
    for sequences in (
        [text.split(" ") for text in expected],
        [reference.symbols_of(tree) for tree in found],
    ):
        assert restored(sequences, words) == [(text, False) for text in texts]


def test_deep_trees():
    text = f"(TOP {'(X ' * 1_500}(NN dog){')' * 1_501}"
    sequence = linearize(Tree.from_string(text))
    assert sequence == ["(X"] * 1_500 + ["▁dog", "/NN"] + [")X"] * 1_500
    assert restored([sequence], [["dog"]]) == [(text, False)]


# === The rule of repair ===


def test_sequences_that_are_repaired():
    cases = {
        # What is no symbol is a word.
        "(NP ( / x NN /a(b /DT [] /NN )) ) )NP )S": "(NP (DT a) (NN b))",
        # A tag without a word.
        "/DT (NP /NN /NN )NP /.": "(DT a) (NP (NN b))",
        # A closing bracket without an opening one.
        ")NP (NP /DT )NP )NP /NN )S": "(NP (DT a)) (NN b)",
        "(S (NP /DT )VP /NN )NP )S": "(S (NP (DT a) (NN b)))",
        "(S /DT )TOP /NN )S": "(S (DT a) (NN b))",
        # One that closes all that are inside of its constituent.
        "(S (VP (NP /DT )VP /NN )S": "(S (VP (NP (DT a))) (NN b))",
        "(S (X (NP (NP /DT )S /NN": "(S (X (NP (NP (DT a))))) (NN b)",
        "(NP (NP (X /DT )NP /NN )NP": "(NP (NP (X (DT a))) (NN b))",
        # Words without a tag: in the innermost constituent that is open.
        "": "(XX a) (XX b)",
        "(NP /DT )NP": "(NP (DT a)) (XX b)",
        "(S (NP /DT )NP (VP": "(S (NP (DT a)) (VP (XX b)))",
        "(S (NP /DT )NP (VP )VP": "(S (NP (DT a)) (XX b))",
        "(S (NP": "(S (NP (XX a) (XX b)))",
        # Open brackets.
        "(S (NP /DT )NP (VP (X /NN )X": "(S (NP (DT a)) (VP (X (NN b))))",
        "(S (NP /DT /NN )NP (VP": "(S (NP (DT a) (NN b)))",
        # Constituents without words.
        "(X )X (S (X (Y )Y )X /DT (X )X /NN )S": "(S (DT a) (NN b))",
        "(S /DT /NN (X /NN )X )S": "(S (DT a) (NN b))",
        "(TOP /DT /NN": "(TOP (DT a) (NN b))",
        "(TOP dog) /( // )TOP x": "(TOP (/ a)) (XX b)",
    }
    sequences = [sequence.split() for sequence in cases]
    found = restored(sequences, [["a", "b"]] * len(cases))
    assert found == [(f"(TOP {text})", True) for text in cases.values()]


def test_words_that_are_written_say_where_tags_belong():
    cases = {
        # A word that is missing: before the next tag.
        "(NP ▁the /DT )NP (VP ▁barks /VBZ": (
            "(NP (DT the)) (VP (XX dog) (VBZ barks))"
        ),
        # One too many.
        "(NP ▁the /DT ▁the /DT ▁dog /NN )NP ▁barks /VBZ": (
            "(NP (DT the) (NN dog)) (VBZ barks)"
        ),
        # Another one.
        "(NP ▁the /DT ▁cat /NN )NP": "(NP (DT the) (NN dog)) (XX barks)",
        # Missing at the end, and at the beginning.
        "(NP ▁the /DT ▁dog /NN": "(NP (DT the) (NN dog) (XX barks))",
        "(NP ▁dog /NN )NP": "(NP (XX the) (NN dog)) (XX barks)",
    }
    sequences = [sequence.split() for sequence in cases]
    found = restored(sequences, [["the", "dog", "barks"]] * len(cases))
    assert found == [(f"(TOP {text})", True) for text in cases.values()]


def test_a_sentence_without_words_has_an_empty_tree():
    assert restored([["(S", "/NN", ")S"]], [[]]) == [("(TOP)", True)]
    assert restored([[], ["/UH"]], [[], ["yes"]])[0] == ("(TOP)", False)


# === Alignment ===


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


def aligned(written, words):
    """Returns the words that the tags of a sequence stand for."""
    pieces = [piece for one in written for piece in (f"▁{one}", "/X")]
    used, kept = tree_ops._align(
        tree_ops._written_words(
            tf.constant([[*pieces, ""]]),
            tf.constant([[p == "/X" for p in [*pieces, ""]]]),
        ),
        tf.constant([[p == "/X" for p in [*pieces, ""]]]),
        tf.ragged.constant([[f"▁{word}" for word in words]], tf.string),
    )
    return [
        int(one) - 1 if is_kept else None
        for one, is_kept in zip(used[0, 1::2], kept[0, 1::2], strict=True)
    ]


def test_the_alignment_is_the_first_of_those_with_the_fewest_edits():
    generator = random.Random(3)
    for _ in range(60):
        written, words = (
            generator.choices("abc", k=generator.randint(0, 5)) for _ in "ab"
        )
        *_, expected = min(all_alignments(written, words))
        assert reference.align(written, words) == expected
        assert aligned(written, words) == expected, (written, words)


# === Words of a text ===


def test_invalid_utf_8_is_replaced():
    texts = [
        b"The d\xffog (\xe2\x82 barks\xed\xa0\x80.",
        "ä\0 \x01 日".encode(),
    ]
    for function in (tree_ops.split_words, tf.function(tree_ops.join_words)):
        first, second = function(tf.constant(texts)).numpy()
        assert first.decode().startswith("The d\ufffdog -LRB-")
        assert second == texts[1]
    found = tf.strings.split(tree_ops.join_words(tf.constant(["a\vb\f\vc"])))
    assert found[0].numpy().tolist() == [b"a", b"b", b"c"]
    assert tree_ops.join_words(tf.constant(["a\v\vb"])).numpy() == [b"a b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("The dog barks.", "The dog barks ."),
        ("He isn't here, is he?", "He is n't here , is he ?"),
        ("John's dogs' food; it'll do", "John 's dogs ' food ; it 'll do"),
        ("We CAN'T and cannot.", "We CA N'T and can not ."),
        ('"Yes," he said.', "`` Yes , '' he said ."),
        ('She said ("no")', "She said -LRB- `` no '' -RRB-"),
        ("1,000 U.S. dollars, 3:30 p.m.", "1,000 U.S. dollars , 3:30 p.m ."),
        ("p < 0.05 [see Fig. 2] ...", "p < 0.05 -LSB- see Fig. 2 -RSB- ..."),
        ("5% & more -- {or} less!", "5 % & more -- -LCB- or -RCB- less !"),
        ("Don’t say “no”!", "Do n't say `` no '' !"),
        ("  spaces \t and\nlines ", "spaces and lines"),
    ],
)
def test_text_is_split_as_in_the_penn_treebank(text, words):
    found = tree_ops.split_words(tf.constant([text])).numpy()[0].decode()
    assert found == words


@pytest.mark.parametrize(
    "text", ["", "a", " a\v\vb\f\nc\t", "(a b) ", "\x85a\u00a0\u3000b\x1c \0"]
)
def test_words_are_joined_in_python_as_in_a_graph(text):
    joined = tree_ops.join_words(tf.constant([text])).numpy()[0].decode()
    assert join_words(text) == joined


def test_words_that_are_split_stay():
    text = "BMP-2 ( 1,000 U.S. ) is n't ''"
    expected = "BMP-2 -LRB- 1,000 U.S. -RRB- is n't ''"
    assert tree_ops.join_words(tf.constant([f" {text} "])).numpy()[
        0
    ].decode() == (expected)
