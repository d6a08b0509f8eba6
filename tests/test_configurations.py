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
    vocab_size=11, num_layers=2, d_model=8, d_ff=12, num_heads=2, max_length=6
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
    "attention_bias": (dict(attention_bias=True, d_k=3, d_v=5), {}),
    "output_bias": (dict(output_bias=True), {}),
    "swish": (dict(activation="swish"), activation(swish)),
    "gelu": (dict(activation="gelu"), activation(gelu)),
    "epsilon": (
        dict(layer_norm_epsilon=0.5),
        residual(reference.post_norm, 0.5),
    ),
    "norm_first": (dict(norm_first=True), residual(reference.pre_norm, 1e-6)),
    "norm_first-epsilon": (
        dict(norm_first=True, layer_norm_epsilon=0.5),
        residual(reference.pre_norm, 0.5),
    ),
    "tied-inputs": (dict(tied_embeddings="inputs", output_bias=True), {}),
    "tied-target": (
        dict(tied_embeddings="target", source_vocab_size=13, output_bias=True),
        {},
    ),
    "untied": (
        dict(tied_embeddings="none", source_vocab_size=10, output_bias=True),
        {},
    ),
    "scale": (dict(embedding_scale=0.5), dict(scale=0.5)),
    "halves": (dict(position_layout="halves"), dict(sinusoids=halves)),
    "marian-positions": (
        dict(position_layout="halves", position_endpoint=True),
        dict(sinusoids=marian_positions),
    ),
    "offset": (dict(position_offset=2), dict(sinusoids=from_two)),
    "decoder": (
        dict(decoder_layers=1, decoder_heads=4, decoder_d_ff=6),
        dict(decoder_heads=4),
    ),
}


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request):
    """A model, and the arguments of the reference."""
    fields, arguments = VARIANTS[request.param]
    model = kt.Transformer(kt.TransformerConfig(**{**SMALL, **fields}))
    randomise(model)
    return model, arguments


def test_logits(variant):
    model, arguments = variant
    expected = reference.transformer(
        weights_by_path(model), 2, SOURCE, TARGET, **arguments
    )
    assert expected.std() > 0.3
    np.testing.assert_allclose(
        to_numpy(model(BOTH)), expected, rtol=1e-4, atol=1e-4
    )


def test_number_of_parameters(variant):
    model, _ = variant
    assert model.count_params() == model.config.num_parameters


def test_saved_and_loaded(tmp_path):
    fields = dict(
        attention_bias=True,
        d_k=3,
        d_v=5,
        output_bias=True,
        activation="swish",
        norm_first=True,
        layer_norm_epsilon=0.5,
        tied_embeddings="none",
        source_vocab_size=13,
        embedding_scale=0.5,
        position_layout="halves",
        position_endpoint=True,
        position_offset=2,
        decoder_layers=1,
        decoder_heads=1,
        decoder_d_ff=6,
    )
    model = kt.Transformer(kt.TransformerConfig(**{**SMALL, **fields}))
    randomise(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.config == model.config
    np.testing.assert_array_equal(to_numpy(loaded(BOTH)), to_numpy(model(BOTH)))
