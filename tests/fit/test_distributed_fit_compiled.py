"""`jit_compile`: XLA compiles what each replica computes.

Three replicas and two workers are in tests/train/test_strategy.py.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from helpers import tolerance
from replicas import compiled_model, eager_model, global_batches

import keras_transformer as kt
from keras_transformer.train.strategy import open_strategy

# One shape, since XLA takes seconds for each: five rows, which neither two
# replicas nor two parts divide.
SHAPE = (3, 5, 7)


def train(strategy, **options):
    """Returns the logs of three steps, and the weights after them."""
    random = np.random.default_rng(0)
    source, target, labels = random.integers(4, 40, (3, *SHAPE), "int32")
    for ids in (source, target, labels):
        ids[:, np.arange(5)[:, None] + 2 < np.arange(7)] = 0
    data = tf.data.Dataset.from_tensor_slices(
        ({"source": source, "target": target}, labels)
    )
    model = compiled_model(open_strategy(strategy), **options)
    steps = []
    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: steps.append(dict(logs))
    )
    model.fit(data, verbose=0, shuffle=False, callbacks=[callback])
    return steps, model.get_weights()


@functools.cache
def graph(**options):
    """What the graph of one replica gives."""
    return train("single", **options)


def differences(found, expected):
    """Returns the largest one of the logs, and the mean over all weights.

    Adam moves a weight as far if its gradient is tiny, and perhaps rounded to
    another sign.
    """
    steps = [
        abs(ours[name] - theirs[name])
        for ours, theirs in zip(found[0], expected[0], strict=True)
        for name in theirs
    ]
    ours, theirs = (
        np.concatenate([weight.ravel() for weight in weights])
        for _, weights in (found, expected)
    )
    return max(steps), np.abs(ours - theirs).mean()


SLOW = pytest.mark.slow  # each replica has its own program for each shape


@pytest.mark.parametrize(
    ("strategy", "parts", "clip_norm"),
    [
        ("single", 1, 0.5),
        pytest.param("single", 2, 0.5, marks=SLOW),
        pytest.param("mirrored", 1, None, marks=SLOW),
        pytest.param("mirrored", 2, 0.5, marks=SLOW),
    ],
)
def test_compiled_by_xla_the_steps_are_those_of_the_graph(
    strategy, parts, clip_norm
):
    expected = graph(clip_norm=clip_norm)
    found = train(
        strategy,
        clip_norm=clip_norm,
        gradient_accumulation_steps=parts,
        jit_compile=True,
    )
    logs, weights = differences(found, expected)
    assert logs < 1e-4 and weights < 1e-5
    # The test would notice a difference, and clipping took effect.
    losses = [log["loss"] for log in expected[0]]
    assert max(losses) - min(losses) > 0.01
    assert min(log["gradient_norm"] for log in expected[0]) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ("single", "mirrored"))
@pytest.mark.parametrize(
    # Adam moves weights by 0.02 in three steps.
    ("dtype", "of_weights"),
    [("mixed_bfloat16", 2e-3), ("mixed_float16", 2.5e-4)],
)
def test_compiled_by_xla_in_mixed_precision(strategy, dtype, of_weights):
    """XLA rounds other intermediate values than the graph."""
    options = dict(dtype=dtype, clip_norm=0.5)
    found = train(strategy, jit_compile=True, **options)
    logs, weights = differences(found, graph(**options))
    assert logs < tolerance(dtype, 4)
    assert weights < of_weights


class Printed(kt.Transformer):
    """Does what XLA cannot."""

    def encode(self, source, training=None):
        tf.strings.as_string(source)
        return super().encode(source, training)


def test_what_is_compiled_is_the_pass_alone():
    batch = next(global_batches())
    plain, xla = (
        eager_model(Printed, jit_compile=value) for value in ("auto", True)
    )
    losses = [plain.train_on_batch(*batch), plain.test_on_batch(*batch)]
    # Neither validation nor the step around the pass is compiled.
    assert xla.test_on_batch(*batch) == pytest.approx(losses[1], rel=1e-5)
    xla.run_eagerly = False
    with pytest.raises(tf.errors.OpError, match="XLA_CPU_JIT: AsString"):
        xla.train_on_batch(*batch)


def test_the_choice_is_saved_with_the_model(tmp_path):
    model = compiled_model(open_strategy("single"), jit_compile=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        assert each.get_compile_config()["jit_compile"] is True
        assert not each.jit_compile  # of the whole step
