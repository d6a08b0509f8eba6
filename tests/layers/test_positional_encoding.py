import numpy as np
import numpy_reference as reference
import pytest
from helpers import BACKEND, dtype_of, normal, to_numpy, tolerance

from keras_transformer.layers import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
)


@pytest.mark.parametrize(
    ("d_model", "policy"), ((7, "float32"), (512, "mixed_bfloat16"))
)
def test_sinusoids_are_the_papers_in_float32(d_model, policy):
    encoding = SinusoidalPositionalEncoding(dtype=policy)
    encoding.build((None, None, d_model))
    vectors = encoding.vectors(np.arange(1000))
    assert dtype_of(vectors) == "float32"
    np.testing.assert_allclose(
        to_numpy(vectors),
        reference.sinusoids(1000, d_model),
        atol=tolerance("float32", 2 * 1000),
    )
    assert not encoding.weights


def test_sine_and_cosine_are_interleaved():
    encoding = SinusoidalPositionalEncoding()
    row = to_numpy(encoding(np.zeros((1, 2, 4), "float32")))[0, 1]
    expected = [np.sin(1), np.cos(1), np.sin(0.01), np.cos(0.01)]
    np.testing.assert_allclose(row, expected, atol=1e-5)


def test_learned_vectors_are_one_trainable_table():
    encoding = LearnedPositionalEncoding(max_length=5)
    x = normal(2, 5, 8)
    output = to_numpy(encoding(x))
    (table,) = encoding.trainable_weights
    assert tuple(table.shape) == (5, 8)
    np.testing.assert_allclose(output - x, [to_numpy(table)] * 2, atol=1e-5)
    with pytest.raises(ValueError, match="max_length=5"):
        encoding(normal(2, 6, 8))


@pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow's own check")
def test_tensorflow_rejects_positions_beyond_the_table_in_a_graph():
    import tensorflow as tf

    encoding = LearnedPositionalEncoding(max_length=5)
    encoding.build((None, None, 8))

    # The length is unknown when the function is traced.
    @tf.function(input_signature=[tf.TensorSpec([None, None, 8])])
    def encode(x):
        return encoding(x)

    with tf.device("CPU"):
        assert encode(normal(2, 5, 8)).shape == (2, 5, 8)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 5\)"):
            encode(normal(2, 6, 8))


@pytest.mark.parametrize(
    ("options", "d_model"),
    [
        (dict(endpoint=True), 2),
        (dict(endpoint=True), 7),
        (dict(layout="halves"), 7),
    ],
)
def test_layouts_with_pairs_need_an_even_width(options, d_model):
    encoding = SinusoidalPositionalEncoding(**options)
    with pytest.raises(ValueError, match=f"even width.*{d_model}"):
        encoding.build((None, None, d_model))
