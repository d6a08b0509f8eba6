"""Translators that call signatures, on one without a model."""

import numpy as np
import pytest

from keras_transformer.inference.records import Score
from keras_transformer.inference.served_signatures import (
    SignatureTranslator,
    default_count,
)
from keras_transformer.support.errors import InputError


class Calls(SignatureTranslator):
    """Answers with its inputs in upper case, and records them."""

    description = "calls"

    def __init__(self):
        self.own_signatures = {"translate_prefix": None, "score": None}
        self.calls = []

    def predict(self, signature, /, **inputs):
        self.calls.append((signature, inputs))
        texts = inputs["text"]
        lengths = np.array([len(text) for text in texts], np.float32)
        flags = {
            "source_truncated": lengths > 20,
            "at_length_limit": lengths > 10,
        }
        if signature == "score":
            targets = inputs["translation"]
            return {
                "scores": -lengths / 2,
                "log_probs": -lengths,
                "perplexities": lengths,
                "lengths": np.array([len(text) + 1 for text in targets]),
                "translation_truncated": np.array(
                    [text == "cut" for text in targets]
                ),
                **flags,
            }
        best = [[text.upper().encode(), b"\xff"] for text in texts]
        return {
            "translations": np.array(best, object),
            "scores": np.stack([-lengths, -2 * lengths], axis=1),
            **flags,
        }


@pytest.fixture
def fake():
    return Calls()


def test_records(fake):
    found = fake.translate(["a", "x" * 11, "x" * 21])
    assert found[0] == (["A", "\ufffd"], [-1.0, -2.0], False, False, False)
    assert [x[2:] for x in found[1:]] == [
        (False, True, False),
        (True, True, False),
    ]
    assert found[1].source_truncated is False
    # One call, the longest text first.
    inputs = {"text": ["x" * 21, "x" * 11, "a"]}
    assert fake.calls == [("serving_default", inputs)]
    fake._kept = 1
    assert fake.translate("a")[:2] == (["A"], [-1.0])


def test_the_default_count():
    signatures = {"serving_default": {"translations": (None, 3)}}
    assert default_count("it", signatures) == 3
    for others in ({}, {"serving_default": {"scores": (None, 3)}}):
        with pytest.raises(InputError, match="^it must .*serving_default"):
            default_count("it", others)


def test_capabilities_are_signatures(fake):
    for names, capabilities in (
        (["serving_default"], set()),
        (["translate_prefix"], {"prefixes"}),
        (["score", "greedy"], {"score", "perplexity"}),
    ):
        fake.own_signatures = dict.fromkeys(names)
        assert fake.capabilities == capabilities


def test_prefixes(fake):
    fake.translate(["a", "bb"], prefixes=["x", ""])
    inputs = {"text": ["bb", "a"], "prefix": ["", "x"]}
    assert fake.calls == [("translate_prefix", inputs)]


def test_scores(fake):
    found = fake.score(["aa", "b"], ["xyz", ""])
    assert found == [Score(-1.0, -2.0, 2.0, 4), Score(-0.5, -1.0, 1.0, 1)]
    assert list(map(type, found[0])) == [*[float] * 3, int]
    for sources, targets, side in (
        (["b", "a" * 21], ["x", "y"], "source"),
        (["b", "a"], ["x", "cut"], "target"),
    ):
        message = f"a longer {side} at index 1"
        with pytest.raises(InputError, match=message):
            fake.score(sources, targets)
        first, second = fake.score_corpus(sources, targets)
        assert first.num_tokens == 2 and second is None


def test_batches_are_of_an_estimated_length(fake):
    fake.max_length = 11
    texts = ["a" * 36, "a" * 4, "a" * 4, "b" * 400]
    fake.translate(texts, batch_tokens=20)
    batches = [inputs["text"] for _, inputs in fake.calls]
    # With the end token: 11, which is all that the model reads, 10, 2, 2.
    assert batches == [texts[3:], texts[:2], texts[2:3]]
    # A text is never refused for its estimated length.
    assert fake.score("b", texts[3]).num_tokens == 401
