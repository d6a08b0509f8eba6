import numpy as np
import pytest
from helpers import randomise, to_numpy

import keras_transformer as kt
from keras_transformer.weights import assign, named_weights

CONFIG = kt.TransformerConfig(
    vocab_size=11, num_layers=1, d_model=4, d_ff=6, num_heads=2, max_length=5
)


def arrays(model):
    return {name: to_numpy(w) for name, w in named_weights(model).items()}


def test_names():
    names = named_weights(kt.Transformer(CONFIG, name="mine"))
    assert next(iter(names)) == "embedding/embeddings"
    assert {name.split("/")[0] for name in names} == {
        "embedding",
        "encoder",
        "decoder",
    }
    kernel = names["encoder/layer_0/self_attention/query/kernel"]
    assert tuple(kernel.shape) == (4, 4)
    assert "decoder/layer_0/feed_forward_norm/norm/gamma" in names
    assert len(names) == 1 + 4 + 4 + 4 + 8 + 4 + 6


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_values_of_a_different_model_are_assigned(dtype):
    model, other = kt.Transformer(CONFIG), kt.Transformer(CONFIG, dtype=dtype)
    randomise(model)
    expected = arrays(model)
    assign(other, expected)
    rtol = {"float32": 0, "bfloat16": 1 / 128}[dtype]
    for name, values in arrays(other).items():
        np.testing.assert_allclose(values, expected[name], rtol)


def test_everything_that_is_wrong_is_reported_and_nothing_assigned():
    model = kt.Transformer(CONFIG)
    before = arrays(model)
    values = {name: value + 1 for name, value in before.items()}
    del values["encoder/layer_0/self_attention/key/kernel"]
    values["encoder/layer_1/self_attention/key/kernel"] = np.zeros((4, 4))
    values["embedding/embeddings"] = np.zeros((4, 11))
    with pytest.raises(kt.InputError) as error:
        assign(model, values)
    assert sorted(str(error.value).split("\n")[1:]) == [
        "embedding/embeddings: shape [4, 11] instead of [11, 4]",
        "encoder/layer_0/self_attention/key/kernel: missing",
        "encoder/layer_1/self_attention/key/kernel: the model has no such "
        "weight",
    ]
    for name, value in arrays(model).items():
        np.testing.assert_array_equal(value, before[name])


def test_values_that_are_not_finite_floats_are_reported():
    model = kt.Transformer(CONFIG)
    values = arrays(model)
    first, second, third, fourth = list(values)[:4]
    values[first] = values[first].astype("int8")
    values[second] = np.full_like(values[second], np.nan)
    values[third] = values[third].astype("float64")
    values[third][-1] = np.inf
    values[fourth] = values[fourth].astype("float16")
    with pytest.raises(kt.InputError) as error:
        assign(model, values)
    assert str(error.value).split("\n")[1:] == [
        f"{first}: int8 instead of floats",
        f"{second}: NaN or infinite values",
        f"{third}: NaN or infinite values",
    ]
