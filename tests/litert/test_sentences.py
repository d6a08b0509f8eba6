"""The included model on everyday sentences: settings of the search agree."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch

SENTENCES = [
    "Where is the station?",
    "Stop!",
    "I would like a cup of coffee, please.",
    "My sister has lived in this city for three years.",
    "What time does the next train leave?",
    "I don't know what to say.",
    "He was reading a book when his mother came home from work.",
    "If it rains tomorrow, we will stay at home and play cards.",
    "We have two children, and they both speak French better than I do.",
    "Can you help me?",
    "The old man who lives next door has a dog that barks all night.",
]


@pytest.fixture(scope="module")
def translator():
    return kt.open_translator("en-de")


@pytest.fixture(scope="module")
def translations(translator):
    return translator.translate(SENTENCES)


def scores(translations):
    return np.array([x.scores[0] for x in translations])


def assert_same_best(ours, theirs):
    """Where an activation is rounded to another int8, scores differ more."""
    assert [x.texts[0] for x in ours] == [x.texts[0] for x in theirs]
    np.testing.assert_allclose(scores(ours), scores(theirs), atol=5e-3)


def test_a_sentence_does_not_depend_on_its_batch(translator, translations):
    lengths = {len(x.texts[0].split()) for x in translations}
    assert len(lengths) > 4
    alone = [translator.translate(text) for text in SENTENCES]
    assert_same_best(alone, translations)
    small = translator.translate(SENTENCES, batch_tokens=40, workers=2)
    assert_same_best(small, translations)


def test_the_best_are_those_of_a_longer_list(translations):
    n_best = kt.open_translator("en-de", num_translations=4)
    four_best = n_best.translate(SENTENCES)
    assert_same_best(four_best, translations)
    for translation in four_best:
        assert len(translation.texts) == 4 and all(translation.texts)
        assert translation.scores == sorted(translation.scores, reverse=True)


def test_scores_are_those_of_the_search(translator, translations):
    best = [x.texts[0] for x in translations]
    scored = translator.score(SENTENCES, best)
    np.testing.assert_allclose(
        [x.score for x in scored], scores(translations), atol=5e-3
    )
    # None is as probable as the translation of another sentence.
    others = translator.score(SENTENCES, [*best[1:], best[0]])
    assert all(x.score > y.score for x, y in zip(scored, others, strict=True))


@pytest.mark.parametrize("stop", ["heuristic", "finished"])
def test_a_search_that_stops_earlier_finds_no_better(translations, stop):
    search = BeamSearch(stop=stop)
    sooner = kt.open_translator("en-de", search=search).translate(SENTENCES)
    assert (scores(sooner) <= scores(translations) + 1e-4).all()
