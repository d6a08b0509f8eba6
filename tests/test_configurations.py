"""What the models of other systems differ in, against float64 NumPy."""

import functools
import math

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import randomise, to_numpy, weights_by_path

import keras_transformer as kt

SOURCE = np.array([[5, 9, 3, 0], [7, 4, 8, 3]], "int32")
TARGET = np.array([[2, 6, 5, 10, 4], [2, 8, 0, 0, 0]], "int32")
BOTH = {"source": SOURCE, "target": TARGET}
SMALL = dict(
    vocab_size=11, num_layers=1, d_model=8, d_ff=12, num_heads=2, max_length=6
)


def swish(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def marian_positions(length, d_model):
    """Sines before cosines, the last frequency 1/10000."""
    half = d_model // 2
    frequencies = np.exp(-np.log(10000) * np.arange(half) / (half - 1))
    angles = np.arange(length)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def halves(length, d_model):
    table = reference.sinusoids(length, d_model)
    return np.concatenate([table[:, ::2], table[:, 1::2]], axis=1)


def from_two(length, d_model):
    return reference.sinusoids(length + 2, d_model)[2:]


def activation(function):
    network = functools.partial(reference.feed_forward, activation=function)
    return dict(feed_forward=network)


def residual(function, epsilon):
    return dict(
        residual=functools.partial(function, epsilon=epsilon), epsilon=epsilon
    )


# Fields of the configuration, and what they mean for the reference.
VARIANTS = {
    "learned": (dict(positional_encoding="learned"), {}),
    "biases-swish": (
        dict(
            attention_bias=True,
            d_k=3,
            d_v=5,
            output_bias=True,
            activation="swish",
        ),
        activation(swish),
    ),
    "gelu-epsilon": (
        dict(activation="gelu", layer_norm_epsilon=0.5),
        activation(gelu) | residual(reference.post_norm, 0.5),
    ),
    "norm_first": (
        dict(norm_first=True, layer_norm_epsilon=0.5),
        residual(reference.pre_norm, 0.5),
    ),
    "tied-inputs": (
        dict(tied_embeddings="inputs", output_bias=True, embedding_scale=0.5),
        dict(scale=0.5),
    ),
    "tied-target": (
        dict(
            tied_embeddings="target",
            source_vocab_size=13,
            output_bias=True,
            position_layout="halves",
        ),
        dict(sinusoids=halves),
    ),
    "untied": (
        dict(
            tied_embeddings="none",
            source_vocab_size=10,
            output_bias=True,
            position_layout="halves",
            position_endpoint=True,
        ),
        dict(sinusoids=marian_positions),
    ),
    "decoder": (
        dict(
            decoder_layers=2,
            decoder_heads=4,
            decoder_d_ff=6,
            position_offset=2,
        ),
        dict(decoder_heads=4, sinusoids=from_two),
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_number_of_parameters(variant):
    fields, arguments = VARIANTS[variant]
    model = kt.Transformer(kt.TransformerConfig(**SMALL | fields))
    randomise(model)
    expected = reference.transformer(
        weights_by_path(model), 2, SOURCE, TARGET, **arguments
    )
    assert expected.std() > 0.3
    np.testing.assert_allclose(
        to_numpy(model(BOTH)), expected, rtol=1e-4, atol=1e-4
    )
    assert model.count_params() == model.config.num_parameters
    assert len(model.trainable_weights) == len(model.weights)


def test_saved_and_loaded(tmp_path):
    fields = dict(decoder_heads=1)
    for name in ("biases-swish", "norm_first", "untied", "decoder"):
        fields = VARIANTS[name][0] | fields
    model = kt.Transformer(kt.TransformerConfig(**SMALL | fields))
    randomise(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.config == model.config
    np.testing.assert_array_equal(to_numpy(loaded(BOTH)), to_numpy(model(BOTH)))
