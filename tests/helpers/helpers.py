"""What several test files share: tensors, gradients, docstring examples."""

import doctest
import socket

import keras
import numpy as np
import pytest
from keras import ops

BACKEND = keras.backend.backend()
# `make test` runs these cases on TensorFlow only.
SLOW_ELSEWHERE = () if BACKEND == "tensorflow" else pytest.mark.slow
# For what JAX and PyTorch cannot break: it has no computation of their own.
TENSORFLOW_ONLY = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="shown on TensorFlow"
)
POLICIES = [
    "float32",
    pytest.param("mixed_bfloat16", marks=SLOW_ELSEWHERE),
    pytest.param("mixed_float16", marks=SLOW_ELSEWHERE),
]
# The largest relative error of one rounding.
ROUNDING = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def tolerance(policy, operations):
    """Returns the limit of an error: four times the sum of the roundings.

    Args:
        policy: Name of a dtype or of a mixed policy.
        operations: Number of successive roundings of values of about 1. It is
            at least 40 in float32, where sums and functions are rounded too.
    """
    dtype = policy.removeprefix("mixed_")
    if dtype == "float32":
        operations = max(operations, 40)
    return 4 * operations * ROUNDING[dtype]


def to_numpy(x):
    """Returns a float64 array for any tensor, bfloat16 included."""
    x = ops.cast(ops.convert_to_tensor(x), "float32")
    return ops.convert_to_numpy(x).astype("float64")


def dtype_of(x):
    """Returns the name of a tensor's dtype on any backend."""
    return keras.backend.standardize_dtype(x.dtype)


def normal(*shape, seed=0):
    """Returns values that every dtype of POLICIES represents exactly."""
    values = np.random.default_rng(seed).normal(size=shape)
    return (np.round(values * 16) / 16).astype("float32")


def randomise(layer, seed=0):
    """Assigns random values to all weights, biases and norms included."""
    random = np.random.default_rng(seed)
    for variable in layer.weights:
        noise = random.normal(size=variable.shape)
        centre = 1.0 if variable.path.endswith("gamma") else 0.0
        variable.assign(centre + 0.3 * noise)


def weights_by_path(layer):
    """Returns `{path below the layer: float64 array}`."""
    return {w.path.split("/", 1)[1]: to_numpy(w) for w in layer.weights}


def gradients(function, variables):
    """Returns the backend's gradients of a scalar `function()` as arrays."""
    values = [variable.value for variable in variables]
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            result = function()
        found = tape.gradient(result, values)
    elif BACKEND == "jax":
        import jax

        def stateless(values):
            mapping = list(zip(variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                return function()

        found = compiled(jax.grad(stateless))(values)
    else:
        import torch

        found = torch.autograd.grad(function(), values)
    return [to_numpy(gradient) for gradient in found]


def compiled(function):
    """Returns the function, on JAX compiled: op by op takes five times."""
    if BACKEND != "jax":
        return function
    import jax

    return jax.jit(function)


def assert_same_translations(ours, theirs):
    """Batches of different shapes are summed in a different order."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.texts == other.texts and one[2:] == other[2:]
        np.testing.assert_allclose(one.scores, other.scores, 1e-4, 1e-5)


def check_examples(module):
    """Runs the docstring examples of a module, of which there must be some."""
    failed, run = doctest.testmod(module)
    assert run and not failed


def free_ports(count):
    """Returns ports of this machine that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for free in sockets:
        free.bind(("localhost", 0))
    ports = [free.getsockname()[1] for free in sockets]
    for free in sockets:
        free.close()
    return ports
