"""Signatures as arrays by name: of translators and of graphs."""

import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.export.saved_model.exported_signatures import Signatures
from keras_transformer.inference.signatures import (
    TensorSpec,
    graph_signatures,
    translator_signatures,
)


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
        found = ours.call({"text": strings(*texts)})
        expected = graph.call({"text": strings(*texts)})
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
