"""Bracketing scores, counted by hand."""

import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import bracketing_scores


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
    hypotheses = ["(S (NP (N a)) (NP (NP (N b))))", "(TOP (NP (N a)))"]
    references = ["(S (VP (N a)) (NP (N b)))", "(TOP (NP (NP (NP (N a)))))"]
    # 3 of 5 brackets are correct, 3 of 6 were found; 4 without labels.
    assert bracketing_scores(hypotheses, references) == pytest.approx(
        dict(
            precision=60,
            recall=50,
            f1=600 / 11,
            unlabelled_precision=80,
            unlabelled_recall=200 / 3,
            unlabelled_f1=800 / 11,
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
def test_different_words(hypotheses, references, message):
    with pytest.raises(InputError, match=message):
        bracketing_scores(hypotheses, references)
