"""What every layer must do, whatever it computes."""

import importlib
import warnings
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import (
    POLICIES,
    TENSORFLOW_ONLY,
    check_examples,
    dtype_of,
    gradients,
    normal,
    randomise,
    to_numpy,
    tolerance,
    weights_by_path,
)
from keras import ops

from keras_transformer import layers

B, T, S, D = 2, 4, 3, 8
MODULES = (
    "attention",
    "decoder",
    "embedding",
    "encoder",
    "feed_forward",
    "positional_encoding",
    "residual",
    "restricted_attention",
)
WIDTHS = dict(num_heads=2, d_k=3, d_v=5)
HEADS = dict(**WIDTHS, use_bias=False)
BLOCK = dict(
    **WIDTHS,
    d_ff=12,
    dropout=0.5,
    attention_window=None,
    attention_bias=False,
    activation="relu",
    norm_first=False,
    epsilon=1e-6,
    attention_class="keras_transformer>MultiHeadAttention",
    feed_forward_class="keras_transformer>FeedForward",
    residual_class="keras_transformer>Residual",
)

X, MEMORY = normal(B, T, D, seed=1), normal(B, S, D, seed=2)
CAUSAL = np.tril(np.ones((1, T, T), bool))
# Sentence 0 has two source positions, sentence 1 has none.
SOURCE_MASK = np.array([[[True, True, False]], [[False, False, False]]])
PAIRS = np.concatenate([CAUSAL, np.zeros((1, T, T), bool)])
# A window of 2: each position and the one before it.
WINDOW = np.tri(T, dtype=bool) & ~np.tri(T, k=-2, dtype=bool)


def reverse(x):
    return ops.flip(x, axis=1)


class Case(NamedTuple):
    """A layer, its call, and the expected output."""

    layer: type
    arguments: dict[str, Any]
    inputs: tuple[np.ndarray, ...]
    expected: Any  # (weights, *inputs) -> array
    keywords: dict[str, Any] = {}  # noqa: RUF012, never changed

    def __call__(self, layer, **mode):
        return layer(*self.inputs, **self.keywords, **mode)


CASES = {
    "MultiHeadAttention": Case(
        layers.MultiHeadAttention,
        HEADS,
        (X, MEMORY, SOURCE_MASK),
        lambda w, *inputs: reference.multi_head_attention(w, 2, *inputs),
    ),
    "RestrictedSelfAttention": Case(
        layers.RestrictedSelfAttention,
        dict(**HEADS, window=2, causal=False),
        (X, normal(B, T, D, seed=3), PAIRS),
        lambda w, x, memory, mask: reference.multi_head_attention(
            w, 2, x, memory, mask & WINDOW
        ),
    ),
    "FeedForward": Case(
        layers.FeedForward,
        dict(d_ff=12, activation="relu"),
        (X,),
        reference.feed_forward,
    ),
    "Residual": Case(
        layers.Residual,
        dict(dropout=0.5, norm_first=False, epsilon=1e-6),
        (X,),
        lambda w, x: reference.post_norm(w, x, np.fliplr),
        dict(sublayer=reverse),
    ),
    "EncoderLayer": Case(
        layers.EncoderLayer,
        BLOCK,
        (X, PAIRS),
        lambda w, *inputs: reference.encoder_layer(w, 2, *inputs),
    ),
    "Encoder": Case(
        layers.Encoder,
        dict(**BLOCK, num_layers=1),
        (X, PAIRS),
        lambda w, *inputs: reference.encoder(w, 2, *inputs),
    ),
    "DecoderLayer": Case(
        layers.DecoderLayer,
        BLOCK,
        (X, MEMORY, PAIRS, SOURCE_MASK),
        lambda w, *inputs: reference.decoder_layer(w, 2, *inputs),
    ),
    "Decoder": Case(
        layers.Decoder,
        dict(**BLOCK, num_layers=1),
        (X, MEMORY, PAIRS, SOURCE_MASK),
        lambda w, *inputs: reference.decoder(w, 2, *inputs),
    ),
    "SinusoidalPositionalEncoding": Case(
        layers.SinusoidalPositionalEncoding,
        dict(layout="interleaved", endpoint=False, offset=0),
        (X,),
        lambda w, x: x + reference.sinusoids(T, D),
    ),
    "LearnedPositionalEncoding": Case(
        layers.LearnedPositionalEncoding,
        dict(max_length=6),
        (X,),
        lambda w, x: x + w["embeddings"][:T],
    ),
    "TiedEmbedding": Case(
        layers.TiedEmbedding,
        dict(vocab_size=7, d_model=D, scale=None, use_bias=False),
        (np.array([[0, 6, 3]], "int32"),),
        lambda w, ids: w["embeddings"][ids] * np.sqrt(D),
    ),
}
DROPOUTS = sorted(n for n, c in CASES.items() if "dropout" in c.arguments)
WITH_SCORES = sorted(n for n, c in CASES.items() if "num_heads" in c.arguments)
# A Residual cannot be part of a functional model.
FUNCTIONAL = sorted(set(CASES) - {"Residual"})


def made(name, policy="float32", **changes):
    """A built layer with random weights, and its case."""
    case = CASES[name]
    layer = case.layer(**{**case.arguments, **changes}, dtype=policy)
    case(layer)
    randomise(layer)
    return layer, case


def functional(layer, case, **mode):
    """A model of the layer with unknown batch size and lengths; its inputs."""
    inputs = [
        keras.Input(
            (None, *x.shape[2:]) if x.dtype != bool else (None, None),
            dtype=str(x.dtype),
        )
        for x in case.inputs
    ]
    # Keras requires the same batch size of every input.
    batch = len(case.inputs[0])
    arrays = [np.broadcast_to(x, (batch, *x.shape[1:])) for x in case.inputs]
    return keras.Model(inputs, layer(*inputs, **mode)), arrays


def test_every_layer_has_a_case():
    public = {name for name in layers.__all__ if name[0].isupper()}
    assert set(CASES) == public


@TENSORFLOW_ONLY
@pytest.mark.parametrize("module", MODULES)
def test_examples_of_the_docstrings(module):
    check_examples(
        importlib.import_module(f"keras_transformer.layers.{module}")
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", CASES)
def test_values(name, policy):
    layer, case = made(name, policy)
    output = case(layer)
    assert dtype_of(output) == layer.compute_dtype
    expected = case.expected(weights_by_path(layer), *case.inputs)
    error = np.abs(to_numpy(output) - expected) / np.maximum(
        1.0, np.abs(expected)
    )
    assert error.max() < tolerance(policy, 16)


@pytest.mark.parametrize("name", CASES)
def test_config_holds_the_arguments_of_init(name):
    case = CASES[name]
    layer = case.layer(
        **case.arguments, name="mine", trainable=False, dtype="mixed_bfloat16"
    )
    config = layer.get_config()
    base = set(keras.layers.Layer().get_config())
    assert set(config) - base == set(case.arguments)
    assert {key: config[key] for key in case.arguments} == case.arguments

    copy = case.layer.from_config(config)
    assert copy.name == "mine"
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert copy.get_config() == config
    case(copy)
    assert not copy.trainable_weights
    copy.trainable = True
    assert len(copy.trainable_weights) == len(copy.weights)
    assert all(weight.dtype == "float32" for weight in copy.weights)


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_model_is_saved_and_loaded(name, tmp_path):
    layer, case = made(name, "mixed_bfloat16")
    model, arrays = functional(layer, case)
    expected = to_numpy(model(arrays))
    np.testing.assert_allclose(
        expected, to_numpy(case(layer)), atol=tolerance("mixed_bfloat16", 16)
    )
    assert model.output_shape[-1] == expected.shape[-1]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(arrays)), expected)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"TiedEmbedding"}))
def test_keras_mask_of_the_first_input_is_passed_on(name):
    layer, case = made(name)
    ids = np.array([[3, 4, 0, 0], [5, 6, 7, 0]], "int32")
    x = keras.layers.Embedding(9, D, mask_zero=True)(ids)
    with warnings.catch_warnings():
        # Keras warns of layers that it takes to lose the mask.
        warnings.simplefilter("error", UserWarning)
        output = layer(x, *case.inputs[1:], **case.keywords)
    # This layer averages over the positions that the mask does not hide.
    pooled = to_numpy(keras.layers.GlobalAveragePooling1D()(output))
    for row, length in enumerate((2, 3)):
        expected = to_numpy(output)[row, :length].mean(axis=0)
        np.testing.assert_allclose(pooled[row], expected, atol=1e-5)


@pytest.mark.parametrize("name", WITH_SCORES)
def test_scores_of_a_functional_model(name):
    layer, case = made(name)
    mode = dict(return_attention_scores=True)
    expected = [case(layer), *case(layer, **mode)[1:]]
    model, arrays = functional(layer, case, **mode)
    pairs = zip(
        *map(keras.tree.flatten, (model(arrays), expected)), strict=True
    )
    for a, b in pairs:
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), atol=1e-5)


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_is_applied_in_training_only(name):
    layer, case = made(name)
    default, training, again = (
        to_numpy(case(layer, **mode))
        for mode in ({}, {"training": True}, {"training": True})
    )
    assert np.abs(training - default).max() > 0.1
    assert np.abs(training - again).max() > 0.1

    layer, case = made(name, dropout=0.0)
    np.testing.assert_allclose(
        to_numpy(case(layer, training=True)), default, atol=1e-5
    )


@pytest.mark.parametrize("policy", (POLICIES[0], POLICIES[-1]))
@pytest.mark.parametrize(
    "name", sorted(set(WITH_SCORES) - {"Encoder", "Decoder"})
)
def test_gradients_through_masked_rows_are_finite(name, policy):
    layer, case = made(name, policy)
    x = keras.Variable(case.inputs[0])

    def loss():
        output = layer(ops.convert_to_tensor(x), *case.inputs[1:])
        return ops.sum(ops.square(ops.cast(output, "float32")))

    for gradient in gradients(loss, [x, *layer.trainable_variables]):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0
