"""Compares decoding step by step with decoding at once."""

import contextlib
from typing import Any

import keras
import numpy as np
from keras import ops

_OURS = "keras_transformer."


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
    names = sorted(x.__name__ for x in replaced)
    if not replaced or _is_traced(model):
        return
    with _outside_of_graphs():
        difference, largest = _compare(model, decoder_class)
    is_exact = model.compute_dtype in ("float32", "float64")
    # `not`, because any comparison with NaN is False.
    if not difference <= (0.005 if is_exact else 0.05) * largest:
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


def _outside_of_graphs() -> Any:
    """Returns a context in which operations run eagerly."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.init_scope()
    if keras.backend.backend() == "jax":
        import jax

        return jax.ensure_compile_time_eval()
    return contextlib.nullcontext()


def _compare(model: Any, decoder_class: type) -> tuple[float, float]:
    """Returns the largest difference of logits, and the largest logit."""
    config = model.config
    sizes = (config.vocab_size, config.source_vocab_size or config.vocab_size)
    tokens = np.arange(min(sizes), dtype="int32")
    tokens = tokens[tokens != config.pad_id]
    source, *steps = np.random.default_rng(0).choice(tokens, (4, 2))
    source, steps = source[: config.max_length], steps[: config.max_length]
    parents = np.array([[0, 0], [1, 0], [1, 1]], "int32")  # two swap
    decoder = decoder_class(model, len(steps), beam_size=2, compare=False)
    cache = decoder.init_cache(model.encode(source[None]))
    targets = np.zeros((2, 0), "int32")
    for index, (ids, past) in enumerate(zip(steps, parents, strict=False)):
        logits, cache = decoder.decode_step(
            *map(ops.convert_to_tensor, (ids[None], past[None])), cache, index
        )
        targets = np.concatenate([targets[past], ids[:, None]], axis=1)
    sources = np.stack([source, source])
    at_once = model({"source": sources, "target": targets})[:, -1]
    stepwise, expected = (
        ops.convert_to_numpy(ops.cast(x, "float32"))
        for x in (logits[0], at_once)
    )
    # A token that is forbidden has the logit -infinity in both.
    differ = stepwise != expected
    differences = np.abs(stepwise[differ] - expected[differ])
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return differences.max(initial=0.0), largest
