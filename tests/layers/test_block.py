"""Other sub-layers: pre-norm and a gated network, as in docs/layers.md."""

import contextlib
import inspect

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import normal, randomise, to_numpy, weights_by_path

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
class RootMeanSquare(kt.layers.Residual):
    def make_norm(self, name):
        return keras.layers.RMSNormalization(
            epsilon=self.epsilon, dtype=self.dtype_policy, name=name
        )


B, T, S, D = 2, 2, 3, 8
X, MEMORY = normal(B, T, D, seed=1), normal(B, S, D, seed=2)
CAUSAL = np.tril(np.ones((1, T, T), bool))
MEMORY_MASK = np.array([[[True, True, False]], [[True, False, True]]])
SOURCE = np.array([[5, 9, 3, 0], [7, 4, 8, 3]], "int32")
TARGET = np.array([[2, 6, 5, 10, 4], [2, 8, 0, 0, 0]], "int32")
BLOCK = dict(num_heads=2, d_ff=12, dropout=0.5)


def pre_norm(weights, x, sublayer, dropout):
    norm = reference.inside(weights, "norm")
    return x + dropout(sublayer(reference.layer_norm(norm, x)))


def gated_feed_forward(weights, x):
    gate = x @ weights["gate/kernel"] + weights["gate/bias"]
    inner = x @ weights["inner/kernel"] + weights["inner/bias"]
    inner = np.maximum(inner, 0.0) / (1.0 + np.exp(-gate))
    return inner @ weights["outer/kernel"] + weights["outer/bias"]


VARIANTS = {
    "pre-norm": (
        dict(residual_class=PreNorm),
        dict(residual=pre_norm),
    ),
    "gated": (
        dict(feed_forward_class=GatedFeedForward),
        dict(feed_forward=gated_feed_forward),
    ),
}


@pytest.fixture(params=VARIANTS)
def variant(request):
    """The arguments of a layer, and those of the reference."""
    return VARIANTS[request.param]


def saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.models.load_model(tmp_path / "model.keras")


def test_encoder_layer(variant, tmp_path):
    classes, formulas = variant
    layer = kt.layers.EncoderLayer(**BLOCK, **classes)
    inputs = keras.Input((None, D))
    model = keras.Model(inputs, layer(inputs))
    randomise(layer)
    expected = reference.encoder_layer(weights_by_path(layer), 2, X, **formulas)
    for found in (model, saved_and_loaded(model, tmp_path)):
        np.testing.assert_allclose(to_numpy(found(X)), expected, atol=1e-5)


def test_decoder_layer(variant):
    classes, formulas = variant
    layer = kt.layers.DecoderLayer(**BLOCK, **classes)
    layer.build(X.shape, MEMORY.shape)
    randomise(layer)
    output = layer(X, MEMORY, CAUSAL, MEMORY_MASK)
    expected = reference.decoder_layer(
        weights_by_path(layer), 2, X, MEMORY, CAUSAL, MEMORY_MASK, **formulas
    )
    np.testing.assert_allclose(to_numpy(output), expected, atol=1e-5)


def test_transformer(variant, tmp_path):
    classes, formulas = variant
    config = kt.TransformerConfig(
        vocab_size=11, num_layers=2, d_model=8, d_ff=12, num_heads=2
    )
    model = kt.Transformer(config, **classes)
    randomise(model)
    expected = reference.transformer(
        weights_by_path(model), 2, SOURCE, TARGET, **formulas
    )
    inputs = {"source": SOURCE, "target": TARGET}
    for found in (model, saved_and_loaded(model, tmp_path)):
        np.testing.assert_allclose(
            to_numpy(found(inputs)), expected, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("norm_first", (True, False))
def test_every_normalization_is_replaced(norm_first, tmp_path):
    config = kt.TransformerConfig(
        vocab_size=11,
        num_layers=2,
        d_model=8,
        d_ff=12,
        num_heads=2,
        norm_first=norm_first,
    )
    model = kt.Transformer(config, residual_class=RootMeanSquare)
    paths = [weight.path for weight in model.weights]
    assert sum(x.endswith("norm/scale") for x in paths) == 10 + 2 * norm_first
    assert not any(x.endswith(("gamma", "beta")) for x in paths)
    states = to_numpy(model.encode(SOURCE).states)
    np.testing.assert_allclose((states**2).mean(axis=-1), 1.0, atol=1e-3)
    assert np.abs(states.mean(axis=-1)).max() > 0.01
    kt.decoding.StepDecoder(model, 3, 1)  # compares steps with all positions
    inputs = {"source": SOURCE, "target": TARGET}
    loaded = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(
        to_numpy(loaded(inputs)), to_numpy(model(inputs))
    )


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


def test_scores_are_those_of_the_variant():
    encoder = kt.layers.Encoder(1, **BLOCK, residual_class=PreNorm)
    encoder(X)
    randomise(encoder)
    output, (scores,) = encoder(X, return_attention_scores=True)
    np.testing.assert_allclose(
        to_numpy(output), to_numpy(encoder(X)), atol=1e-5
    )
    decoder = kt.layers.Decoder(1, **BLOCK, residual_class=PreNorm)
    expected = to_numpy(decoder(X, MEMORY))
    output, _, _ = decoder(X, MEMORY, return_attention_scores=True)
    np.testing.assert_allclose(to_numpy(output), expected, atol=1e-5)
    weights = reference.inside(weights_by_path(encoder), "layer_0")
    x = reference.layer_norm(
        reference.inside(weights, "self_attention_norm/norm"), X
    )
    query, key = (
        np.split(x @ weights[f"self_attention/{name}/kernel"], 2, axis=-1)
        for name in ("query", "key")
    )
    for head in range(2):
        np.testing.assert_allclose(
            to_numpy(scores)[:, head],
            reference.attention_scores(query[head], key[head]),
            atol=1e-5,
        )


def test_methods_of_attention_without_positions_are_refused():
    class OldAttention(kt.layers.MultiHeadAttention):
        def project_memory(self, memory):
            return super().project_memory(memory)

    class OtherCall(kt.layers.MultiHeadAttention):
        def call(self, query, memory):
            return super().call(query, memory)

    for attention, message in (
        (OldAttention, "OldAttention"),
        (OtherCall, "OtherCall"),
    ):
        with pytest.raises(ValueError, match=message):
            kt.layers.Encoder(1, **BLOCK, attention_class=attention)


@pytest.mark.parametrize("stack", (kt.layers.Encoder, kt.layers.Decoder))
def test_only_pre_norm_has_a_final_norm(stack):
    def weights_outside_the_layers(**classes):
        layer = stack(2, **BLOCK, **classes)
        layer.build(*[(None, None, D)] * (1 + (stack is kt.layers.Decoder)))
        return [w for w in weights_by_path(layer) if "layer_" not in w]

    assert weights_outside_the_layers() == []
    assert weights_outside_the_layers(residual_class=PreNorm) == [
        "final_norm/gamma",
        "final_norm/beta",
    ]


def test_config_names_the_classes():
    model = kt.Transformer(
        kt.TransformerConfig(vocab_size=11, d_model=8, num_layers=1),
        residual_class=PreNorm,
    )
    config = model.get_config()
    assert config["residual_class"] == "my_project>PreNorm"
    assert config["feed_forward_class"] == "keras_transformer>FeedForward"
    assert config["attention_class"] == "keras_transformer>MultiHeadAttention"
    copy = kt.Transformer.from_config(config)
    assert copy.decoder.layers[0].residual_class is PreNorm


def test_class_that_is_not_registered_is_found_among_custom_objects():
    class Unknown(kt.layers.FeedForward):
        pass

    config = kt.layers.EncoderLayer(
        **BLOCK, feed_forward_class=Unknown
    ).get_config()
    # Keras turns the ValueError of the constructor into a TypeError.
    with pytest.raises(TypeError, match="feed_forward_class='Unknown'"):
        kt.layers.EncoderLayer.from_config(config)
    with keras.saving.custom_object_scope({"Unknown": Unknown}):
        layer = kt.layers.EncoderLayer.from_config(config)
    assert layer.feed_forward_class is Unknown
    model = kt.Transformer(
        kt.TransformerConfig(vocab_size=11, d_model=8, num_layers=1),
        feed_forward_class=Unknown,
    )
    copy = kt.Transformer.from_config(model.get_config(), {"Unknown": Unknown})
    assert copy.encoder.feed_forward_class is Unknown


@pytest.mark.parametrize("wrong", (None, kt.layers.Residual(), dict))
def test_something_else_than_a_layer_class_is_refused(wrong):
    with pytest.raises(ValueError, match="residual_class"):
        kt.layers.EncoderLayer(**BLOCK, residual_class=wrong)


@pytest.mark.parametrize("name", ("Encoder", "Decoder"))
def test_a_stack_has_the_arguments_of_its_layers(name):
    stack, layer = (
        inspect.signature(getattr(kt.layers, kind)).parameters
        for kind in (name, f"{name}Layer")
    )
    assert list(stack) == ["num_layers", *layer]
    assert all(stack[argument] == layer[argument] for argument in layer)


def test_what_a_subclass_builds_is_frozen_too():
    class Gated(kt.layers.MultiHeadAttention):
        def build(self, query_shape, memory_shape):
            super().build(query_shape, memory_shape)
            self.gate = keras.layers.Dense(query_shape[-1])
            self.gate.build(query_shape)

    layer = Gated(2, trainable=False)
    layer.build((1, 2, 8), (1, 2, 8))
    assert [weight.trainable for weight in layer.weights] == [False] * 6
