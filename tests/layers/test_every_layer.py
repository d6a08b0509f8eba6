"""What every layer must fulfil, whatever it computes."""

import importlib
import warnings
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy_reference as reference
import pytest
from helpers import (
    POLICIES,
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
        dict(**BLOCK, num_layers=2),
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
        dict(**BLOCK, num_layers=2),
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
# A Residual refuses to be part of a functional model.
FUNCTIONAL = sorted(set(CASES) - {"Residual"})


def made(name, policy="float32", **changes):
    """A built layer with random weights, and its case."""
    case = CASES[name]
    layer = case.layer(**{**case.arguments, **changes}, dtype=policy)
    case(layer)
    randomise(layer)
    return layer, case


def test_every_layer_has_a_case():
    public = {name for name in layers.__all__ if name[0].isupper()}
    assert set(CASES) == public


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
def test_weights_are_float32_and_trainable_under_a_mixed_policy(name):
    layer, _ = made(name, "mixed_bfloat16")
    assert all(weight.dtype == "float32" for weight in layer.weights)
    assert len(layer.trainable_weights) == len(layer.weights)


@pytest.mark.parametrize("name", CASES)
def test_config_holds_the_arguments_of_init(name):
    case = CASES[name]
    layer = case.layer(
        **case.arguments, name="mine", trainable=False, dtype="mixed_bfloat16"
    )
    case(layer)
    config = layer.get_config()
    base = set(keras.layers.Layer().get_config())
    assert set(config) - base == set(case.arguments)
    assert {key: config[key] for key in case.arguments} == case.arguments

    copy = case.layer.from_config(config)
    assert (copy.name, copy.trainable) == ("mine", False)
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert copy.get_config() == config
    case(copy)
    assert [w.shape for w in copy.weights] == [w.shape for w in layer.weights]


@pytest.mark.parametrize("name", CASES)
def test_all_weights_of_a_layer_that_is_not_trainable_are_frozen(name):
    case = CASES[name]
    layer = case.layer(**case.arguments, trainable=False)
    case(layer)
    # A model asks its weights, and not the layer.
    assert [weight.trainable for weight in layer.weights] == [False] * len(
        layer.weights
    )
    layer.trainable = True
    assert len(layer.trainable_weights) == len(layer.weights)


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_model_is_saved_and_loaded(name, tmp_path):
    layer, case = made(name, "mixed_bfloat16")
    inputs = [
        keras.Input(
            # Batch size and length are unknown, the width is fixed.
            (None, *x.shape[2:]) if x.dtype != bool else (None, None),
            dtype=str(x.dtype),
        )
        for x in case.inputs
    ]
    model = keras.Model(inputs, layer(*inputs))
    # Keras requires the same batch size of every input.
    batch = len(case.inputs[0])
    arrays = [np.broadcast_to(x, (batch, *x.shape[1:])) for x in case.inputs]
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


WITH_SCORES = sorted(n for n, c in CASES.items() if "num_heads" in c.arguments)


@pytest.mark.parametrize("name", WITH_SCORES)
def test_scores_of_a_new_layer_and_in_a_functional_model(name):
    case = CASES[name]
    new = case.layer(**case.arguments)
    new(*case.inputs, return_attention_scores=True)  # builds it
    layer, _ = made(name)
    new.set_weights(layer.get_weights())
    expected = [
        case(layer),
        *layer(*case.inputs, return_attention_scores=True)[1:],
    ]
    # Sizes are unknown, where the layers do not need them.
    inputs = [
        keras.Input(
            (None, *x.shape[2:]) if x.dtype != bool else (None, None),
            dtype=str(x.dtype),
        )
        for x in case.inputs
    ]
    model = keras.Model(inputs, new(*inputs, return_attention_scores=True))
    batch = len(case.inputs[0])
    arrays = [np.broadcast_to(x, (batch, *x.shape[1:])) for x in case.inputs]
    found = model(arrays)
    assert len(found) == len(expected)
    for a, b in zip(*map(keras.tree.flatten, (found, expected)), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "method"),
    (
        (layers.MultiHeadAttention(2), "project_memory"),
        (layers.MultiHeadAttention(2), "project_query"),
        (layers.SinusoidalPositionalEncoding(), "vectors"),
        (layers.LearnedPositionalEncoding(9), "vectors"),
    ),
)
def test_methods_that_need_a_built_layer_say_so(layer, method):
    with pytest.raises(ValueError, match="layer without weights"):
        getattr(layer, method)(X)
    layer(*[X] * (1 + method.startswith("project")))
    with pytest.raises(ValueError, match="symbolic tensor"):
        getattr(layer, method)(keras.Input((T, D)))


@keras.saving.register_keras_serializable(package="tests")
class Classifier(keras.Model):
    """A user's own model with layers of the library."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = layers.TiedEmbedding(7, D, dtype=self.dtype_policy)
        self.positions = layers.LearnedPositionalEncoding(
            6, dtype=self.dtype_policy
        )
        self.encoder = layers.Encoder(2, 2, 12, dtype=self.dtype_policy)

    def call(self, ids):
        x = self.encoder(self.positions(self.embedding(ids)))
        return self.embedding(x, reverse=True)


def test_subclassed_model_is_saved_and_loaded(tmp_path):
    model = Classifier(dtype="mixed_bfloat16")
    ids = np.array([[0, 6, 3, 5]], "int32")
    model(ids)
    randomise(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(to_numpy(loaded(ids)), to_numpy(model(ids)))


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_is_applied_in_training_only(name):
    layer, case = made(name)
    default, inference, training, again = (
        to_numpy(case(layer, **mode))
        for mode in (
            {},
            {"training": False},
            {"training": True},
            {"training": True},
        )
    )
    np.testing.assert_array_equal(default, inference)
    assert np.abs(training - inference).max() > 0.1
    assert np.abs(training - again).max() > 0.1

    layer, case = made(name, dropout=0.0)
    np.testing.assert_allclose(
        to_numpy(case(layer, training=True)), inference, atol=1e-5
    )


@pytest.mark.parametrize(
    "name",
    (
        "MultiHeadAttention",
        "RestrictedSelfAttention",
        "EncoderLayer",
        "DecoderLayer",
    ),
)
@pytest.mark.parametrize("policy", ("float32", "mixed_float16"))
def test_gradients_through_masked_rows_are_finite(name, policy):
    layer, case = made(name, policy)
    x = keras.Variable(case.inputs[0])

    def loss():
        output = layer(ops.convert_to_tensor(x), *case.inputs[1:])
        return ops.sum(ops.square(ops.cast(output, "float32")))

    for gradient in gradients(loss, [x, *layer.trainable_variables]):
        assert np.isfinite(gradient).all()
        assert np.abs(gradient).max() > 0
