"""Bracketing scores, compared with a second implementation."""

import re
from collections import Counter

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


def read_text(text):
    """Returns the tags, and label and word indices of each bracket.

    Instead of the indices that a bracket begins and ends with, each word adds
    its index to all brackets that are open.
    """
    tags, brackets, open_brackets = [], [], []
    pattern = r"\(([^ ()]+) ?(?:([^ ()]+)\))?|(\))"
    for bracket, word, _ in re.findall(pattern, text):
        if not bracket:
            open_brackets.pop()
        elif word:
            for _, indices in open_brackets:
                indices.append(len(tags))
            tags.append(bracket)
        else:
            brackets.append((bracket, []))
            open_brackets.append(brackets[-1])
    return tags, brackets


def counted_brackets(brackets, kept):
    for label, indices in brackets:
        if label[0] != "-":
            label = label.partition("-")[0].partition("=")[0]
        if kept.intersection(indices) and label not in NOT_COUNTED:
            label = {"PRT": "ADVP"}.get(label, label)
            yield label, frozenset(kept.intersection(indices))


def second_implementation(hypotheses, references):
    sums = Counter()
    for pair in zip(hypotheses, references, strict=True):
        (tags, _), (gold, _) = texts = [read_text(text) for text in pair]
        kept = {i for i, tag in enumerate(gold) if tag not in PUNCTUATION}
        if not kept:
            continue
        found, correct = ([*counted_brackets(x, kept)] for _, x in texts)
        for prefix, part in (("", slice(2)), ("unlabelled_", slice(1, 2))):
            sides = [
                Counter(x[part] for x in side) for side in (found, correct)
            ]
            sums[f"{prefix}match"] += (sides[0] & sides[1]).total()
        sums["found"] += len(found)
        sums["correct"] += len(correct)
        sums["complete"] += Counter(found) == Counter(correct)
        sums["sentences"] += 1
        sums["tags"] += sum(tags[i] == gold[i] for i in kept)
        sums["words"] += len(kept)

    def percent(name, *names):
        whole = sum(sums[x] for x in names) / len(names)
        return 100 * sums[name] / whole if whole else 0.0

    scores = {}
    for prefix in ("", "unlabelled_"):
        match = f"{prefix}match"
        scores[f"{prefix}precision"] = percent(match, "found")
        scores[f"{prefix}recall"] = percent(match, "correct")
        scores[f"{prefix}f1"] = percent(match, "found", "correct")
    return scores | {
        "complete_match": percent("complete", "sentences"),
        "tag_accuracy": percent("tags", "words"),
    }


_symbols = st.sampled_from("(NP (ADVP (PRT )NP /NN /,".split())
_edits = st.tuples(
    st.integers(0, 20), st.integers(0, 2), st.lists(_symbols, max_size=2)
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


def score(hypothesis, reference):
    return bracketing_scores([f"(TOP {hypothesis})"], [f"(TOP {reference})"])


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
        ("(NP (: x) (`` `) (N b))", "(: x) (`` `) (NP (N b))", 100, 100),
        ("(NP (, x) ('' y) (N b))", "(, x) ('' y) (NP (N b))", 100, 100),
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


def test_scores_of_all_sentences():
    hypotheses = ["(TOP (S (NP (N a)) (N b)))", "(TOP (NP (N a)))"]
    references = ["(TOP (S (VP (N a)) (NP (N b))))", "(TOP (NP (NP (N a))))"]
    # 2 of 3 brackets are correct, 2 of 5 were found.
    assert bracketing_scores(hypotheses, references) == pytest.approx(
        dict(
            precision=200 / 3,
            recall=40,
            f1=50,
            unlabelled_precision=100,
            unlabelled_recall=60,
            unlabelled_f1=75,
            complete_match=0,
            tag_accuracy=100,
        )
    )


@pytest.mark.parametrize(
    ("hypothesis", "reference", "complete"),
    [
        ("(S (S (N a)))", "(S (N a))", 50),
        ("(S (N a))", "(S (S (N a)))", 50),
        ("(S (N a))", "(NP (N a))", 50),
        # Without brackets it is complete; without words it does not count.
        ("(N a)", "(N a)", 100),
        ("(NP (. .))", "(S (. .))", 100),
    ],
)
def test_complete_match(hypothesis, reference, complete):
    hypotheses = [f"(TOP {hypothesis})", "(TOP (S (X a)))"]
    references = [f"(TOP {reference})", "(TOP (S (N a)))"]
    scores = bracketing_scores(hypotheses, references)
    assert scores["complete_match"] == complete


def test_tag_accuracy():
    reference = "(S (N a) (. .) (V b) (-LRB- -LRB-) (V c))"
    scores = score("(S (N a) (N .) (N b) (N -LRB-) (V c))", reference)
    assert scores["tag_accuracy"] == 50.0


@pytest.mark.parametrize("trees", [[], ["(TOP)"], ["(TOP (. .))"]])
def test_nothing_to_count(trees):
    assert set(bracketing_scores(trees, trees).values()) == {0.0}


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["(N a)", "(N a)"], ["(N a)", "(N b)"], "sentence 2 .* 'b'"),
        (["(N a)"], ["(S (N a) (N b))"], "sentence 1 .* 'a b'"),
    ],
)
def test_errors(hypotheses, references, message):
    with pytest.raises(InputError, match=message):
        bracketing_scores(hypotheses, references)
