"""The graphs compute what linearization.py computes from Python's trees."""

import random
import re

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import fixed, trees

from keras_transformer.tasks.parsing import graph, linearize, restore

restore_in_graph = tf.function(graph.restore_texts, reduce_retracing=True)


def spell(words):
    return tf.strings.join(["▁", words])


def restored(sequences, words):
    """Returns trees and flags of lists of symbols, padded and in one batch."""
    longest = max(map(len, sequences))
    pieces = [row + [""] * (longest - len(row)) for row in sequences]
    is_symbol = [
        [re.fullmatch(r"[(/)][^() ]+", one) is not None for one in row]
        for row in pieces
    ]
    shape = [len(sequences), longest]
    found = restore_in_graph(
        tf.constant(pieces, tf.string, shape),
        tf.constant(is_symbol, tf.bool, shape),
        tf.constant([" ".join(row) for row in words]),
        spell,
    )
    texts = [text.decode() for text in found.texts.numpy()]
    return list(zip(texts, found.repaired.numpy().tolist(), strict=True))


def random_sequences(count, generator):
    symbols = ["(S", "(NP", "/DT", "/NN", ")S", ")NP", "<unk>", "(", "/", ")"]
    words = [f"▁w{i}" for i in range(6)]
    for _ in range(count):
        length = generator.randint(0, 14)
        kinds = generator.choice([symbols, symbols + words])
        yield [generator.choice(kinds) for _ in range(length)]


def test_any_sequence_is_restored_by_the_written_rule():
    generator = random.Random(5)
    sequences = list(random_sequences(1_500, generator))
    words = [
        [f"w{i}" for i in range(generator.randint(1, 6))] for _ in sequences
    ]
    expected = [restore(*pair) for pair in zip(sequences, words, strict=True)]
    found = restored(sequences, words)
    assert found == [(str(tree), repaired) for tree, repaired in expected]
    assert 0 < sum(not repaired for _, repaired in found) < len(found)


@settings(fixed, max_examples=20)
@given(st.lists(trees.filter(lambda tree: tree.words), min_size=9))
def test_trees_survive_the_round_trip(found):
    texts = [str(tree) for tree in found]
    symbols = graph.linearize_texts(tf.constant(texts)).numpy()
    expected = [linearize(tree) for tree in found]
    assert [text.decode() for text in symbols] == expected
    sequences = [text.split(" ") for text in expected]
    words = [tree.words for tree in found]
    assert restored(sequences, words) == [(text, False) for text in texts]


def test_a_sentence_without_words_has_an_empty_tree():
    assert restored([["(S", "/NN", ")S"]], [[]]) == [("(TOP)", True)]
    assert restored([[], ["/UH"]], [[], ["yes"]])[0] == ("(TOP)", False)


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
    found = graph.split_words(tf.constant([text])).numpy()[0].decode()
    assert found == words


def test_words_that_are_split_stay():
    text = "BMP-2 ( 1,000 U.S. ) is n't ''"
    expected = "BMP-2 -LRB- 1,000 U.S. -RRB- is n't ''"
    assert graph.join_words(tf.constant([f" {text} "])).numpy()[0].decode() == (
        expected
    )
