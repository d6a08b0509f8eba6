"""`jit_compile`: XLA compiles what each replica computes."""

import numpy as np
import pytest
import tensorflow as tf
from replicas import compiled_model, eager_model, global_batches

import keras_transformer as kt
from keras_transformer.train.strategy import open_strategy


def train(strategy, **options):
    """Returns losses and norms of three steps, and the weights after them.

    One shape, since XLA takes seconds for each: five rows, which neither two
    replicas nor two parts divide.
    """
    random = np.random.default_rng(0)
    source, target, labels = random.integers(4, 40, (3, 3, 5, 7), "int32")
    for ids in (source, target, labels):
        ids[:, np.arange(5)[:, None] + 2 < np.arange(7)] = 0
    batches = tf.data.Dataset.from_tensor_slices(
        ({"source": source, "target": target}, labels)
    )
    model = compiled_model(open_strategy(strategy), clip_norm=0.5, **options)
    logs = [
        model.fit(batches.skip(i).take(1), verbose=0, shuffle=False).history
        for i in range(3)
    ]
    steps = [[log["loss"][0], log["gradient_norm"][0]] for log in logs]
    weights = np.concatenate([np.ravel(w) for w in model.get_weights()])
    return np.array(steps), weights


@pytest.mark.parametrize(
    ("strategy", "dtype", "limits"),
    [
        ("single", "float32", (1e-4, 1e-5)),
        pytest.param(
            "mirrored",
            "mixed_bfloat16",
            (0.1, 2e-3),  # Adam moves weights by 0.02 in three steps
            marks=pytest.mark.slow,  # each replica has its own program
        ),
    ],
)
def test_compiled_by_xla_the_steps_are_the_same(strategy, dtype, limits):
    steps, weights = train("single", dtype=dtype, run_eagerly=True)
    compiled_steps, compiled_weights = train(
        strategy,
        dtype=dtype,
        jit_compile=True,
        gradient_accumulation_steps=1 if strategy == "single" else 2,
    )
    assert abs(compiled_steps - steps).max() < limits[0]
    # Adam moves a weight as far if its gradient is tiny, and perhaps rounded
    # to the other sign.
    assert abs(compiled_weights - weights).mean() < limits[1]
    # The test would notice a difference, and clipping took effect.
    assert np.ptp(steps[:, 0]) > 0.01
    assert steps[:, 1].min() > 0.5


class Printed(kt.Transformer):
    """Computes something that XLA cannot compile."""

    def encode(self, source, training=None):
        tf.strings.as_string(source)
        return super().encode(source, training)


def test_only_the_forward_and_backward_pass_is_compiled():
    batch = next(global_batches())
    plain, xla = (
        eager_model(Printed, jit_compile=value) for value in ("auto", True)
    )
    plain.train_on_batch(*batch)
    expected = plain.test_on_batch(*batch)
    assert xla.test_on_batch(*batch) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(tf.errors.OpError, match="XLA_CPU_JIT: AsString"):
        xla.train_on_batch(*batch)
