"""Compares decoding step by step with decoding at once."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

_OURS = "keras_transformer."


# The largest difference that is accepted, relative to the largest logit. On CPU
# the rounding of right code, in models up to base, makes 3e-6 in float32, 1e-2
# in bfloat16 and 2e-3 in float16.
_TOLERANCES = {
    "float32": 1e-4,
    "float64": 1e-4,
    "bfloat16": 0.03,
    "float16": 0.01,
}


def compare_steps(model: Any, decoder_class: type) -> None:
    """Raises ValueError if a replaced part of a model needs more than a step.

    Logits after three random tokens are compared.
    """
    decoder = model.decoder
    parts = [model, model.target_embedding, model.target_positions, decoder]
    classes = {type(part) for part in parts + decoder.layers}
    classes.add(decoder.attention_class)
    classes.add(decoder.feed_forward_class)
    classes.add(decoder.residual_class)
    replaced = [x for x in classes if not x.__module__.startswith(_OURS)]
    if not replaced or _is_traced(model):
        return
    with _eager_and_exact():
        difference, largest = _compare(model, decoder_class)
    # `not`, because any comparison with NaN is False.
    if not difference <= _TOLERANCES[model.compute_dtype] * largest:
        names = sorted(x.__name__ for x in replaced)
        raise ValueError(
            "Step by step, this model must compute what it computes for all "
            f"positions at once. Received: {', '.join(names)}, with logits "
            f"up to {largest:.2g} that differ by {difference:.2g}. See "
            "'Change a sub-layer' in docs/layers.md."
        )


def _is_traced(model: Any) -> bool:
    """Whether JAX is tracing, so that weights have no values."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return isinstance(model.weights[0].value, jax.core.Tracer)


@contextlib.contextmanager
def _eager_and_exact() -> Iterator[None]:
    """Runs operations outside of graphs, and on GPUs without TF32.

    TF32 rounds to 10 bits, so that right code would differ as wrong code does.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        settings = tf.config.experimental
        has_tf32 = settings.tensor_float_32_execution_enabled()
        settings.enable_tensor_float_32_execution(False)
        try:
            with tf.init_scope():
                yield
        finally:
            settings.enable_tensor_float_32_execution(has_tf32)
    elif keras.backend.backend() == "jax":
        import jax

        exact = jax.default_matmul_precision("highest")
        with jax.ensure_compile_time_eval(), exact:
            yield
    else:
        yield


def _compare(model: Any, decoder_class: type) -> tuple[float, float]:
    """Returns the largest difference of logits, and the largest logit."""
    config = model.config
    sizes = (config.vocab_size, config.source_vocab_size or config.vocab_size)
    tokens = np.arange(min(sizes), dtype="int32")
    tokens = tokens[tokens != config.pad_id]
    source, *steps = np.random.default_rng(0).choice(tokens, (4, 2))
    source = source[None, : config.max_length]
    steps = steps[: config.max_length]
    parents = np.array([[0, 0], [1, 0], [1, 1]], "int32")  # two swap
    decoder = decoder_class(model, len(steps), beam_size=2, compare=False)
    cache = decoder.init_cache(model.encode(source))
    targets = np.zeros((2, 0), "int32")
    for index, ids in enumerate(steps):
        past = parents[index]
        logits, cache = decoder.decode_step(
            ops.convert_to_tensor(ids[None]),
            ops.convert_to_tensor(past[None]),
            cache,
            index,
        )
        targets = np.concatenate([targets[past], ids[:, None]], axis=1)
    sources = np.concatenate([source, source])
    at_once = model({"source": sources, "target": targets})[:, -1]
    stepwise = ops.convert_to_numpy(ops.cast(logits[0], "float32"))
    expected = ops.convert_to_numpy(ops.cast(at_once, "float32"))
    # A token that is forbidden has the logit -infinity in both.
    differ = stepwise != expected
    differences = np.abs(stepwise[differ] - expected[differ])
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return differences.max(initial=0.0), largest
