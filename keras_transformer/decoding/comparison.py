"""Compares decoding step by step with decoding at once, for replaced parts."""

import contextlib
import weakref
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer import layers

# By how much logits may differ, relative to the largest. A part that cannot
# be decoded step by step gives others.
_TOLERANCE = {"float32": 0.005, "float64": 0.005}
_TOLERANCE_OF_HALF = 0.05

_OURS = {getattr(layers, name) for name in layers.__all__ if name[0].isupper()}
_compared: weakref.WeakSet = weakref.WeakSet()  # models


def compare_once(model: Any, decoder_class: type) -> None:
    """Raises a ValueError if a model's steps and its full pass differ.

    A model is compared once, by three random tokens, and only if a part of
    its decoder is of another class than this library's.

    Args:
        model: A `Transformer`.
        decoder_class: `StepDecoder`.
    """
    replaced = _replaced_parts(model)
    if not replaced or model in _compared or _is_traced(model):
        return
    _compared.add(model)  # now, because the decoder below asks again
    try:
        with _outside_of_graphs():
            difference, largest = _compare(model, decoder_class)
    except BaseException:
        _compared.discard(model)
        raise
    tolerance = _TOLERANCE.get(model.compute_dtype, _TOLERANCE_OF_HALF)
    if difference > tolerance * largest:
        _compared.discard(model)
        raise ValueError(
            "Decoding step by step would be wrong for this model: for three "
            f"random tokens, its logits differ by up to {difference:.2g} from "
            f"those of all positions at once, which reach {largest:.2g}. "
            "A part that was replaced uses more than a step has: an attention "
            "has one query, all keys and values, and the `positions` of both, "
            "which project_memory, project_query, unnormalized_scores and "
            "attend are given; other parts have one position. See 'Change a "
            f"sub-layer' in docs/layers.md. Received: {', '.join(replaced)}"
        )


def _replaced_parts(model: Any) -> list[str]:
    """Returns the names of the decoder's classes that are not ours."""
    decoder = model.decoder
    classes = {
        decoder.attention_class,
        decoder.feed_forward_class,
        decoder.residual_class,
        type(model.target_embedding),
        type(model.target_positions),
    }
    return sorted(cls.__name__ for cls in classes - _OURS)


def _is_traced(model: Any) -> bool:
    """Returns whether JAX traces a function of the weights, without values."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return isinstance(model.weights[0].value, jax.core.Tracer)


def _outside_of_graphs() -> Any:
    """Returns a context in which operations run at once."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.init_scope()
    if keras.backend.backend() == "jax":
        import jax

        return jax.ensure_compile_time_eval()
    return contextlib.nullcontext()


def _compare(model: Any, decoder_class: type) -> tuple[float, float]:
    """Returns the largest difference of logits, and the largest logit.

    Two hypotheses change places. Those of the last step are compared.
    """
    config = model.config
    sizes = (config.vocab_size, config.source_vocab_size or config.vocab_size)
    tokens = np.arange(min(sizes), dtype="int32")
    tokens = tokens[tokens != config.pad_id]
    source, *steps = np.random.default_rng(0).choice(tokens, (5, 2))
    parents = np.array([[0, 0], [1, 0], [1, 1]], "int32")
    decoder = decoder_class(model, max_length=3, beam_size=2)
    cache = decoder.init_cache(model.encode(source[None]))
    for index, ids in enumerate(steps[:3]):
        logits, cache = decoder.decode_step(
            *map(ops.convert_to_tensor, (ids[None], parents[index][None])),
            cache,
            index,
        )
    first, second, last = steps[:3]
    targets = [[first[0], second[1], token] for token in last]
    memory = model.encode(np.stack([source, source]))
    at_once = model.decode(np.array(targets, "int32"), memory)[:, -1]
    stepwise, expected = (
        ops.convert_to_numpy(ops.cast(x, "float32"))
        for x in (logits[0], at_once)
    )
    return np.abs(stepwise - expected).max(), np.abs(expected).max()
