"""The included model, with weights in int8, on everyday sentences."""

import numpy as np

import keras_transformer as kt

SENTENCES = [
    "Where is the station?",
    "Stop!",
    "I would like a cup of coffee, please.",
    "My sister has lived in this city for three years.",
    "I don't know what to say.",
    "If it rains tomorrow, we will stay at home and play cards.",
    "We have two children, and they both speak French better than I do.",
]


def scores(translations):
    return np.array([x.scores[0] for x in translations])


def assert_same_best(ours, theirs):
    """Where an activation is rounded to a different int8, scores differ."""
    assert [x.texts[0] for x in ours] == [x.texts[0] for x in theirs]
    np.testing.assert_allclose(scores(ours), scores(theirs), atol=5e-3)


def test_a_sentence_does_not_depend_on_its_batch():
    translator = kt.open_translator("en-de")
    translations = translator.translate(SENTENCES)
    assert len({len(x.texts[0].split()) for x in translations}) > 3
    alone = [translator.translate(text) for text in SENTENCES]
    assert_same_best(alone, translations)
    small = translator.translate(SENTENCES, batch_tokens=40, workers=2)
    assert_same_best(small, translations)
    # The search reports the scores of its translations.
    best = [x.texts[0] for x in translations]
    scored = translator.score(SENTENCES, best)
    np.testing.assert_allclose(
        [x.score for x in scored], scores(translations), atol=5e-3
    )
    # No translation is as probable as the source's own.
    others = translator.score(SENTENCES, [*best[1:], best[0]])
    assert all(x.score > y.score for x, y in zip(scored, others, strict=True))
