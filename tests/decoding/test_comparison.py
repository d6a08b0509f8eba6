"""Parts that cannot be decoded step by step raise an error."""

import dataclasses

import keras
import numpy as np
import pytest
from helpers import randomise
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import StepDecoder, step

CONFIG = kt.TransformerConfig(
    vocab_size=13, num_layers=1, d_model=8, d_ff=16, num_heads=2
)


@keras.saving.register_keras_serializable()
class CountingAttention(kt.layers.MultiHeadAttention):
    """Numbers queries by their place in the tensor, not by `positions`."""

    def attend(self, query, key, value, *arguments):
        places = ops.cast(ops.arange(ops.shape(query)[1]), query.dtype)
        query = query * ops.cos(places)[None, :, None]
        return super().attend(query, key, value, *arguments)


@keras.saving.register_keras_serializable()
class PositionedAttention(kt.layers.MultiHeadAttention):
    """The same, by `positions`."""

    def project_query(self, query, positions):
        places = ops.cast(positions, query.dtype)
        query = query * ops.cos(places)[None, :, None]
        return super().project_query(query, positions)


@keras.saving.register_keras_serializable()
class Convolution(kt.layers.FeedForward):
    """Reads the position before."""

    def call(self, x):
        return super().call(x + ops.roll(x, 1, axis=1))


@keras.saving.register_keras_serializable()
class Running(kt.layers.Residual):
    def call(self, x, sublayer, training=None):
        return self.norm(x + ops.cumsum(sublayer(x), axis=1))


def made(policy="float32", **changes):
    config = dataclasses.replace(CONFIG, **changes)
    model = kt.Transformer(config, dtype=policy)
    randomise(model)
    return model


@pytest.mark.parametrize(
    ("policy", "classes"),
    (
        ("float32", dict(attention_class=CountingAttention)),
        ("float32", dict(feed_forward_class=Convolution)),
        ("mixed_bfloat16", dict(residual_class=Running)),
    ),
)
def test_a_part_that_needs_all_positions_raises(policy, classes):
    (part,) = classes.values()
    model = made(policy, **classes)
    with pytest.raises(ValueError, match=part.__name__):
        StepDecoder(model, 5, 1)


@keras.saving.register_keras_serializable()
class BiasByPlaces(kt.layers.MultiHeadAttention):
    """Adds a bias per place of a query in the tensor, at first 0."""

    def build(self, query_shape, memory_shape):
        super().build(query_shape, memory_shape)
        self.bias = self.add_weight((3, 8), "zeros", name="bias")

    def attend(self, query, key, value, *arguments):
        output, scores = super().attend(query, key, value, *arguments)
        return output + self.bias[: ops.shape(query)[1]], scores


def test_the_current_weights_are_compared():
    config = dataclasses.replace(CONFIG, attention_class=BiasByPlaces)
    model = kt.Transformer(config)
    StepDecoder(model, 5, 1)  # as long as the bias is 0
    for layer in model.decoder.layers:
        layer.self_attention.bias.assign(np.eye(3, 8))
    with pytest.raises(ValueError, match="BiasByPlaces"):
        StepDecoder(model, 5, 1)


@keras.saving.register_keras_serializable()
class FartherPast(kt.layers.MultiHeadAttention):
    """ALiBi. In a step, the distance to the past is one too large."""

    def unnormalized_scores(self, query, key, positions):
        scores = super().unnormalized_scores(query, key, positions)
        if self.name == "cross_attention":
            return scores
        distance = ops.abs(positions[0][:, None] - positions[1])
        if query.shape[2] != key.shape[2]:
            distance = distance + ops.cast(distance > 0, "int32")
        return scores - ops.cast(distance, "float32") / 16


def test_distances_that_are_off_by_one_raise():
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(CONFIG, attention_class=FartherPast)
    model = kt.Transformer(config)
    with pytest.raises(ValueError, match="FartherPast"):
        StepDecoder(model, 5, 1)


def test_logits_that_are_nan_raise():
    model = made(attention_class=PositionedAttention)
    model.decoder.layers[0].feed_forward.outer.bias.assign([np.nan] * 8)
    with pytest.raises(ValueError, match="nan"):
        StepDecoder(model, 5, 1)


def test_a_model_of_short_texts_is_compared():
    short = dict(positional_encoding="learned", max_length=1)
    StepDecoder(made(**short, attention_class=PositionedAttention), 1, 1)
    with pytest.raises(ValueError, match="Running"):
        StepDecoder(made(**short, residual_class=Running), 1, 1)


def test_a_part_that_uses_positions_is_accepted():
    StepDecoder(
        made("mixed_float16", attention_class=PositionedAttention), 5, 1
    )


def test_models_of_this_library_are_not_compared(monkeypatch):
    monkeypatch.setattr(step, "_compare", None)
    StepDecoder(made(), 5, 1)


def test_a_model_is_compared_while_a_graph_is_traced():
    model = made(attention_class=CountingAttention)
    source = np.array([[5, 6, 7]], "int32")

    def step(source):
        decoder = StepDecoder(model, 5, 1)
        cache = decoder.init_cache(model.encode(source))
        return decoder.decode_step(source[:, :1], source[:, :1], cache, 0)[0]

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        step = tf.function(step, autograph=False)
    elif keras.backend.backend() == "jax":
        import jax

        step = jax.jit(step)
    with pytest.raises(ValueError, match="CountingAttention"):
        step(ops.convert_to_tensor(source))
