"""Quantized layers and models in `.keras` files."""

import keras
import numpy as np
import pytest
from helpers import normal, randomise, to_numpy

import keras_transformer as kt
from keras_transformer import layers
from keras_transformer.quantized import policy_of

IDS = {
    "source": np.array([[5, 9, 12, 3, 0], [7, 4, 8, 10, 3]], "int32"),
    "target": np.array([[2, 6, 5], [2, 8, 11]], "int32"),
}
X = normal(2, 4, 8)


@keras.saving.register_keras_serializable(package="test_quantized")
class Gated(layers.FeedForward):
    def build(self, input_shape):
        super().build(input_shape)
        self.gate = keras.layers.Dense(
            self.d_ff, dtype=self.dtype_policy, name="gate"
        )
        self.gate.build(input_shape)

    def call(self, x):
        return self.outer(self.inner(x) * self.gate(x))


def transformer(policy="float32", **changes):
    config = kt.TransformerConfig(
        vocab_size=13, num_layers=1, d_model=8, d_ff=16, num_heads=2, **changes
    )
    model = kt.Transformer(config, dtype=policy)
    randomise(model)
    return model


def nested(policy):
    inputs = {x: keras.Input((None,), dtype="int32", name=x) for x in IDS}
    return keras.Model(inputs, transformer(policy)(inputs))


def functional(layer, num_inputs=1):
    """A model of a layer, as a function of the policy."""

    def make(policy):
        inputs = keras.Input((None, 8))
        made = layer(policy)
        return keras.Model(inputs, made(*[inputs] * num_inputs))

    return make


MODELS = {
    "transformer": transformer,
    "nested": nested,
    "attention": functional(
        lambda x: layers.RestrictedSelfAttention(2, window=2, dtype=x), 2
    ),
    "feed-forward": functional(lambda x: layers.FeedForward(12, dtype=x)),
    # The name contains characters of regular expressions.
    "layer": functional(
        lambda x: layers.EncoderLayer(2, d_ff=12, dtype=x, name="a.(b")
    ),
}


@pytest.mark.parametrize(
    ("name", "mode", "policy"),
    (
        ("transformer", "int4", "float32"),
        ("nested", "int8", "mixed_bfloat16"),
        ("attention", "int8", "float32"),
        ("feed-forward", "float8", "float32"),
        ("layer", "int8", "float32"),
    ),
)
def test_saved_and_loaded_twice(name, mode, policy, tmp_path):
    model = MODELS[name](policy)
    inputs = IDS if name in ("transformer", "nested") else X
    model.quantize(mode)
    expected = to_numpy(model(inputs))
    for file in ("first.keras", "second.keras"):
        model.save(tmp_path / file)
        model = keras.models.load_model(tmp_path / file)
        np.testing.assert_array_equal(to_numpy(model(inputs)), expected)


def test_copy_has_the_config_and_layers_of_ones_own():
    model = transformer(feed_forward_class=Gated)
    model.quantize("int8")
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    np.testing.assert_array_equal(to_numpy(copy(IDS)), to_numpy(model(IDS)))
    assert copy.get_config() == model.get_config()
    assert policy_of(copy).name == "float32"


def test_a_part_of_a_loaded_model_and_the_rest_quantized(tmp_path):
    model = transformer()
    model.encoder.layers[0].feed_forward.inner.quantize("int8")
    encoder = transformer().from_config(model.get_config()).encoder
    inputs = keras.Input((None, 8))
    keras.Model(inputs, encoder(inputs)).save(tmp_path / "encoder.keras")
    loaded = keras.models.load_model(tmp_path / "encoder.keras")
    np.testing.assert_array_equal(to_numpy(loaded(X)), to_numpy(encoder(X)))
    part = loaded.layers[1].layers[0].feed_forward
    assert part.inner.quantization_mode == "int8"
    assert part.outer.quantization_mode is None
    part.outer.quantize("int8")
    assert part.outer.quantization_mode == "int8"
