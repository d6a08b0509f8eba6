"""Signatures as arrays by name: of translators and of graphs."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export.saved_model.exported_signatures import Signatures
from keras_transformer.inference.records import Score
from keras_transformer.inference.served_signatures import (
    SignatureTranslator,
    TensorSpec,
    graph_signatures,
    translator_signatures,
)
from keras_transformer.support.errors import InputError


def strings(*texts):
    return np.array([text.encode() for text in texts], object)


def test_a_translator_answers_as_the_signature_of_its_export(translator):
    function = Signatures(translator).make(["serving_default"])
    graph = graph_signatures(function)["serving_default"]
    ours = translator_signatures(translator)["serving_default"]
    assert (
        ours.inputs == graph.inputs == {"text": TensorSpec("string", (None,))}
    )
    assert dict(ours.outputs()) == {
        "translations": TensorSpec("string", (None, 3)),
        "scores": TensorSpec("float32", (None, 3)),
        "source_truncated": TensorSpec("bool", (None,)),
        "at_length_limit": TensorSpec("bool", (None,)),
    }
    assert set(ours.outputs()) == set(graph.outputs())
    for texts in ((), ("dog", "The red cat sleeps.", "")):
        assert_same_answer(ours, graph, strings(*texts))
    # Bytes that are not UTF-8: alone, the start of a character, a surrogate.
    texts = [b"d\xffog \x80", b"dog \xe2\x82", b"\xed\xa0\x80 cat", b"\xf0\x9f"]
    assert_same_answer(ours, graph, np.array(texts, object))


def assert_same_answer(ours, graph, texts):
    found, expected = (x.call({"text": texts}) for x in (ours, graph))
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].shape == array.shape
        if array.dtype == object:
            encoded = [x.encode() for x in found[name].ravel()]
            assert encoded == array.ravel().tolist()
        else:
            assert found[name].dtype == array.dtype
            np.testing.assert_allclose(found[name], array, atol=1e-4)


def test_prefixes(translator):
    signature = translator_signatures(translator)["translate_prefix"]
    assert list(signature.inputs) == ["text", "prefix"]
    arrays = {"text": strings("dog", "cat"), "prefix": strings("Katze", "")}
    found = signature.call(arrays)["translations"]
    assert found[0, 0].startswith("Katze") and found[1, 0] == "Katze"


def test_what_a_graph_refuses():
    spec = tf.TensorSpec([], tf.int32, "beam_size")

    @tf.function(input_signature=[spec])
    def function(beam_size):
        tf.debugging.assert_positive(beam_size, "beam_size must be positive.")
        return {"double": 2 * beam_size}

    signature = graph_signatures({"x": function})["x"]
    assert signature.inputs == {"beam_size": TensorSpec("int32", ())}
    assert signature.outputs() == {"double": TensorSpec("int32", ())}
    assert signature.call({"beam_size": np.array(3)}) == {"double": 6}
    with pytest.raises(kt.InputError, match="beam_size must be positive"):
        signature.call({"beam_size": np.array(-1)})


# === Translators that call signatures ===


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


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, "return translations of rank 2, .* Received: nothing, from calls"),
        ({"translations": [b"a"]}, "Received: translations object .1., from"),
        ({"translations": [[1.0]]}, "translations float64 .1, 1.,"),
        ({"translations": [[b"a"]] * 2}, "For 1 texts, .*, 1., from"),
        ({"translations": [[b"a"]]}, "must return scores of rank 2"),
        (
            {"translations": [[b"a"]], "scores": [[0.0]]},
            "must return source_truncated of rank 1, .* Export the model again",
        ),
    ],
)
def test_outputs_of_another_model(fake, outputs, message):
    def array(values):
        return np.array(values, object if b"a" in np.ravel(values) else None)

    fake.predict = lambda *_, **__: {x: array(y) for x, y in outputs.items()}
    with pytest.raises(InputError, match=message):
        fake.translate("a")
    with pytest.raises(InputError, match="must return scores of rank 1"):
        fake.score("a", "b")


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
