"""Bracketing scores, compared with a second implementation."""

import re

import pytest
import random_trees
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import bracketing_scores
from keras_transformer.tasks.parsing.linearization import linearize
from keras_transformer.tasks.parsing.repair import restore_tree

PUNCTUATION = {",", ":", "``", "''", "."}
NOT_COUNTED = {"TOP", "S1", "ROOT", "-NONE-", *PUNCTUATION}


# === A second implementation, on the text and on lists ===


def read_text(text):
    """Returns the tagged words, and label and word indices of each bracket.

    Instead of the indices that a bracket begins and ends with, each word adds
    its index to all brackets that are open.
    """
    words, brackets, open_brackets = [], [], []
    for bracket, word, _ in re.findall(
        r"\(([^ ()]+) ?(?:([^ ()]+)\))?|(\))", text
    ):
        if not bracket:
            open_brackets.pop()
        elif word:
            for _, indices in open_brackets:
                indices.append(len(words))
            words.append((bracket, word))
        else:
            brackets.append((bracket, []))
            open_brackets.append(brackets[-1])
    assert not open_brackets
    return words, brackets


def counted_brackets(brackets, punctuation, labels=True):
    found = []
    for label, indices in brackets:
        indices = [i for i in indices if i not in punctuation]
        if label[0] != "-":
            label = label.partition("-")[0].partition("=")[0]
        if indices and label not in NOT_COUNTED:
            label = {"PRT": "ADVP"}.get(label, label) if labels else None
            found.append((label, set(indices)))
    return found


def number_of_matches(found, correct):
    left = list(correct)
    for bracket in found:
        if bracket in left:
            left.remove(bracket)
    return len(correct) - len(left)


def second_implementation(hypotheses, references):
    rows = []
    for pair in zip(hypotheses, references, strict=True):
        (tagged, _), (gold, _) = texts = [read_text(text) for text in pair]
        removed = {i for i, (tag, _) in enumerate(gold) if tag in PUNCTUATION}
        if len(removed) == len(gold):
            continue
        row = []
        for labels in (True, False):
            found, correct = (
                counted_brackets(brackets, removed, labels)
                for _, brackets in texts
            )
            row += [number_of_matches(found, correct), len(found), len(correct)]
        kept = [i for i in range(len(gold)) if i not in removed]
        tags = [tagged[i][0] == gold[i][0] for i in kept]
        row.append(row[0] == row[1] == row[2])
        rows.append([*row, sum(tags), len(tags)])
    count = len(rows)
    sums = [sum(column) for column in zip(*rows, strict=True)] or [0] * 9

    def divide(a, b):
        return a / b if b else 0.0

    scores = {}
    for prefix, (match, found, correct) in (
        ("", sums[:3]),
        ("unlabelled_", sums[3:6]),
    ):
        scores[f"{prefix}precision"] = 100 * divide(match, found)
        scores[f"{prefix}recall"] = 100 * divide(match, correct)
        scores[f"{prefix}f1"] = 100 * divide(2 * match, found + correct)
    complete, tags, words = sums[6:]
    return scores | {
        "complete_match": 100 * divide(complete, count),
        "tag_accuracy": 100 * divide(tags, words),
    }


# === Comparisons ===


_edits = st.tuples(
    st.integers(0, 20),
    st.integers(0, 2),
    st.lists(
        st.sampled_from(["(NP", "(ADVP", "(PRT", ")NP", "/NN", "/,"]),
        max_size=2,
    ),
)


@st.composite
def pairs_of_trees(draw):
    """A tree, and a second tree over its words."""
    tree = draw(random_trees.trees)
    symbols = [x for x in linearize(tree) if x[0] != "▁"]
    for at, dropped, new in draw(st.lists(_edits, max_size=6)):
        symbols[at : at + dropped] = new
    flags, words = [True] * len(symbols), tree.words
    return str(restore_tree(symbols, flags, words, words)[0]), str(tree)


@random_trees.fixed
@given(st.lists(pairs_of_trees(), max_size=4))
def test_random_trees(pairs):
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    found = bracketing_scores(hypotheses, references)
    expected = second_implementation(hypotheses, references)
    assert found == pytest.approx(expected, abs=1e-9)


# === Each rule ===


def score(hypothesis, reference):
    hypothesis, reference = (
        f"(TOP {text})" for text in (hypothesis, reference)
    )
    return bracketing_scores([hypothesis], [reference])


@pytest.mark.parametrize(
    ("hypothesis", "reference", "precision", "recall"),
    [
        # Tags and roots do not count.
        ("(S (NP (X a)) (VP (Y b)))", "(S (NP (N a)) (VP (V b)))", 100, 100),
        ("(S (TOP (N a)) (N b))", "(S (N a) (ROOT (S1 (N b))))", 100, 100),
        # Label, first and last word do.
        ("(S (NP (N a)) (N b))", "(S (VP (N a)) (N b))", 50, 50),
        ("(S (NP (N a)) (N b))", "(S (N a) (NP (N b)))", 50, 50),
        ("(S (NP (N a) (N b)) (N c))", "(S (NP (N a)) (N b) (N c))", 50, 50),
        ("(S (N a) (N b))", "(S (NP (N a)) (N b))", 100, 50),
        # Punctuation, by the tags of the reference.
        ("(S (N a) (NP (N b) (N .)))", "(S (N a) (NP (N b)) (. .))", 100, 100),
        ("(S (NP (. a)) (N b))", "(S (NP (N a)) (NP (N b)))", 100, 200 / 3),
        ("(S (NP (N .)) (N b))", "(S (. .) (N b))", 100, 100),
        *(
            (f"(NP ({tag} x) (N b))", f"({tag} x) (NP (N b))", 100, 100)
            for tag in sorted(PUNCTUATION)
        ),
        ("(NP (-LRB- x) (N b))", "(-LRB- x) (NP (N b))", 0, 0),
        # Functions, and labels that are one.
        ("(S (NP-SBJ=2 (N a)))", "(S-1 (NP (N a)))", 100, 100),
        ("(S (PRT (N a)))", "(S (ADVP (N a)))", 100, 100),
        ("(S (NP (N a)))", "(S (-LRB- (N a)))", 50, 50),
        # Brackets that are there several times.
        ("(NP (NP (NP (N a))))", "(NP (N a))", 100 / 3, 100),
        ("(NP (N a))", "(NP (NP (NP (N a))))", 100, 100 / 3),
        ("(NP (NP (NP (N a))))", "(NP (NP (N a)))", 200 / 3, 100),
        ("(NP (S (N a)))", "(S (NP (N a)))", 100, 100),
        # None.
        ("(N a)", "(NP (N a))", 0, 0),
        ("(NP (N a))", "(N a)", 0, 0),
        ("(N a)", "(N a)", 0, 0),
    ],
)
def test_precision_and_recall(hypothesis, reference, precision, recall):
    scores = score(hypothesis, reference)
    assert scores["precision"] == pytest.approx(precision)
    assert scores["recall"] == pytest.approx(recall)


def test_f1_of_all_sentences():
    hypotheses = ["(TOP (S (NP (N a)) (N b)))", "(TOP (NP (N a)))"]
    references = ["(TOP (S (VP (N a)) (NP (N b))))", "(TOP (NP (NP (N a))))"]
    scores = bracketing_scores(hypotheses, references)
    # 2 of 3 brackets are correct, 2 of 5 were found.
    assert scores["precision"] == pytest.approx(200 / 3)
    assert scores["recall"] == pytest.approx(40)
    assert scores["f1"] == pytest.approx(50)
    assert scores["unlabelled_precision"] == pytest.approx(100)
    assert scores["unlabelled_recall"] == pytest.approx(60)
    assert scores["unlabelled_f1"] == pytest.approx(75)
    scores = score("(A (B (N a)))", "(B (A (C (N a))))")
    assert scores["unlabelled_precision"] == 100.0
    assert scores["unlabelled_recall"] == pytest.approx(200 / 3)


def test_complete_match():
    def complete(*pairs):
        texts = zip(*pairs, strict=True)
        return bracketing_scores(
            *([f"(TOP {t})" for t in column] for column in texts)
        )["complete_match"]

    right = ("(S (X a))", "(S (N a))")
    assert complete(right) == 100.0
    assert complete(right, ("(S (S (N a)))", "(S (N a))")) == 50.0
    assert complete(right, ("(S (N a))", "(S (S (N a)))")) == 50.0
    assert complete(right, ("(S (N a))", "(NP (N a))")) == 50.0
    # Without brackets it is complete; without words it does not count.
    assert complete(("(N a)", "(N a)")) == 100.0
    assert complete(right, ("(NP (. .))", "(S (. .))")) == 100.0
    assert complete(("(. .)", "(. .)")) == 0.0


def test_tag_accuracy():
    reference = "(S (N a) (. .) (V b) (-LRB- -LRB-) (V c))"
    scores = score("(S (N a) (N .) (N b) (N -LRB-) (V c))", reference)
    assert scores["tag_accuracy"] == 50.0


def test_no_sentences():
    assert set(bracketing_scores([], []).values()) == {0.0}
    assert set(bracketing_scores(["(TOP)"], ["(TOP)"]).values()) == {0.0}


def test_deep_trees():
    depth = 10_000
    tree = f"(TOP {'(X (N a) ' * depth}(N a){')' * depth})"
    assert bracketing_scores([tree], [tree])["f1"] == 100.0
    other = tree.replace("(X (N a) (N a))", "(Y (N a) (N a))")
    scores = bracketing_scores([other], [tree])
    assert scores["f1"] == pytest.approx(100 * (depth - 1) / depth)
    assert scores["unlabelled_f1"] == 100.0


# === Errors ===


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["(N a)"], [], "0 references"),
        (["(N a)", "(N a)"], ["(N a)", "(N b)"], "sentence 2 .* 'b'"),
        (["(N a)"], ["(S (N a) (N b))"], "sentence 1 .* 'a b'"),
    ],
)
def test_errors(hypotheses, references, message):
    with pytest.raises(InputError, match=message):
        bracketing_scores(hypotheses, references)
