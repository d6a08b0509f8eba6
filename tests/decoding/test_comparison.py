"""Parts that cannot be decoded step by step are noticed."""

import keras
import numpy as np
import pytest
from helpers import randomise
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import StepDecoder, comparison

CONFIG = kt.TransformerConfig(
    vocab_size=13, num_layers=2, d_model=8, d_ff=16, num_heads=2
)


class CountingAttention(kt.layers.MultiHeadAttention):
    """Numbers queries by their place in the tensor, not by `positions`."""

    def attend(self, query, key, value, *arguments):
        places = ops.cast(ops.arange(ops.shape(query)[1]), query.dtype)
        query = query * ops.cos(places)[None, :, None]
        return super().attend(query, key, value, *arguments)


class PositionedAttention(kt.layers.MultiHeadAttention):
    """The same, by `positions`."""

    def project_query(self, query, positions):
        places = ops.cast(positions, query.dtype)
        query = query * ops.cos(places)[None, :, None]
        return super().project_query(query, positions)


class Convolution(kt.layers.FeedForward):
    """Reads the position before."""

    def call(self, x):
        return super().call(x + ops.roll(x, 1, axis=1))


class Running(kt.layers.Residual):
    def call(self, x, sublayer, training=None):
        return self.norm(x + ops.cumsum(sublayer(x), axis=1))


def made(policy="float32", **classes):
    model = kt.Transformer(CONFIG, dtype=policy, **classes)
    randomise(model)
    return model


@pytest.mark.parametrize("policy", ("float32", "mixed_bfloat16"))
@pytest.mark.parametrize(
    "classes",
    (
        dict(attention_class=CountingAttention),
        dict(feed_forward_class=Convolution),
        dict(residual_class=Running),
    ),
)
def test_a_part_that_needs_more_than_a_step_has_is_refused(classes, policy):
    (part,) = classes.values()
    model = made(policy, **classes)
    for _ in range(2):  # not only the first time
        with pytest.raises(ValueError, match=f"`positions`.*{part.__name__}"):
            StepDecoder(model, 5, 1)


@pytest.mark.parametrize("policy", ("float32", "mixed_float16"))
def test_a_model_is_compared_once(policy, monkeypatch):
    calls = []
    compare = comparison._compare
    monkeypatch.setattr(
        comparison, "_compare", lambda *x: calls.append(x) or compare(*x)
    )
    model = made(policy, attention_class=PositionedAttention)
    for _ in range(2):
        StepDecoder(model, 5, 1)
    StepDecoder(made(policy), 5, 1)  # of this library's classes
    assert len(calls) == 1


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
    with pytest.raises(ValueError, match="Decoding step by step would be"):
        step(ops.convert_to_tensor(source))
