"""Other sub-layers: pre-norm and a gated network, as in docs/layers.md."""

import contextlib

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import (
    TENSORFLOW_ONLY,
    normal,
    randomise,
    to_numpy,
    weights_by_path,
)

import keras_transformer as kt


@keras.saving.register_keras_serializable(package="my_project")
class PreNorm(kt.layers.Residual):
    """x + Dropout(Sublayer(LayerNorm(x)))"""

    needs_final_norm = True

    def call(self, x, sublayer, training=None):
        output = sublayer(self.norm(x))
        return x + self.dropout_layer(output, training=training)


@keras.saving.register_keras_serializable(package="my_project")
class GatedFeedForward(kt.layers.FeedForward):
    """(relu(x W1 + b1) * sigmoid(x W3 + b3)) W2 + b2"""

    def build(self, input_shape):
        super().build(input_shape)
        self.gate = keras.layers.Dense(
            self.d_ff, "sigmoid", dtype=self.dtype_policy, name="gate"
        )
        self.gate.build(input_shape)

    def call(self, x):
        return self.outer(self.inner(x) * self.gate(x))


@keras.saving.register_keras_serializable(package="my_project")
class WithAdapter(kt.layers.FeedForward):
    """LayerNorm(y + Adapter(y)), y = FeedForward(x)"""

    def build(self, input_shape):
        super().build(input_shape)
        common = dict(dtype=self.dtype_policy)
        self.adapter = kt.layers.FeedForward(32, **common, name="adapter")
        self.adapter_norm = kt.layers.Residual(**common, name="adapter_norm")
        self.adapter.build(input_shape)
        self.adapter_norm.build(input_shape)

    def call(self, x):
        return self.adapter_norm(super().call(x), sublayer=self.adapter)


@keras.saving.register_keras_serializable()
class RootMeanSquare(kt.layers.Residual):
    def make_norm(self, name):
        return keras.layers.RMSNormalization(
            epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )


D = 8
X = normal(2, 2, D)
SOURCE = np.array([[5, 9, 3, 0], [7, 4, 8, 3]], "int32")
TARGET = np.array([[2, 6, 5, 10, 4], [2, 8, 0, 0, 0]], "int32")
BLOCK = dict(num_heads=2, d_ff=12, dropout=0.5)
SMALL = dict(vocab_size=11, num_layers=1, d_model=D, d_ff=12, num_heads=2)
STACKS = pytest.mark.parametrize(
    "stack", (kt.layers.Encoder, kt.layers.Decoder)
)


def gated_feed_forward(weights, x):
    gate = reference.project(weights, "gate", x)
    inner = np.maximum(reference.project(weights, "inner", x), 0.0)
    return reference.project(weights, "outer", inner / (1.0 + np.exp(-gate)))


def feed_forward_with_adapter(weights, x):
    def adapter(x):
        return reference.feed_forward(inner, x)

    inner = reference.inside(weights, "adapter")
    norm = reference.inside(weights, "adapter_norm")
    x = reference.feed_forward(weights, x)
    return reference.post_norm(norm, x, adapter)


def built(stack, **arguments):
    layer = stack(2, **BLOCK, **arguments)
    layer.build(*[X.shape] * (1 + (stack is kt.layers.Decoder)))
    return layer


@TENSORFLOW_ONLY
def test_a_model_of_other_sublayers_is_saved_and_loaded(tmp_path):
    model = kt.Transformer(
        kt.TransformerConfig(
            **SMALL, residual_class=PreNorm, feed_forward_class=GatedFeedForward
        )
    )
    randomise(model)
    expected = reference.transformer(
        weights_by_path(model),
        *(2, SOURCE, TARGET),
        residual=reference.pre_norm,
        feed_forward=gated_feed_forward,
    )
    assert model.config.to_dict()["residual_class"] == "my_project>PreNorm"
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for found in (model, loaded):
        logits = found({"source": SOURCE, "target": TARGET})
        np.testing.assert_allclose(
            to_numpy(logits), expected, rtol=1e-4, atol=1e-5
        )


def test_an_added_sublayer_decodes_step_by_step():
    config = kt.TransformerConfig(**SMALL, feed_forward_class=WithAdapter)
    model = kt.Transformer(config)
    randomise(model)
    expected = reference.transformer(
        weights_by_path(model),
        *(2, SOURCE, TARGET),
        feed_forward=feed_forward_with_adapter,
    )
    logits = model({"source": SOURCE, "target": TARGET})
    np.testing.assert_allclose(to_numpy(logits), expected, rtol=1e-4, atol=1e-5)
    # Raises if steps and the full pass differ.
    kt.decoding.StepDecoder(model, max_length=6, beam_size=2)


@pytest.mark.parametrize("norm_first", (True, False))
def test_every_normalization_is_replaced(norm_first):
    config = kt.TransformerConfig(
        **SMALL, norm_first=norm_first, residual_class=RootMeanSquare
    )
    model = kt.Transformer(config)
    paths = [weight.path for weight in model.weights]
    assert sum(x.endswith("norm/scale") for x in paths) == 5 + 2 * norm_first
    assert not any(x.endswith(("gamma", "beta")) for x in paths)
    states = to_numpy(model.encode(SOURCE).states)
    np.testing.assert_allclose((states**2).mean(axis=-1), 1.0, atol=1e-3)
    assert np.abs(states.mean(axis=-1)).max() > 0.01


@pytest.mark.slow
def test_rematerialized_activations():
    def losses(scope):
        with scope:
            layer = kt.layers.Encoder(1, num_heads=2, d_ff=12, dropout=0.0)
            inputs = keras.Input((None, D))
            model = keras.Model(inputs, layer(inputs))
        randomise(layer)
        model.compile("sgd", "mse")
        return model.fit(X, -X, epochs=2, verbose=0).history["loss"]

    np.testing.assert_allclose(
        losses(keras.RematScope(mode="activations")),
        losses(contextlib.nullcontext()),
        rtol=1e-5,
    )


@STACKS
def test_only_pre_norm_has_a_final_norm(stack):
    layer = built(stack)
    assert all("layer_" in weight.path for weight in layer.weights)
    layer = built(stack, residual_class=PreNorm)
    outside = [x for x in weights_by_path(layer) if "layer_" not in x]
    assert outside == ["final_norm/gamma", "final_norm/beta"]
    inputs = [X] * (1 + (stack is kt.layers.Decoder))
    output, *_ = layer(*inputs, return_attention_scores=True)
    np.testing.assert_allclose(
        to_numpy(output), to_numpy(layer(*inputs)), atol=1e-5
    )
    np.testing.assert_allclose(to_numpy(output).mean(axis=-1), 0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    (
        (dict(residual_class=None), "residual_class"),
        (dict(residual_class=kt.layers.Residual()), "residual_class"),
        (dict(feed_forward_class=dict), "feed_forward_class"),
        (dict(attention_class="a>B"), "^attention_class .* 'a>B'.* --module"),
    ),
)
def test_classes_that_cannot_be_used(arguments, name):
    with pytest.raises(ValueError, match=name):
        kt.layers.EncoderLayer(**BLOCK, **arguments)
