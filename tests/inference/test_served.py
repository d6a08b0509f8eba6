"""A translator of a served model, without a model."""

import numpy as np
import pytest

from keras_transformer.inference.records import Score, Translation
from keras_transformer.inference.served import ServedBackend
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError

SIGNATURES = ("serving_default", "translate_prefix", "score")


class Calls(Translator):
    """Answers with its inputs in upper case, and records them."""

    def __init__(self, *signatures, count=2, **metadata):
        metadata["num_translations"] = 2
        self.backend = ServedBackend(
            self._answer, "calls", signatures, metadata, num_translations=count
        )
        self.calls = []

    def _answer(self, signature, inputs):
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
        best = [[text.upper().encode(), b"\xffB"] for text in texts]
        return {
            "translations": np.array(best, object),
            "scores": np.stack([-lengths, -2 * lengths], axis=1),
            **flags,
        }


@pytest.fixture
def fake():
    return Calls(*SIGNATURES)


def test_records(fake):
    found = fake.translate(["a", "x" * 11, "x" * 21])
    assert found[0] == Translation(["A", "B"], [-1.0, -2.0], False, False)
    assert [x[2:] for x in found[1:]] == [
        (False, True, False, False),
        (True, True, False, False),
    ]
    # One call, the longest text first.
    inputs = {"text": ["x" * 21, "x" * 11, "a"]}
    assert fake.calls == [("serving_default", inputs)]
    fake = Calls(*SIGNATURES, count=1)
    assert fake.translate("a")[:2] == (["A"], [-1.0])


def test_a_signature_that_the_model_lacks():
    fake = Calls("serving_default")
    with pytest.raises(InputError, match="signature score"):
        fake.score("a", "A")
    with pytest.raises(InputError, match="signature translate_prefix"):
        fake.translate("a", prefixes="A")
    assert fake.translate("a", prefixes="") == fake.translate("a")


def test_prefixes(fake):
    fake.translate(["a", "bb"], prefixes=["x", ""])
    inputs = {"text": ["bb", "a"], "prefix": ["", "x"]}
    assert fake.calls == [("translate_prefix", inputs)]


def test_scores(fake):
    found = fake.score(["aa", "b"], ["xyz", ""])
    assert found == [Score(-1.0, -2.0, 2.0, 4), Score(-0.5, -1.0, 1.0, 1)]
    for sources, targets in (
        (["b", "a" * 21], ["x", "y"]),
        (["b", "a"], ["x", "cut"]),
    ):
        with pytest.raises(InputError, match="at index 1"):
            fake.score(sources, targets)
        first, second = fake.score_corpus(sources, targets)
        assert first.num_tokens == 2 and second is None
    fake = Calls(*SIGNATURES, languages=["deu"])
    assert fake.score_corpus([" >>deu<< ", ""], ["x", "y"]) == [None, None]


def test_batches_have_an_estimated_length():
    fake = Calls(*SIGNATURES, max_length=11)
    texts = ["a" * 36, "a" * 4, "a" * 4, "b" * 400]
    fake.translate(texts, batch_tokens=20)
    batches = [inputs["text"] for _, inputs in fake.calls]
    # With the end token: 11 (the maximum), 10, 2, 2.
    assert batches == [texts[3:], texts[:2], texts[2:3]]
    # The estimate never makes a text too long to score.
    assert fake.score("b", texts[3]).num_tokens == 401
