"""One decoding step: the next token of every hypothesis.

It runs on every Keras backend, and is independent of the search.

Letters: B = batch, K = hypotheses decoded side by side (the beam), N = B * K,
S = source length, P = positions decoded so far, H = heads, w = width of a
head, V = vocabulary.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.decoding import operations, parts
from keras_transformer.support.errors import InputError

# The largest difference that is accepted, relative to the largest logit. On CPU
# the rounding of right code, in models up to base, makes 3e-6 in float32, 1e-2
# in bfloat16 and 2e-3 in float16.
_TOLERANCES = dict(float32=1e-4, float64=1e-4, bfloat16=0.03, float16=0.01)


class DecoderCache(NamedTuple):
    """The values that decoding keeps between steps, outside of layers.

    The cache contains the keys of all K hypotheses side by side, and is never
    reordered when hypotheses swap; `ancestry` marks each hypothesis' own past.
    An `attention_window` limits P.
    """

    layers: tuple[parts.KeysAndValues, ...]  # of each layer, [B, H, P*K, w]
    ancestry: Any  # [B, K, P*K] boolean, True = own past
    memory: tuple[parts.KeysAndValues, ...]  # of each layer, [B, H, S, w]
    memory_mask: Any  # [B, 1, 1, S] boolean, True where there is no padding


class StepDecoder:
    """Decodes token by token, with the weights that a model has now.

    Args:
        model: A `Transformer`.
        max_length: Maximum number of positions, an integer or a scalar tensor.
        beam_size: K, an integer or a scalar tensor.
        heads: Replaces `HeadLayout`, for the export for LiteRT.
        compare: Whether to verify replaced classes, by decoding three tokens.

    Attributes:
        embed: Embeds ids; see `parts.PreparedEmbedding`.
        layers: The decoder's layers, each a `parts.PreparedLayer`.
        states: Returns what the output matrix multiplies, `[N, d_model]`.

    Raises:
        InputError: If steps compute something different from `call`.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocab_size=100)
    >>> model = kt.Transformer(config)
    >>> decoder = kt.decoding.StepDecoder(model, max_length=5, beam_size=1)
    >>> cache = decoder.init_cache(model.encode(np.array([[7, 8, 3]])))
    >>> start = np.array([[2]]), np.array([[0]])
    >>> logits, cache = decoder.decode_step(*start, cache, 0)
    >>> tuple(logits.shape)
    (1, 1, 100)
    """

    def __init__(
        self,
        model: Any,
        max_length: Any,
        beam_size: Any,
        heads: operations.HeadLayout | None = None,
        compare: bool = True,
    ) -> None:
        if compare:
            compare_steps(model)
        dtype = model.compute_dtype
        num_heads = model.config.decoder.num_heads
        heads = heads or operations.HeadLayout(beam_size, num_heads)
        self._beam_size = beam_size
        self._window = model.config.attention_window
        self.embed = parts.PreparedEmbedding(
            model.target_embedding, model.target_positions, max_length, dtype
        )
        self.layers = [
            parts.PreparedLayer(layer, heads, dtype)
            for layer in model.decoder.layers
        ]
        self.states = parts.prepare_normalization(model.decoder.final_norm)
        self._project = parts.prepare_logits(model, beam_size)

    def init_cache(self, memory: Any) -> DecoderCache:
        """Returns the cache before the first step.

        Args:
            memory: The encoded sources, from `Transformer.encode`.
        """
        batch = ops.shape(memory.states)[0]
        pairs = [x.cross_attention.project_memory(memory) for x in self.layers]
        return DecoderCache(
            layers=tuple((k[:, :, :0], v[:, :, :0]) for k, v in pairs),
            ancestry=ops.zeros((batch, self._beam_size, 0), dtype="bool"),
            memory=tuple(pairs),
            memory_mask=ops.expand_dims(memory.mask, 1),
        )

    def decode_step(
        self, ids: Any, parents: Any, cache: DecoderCache, index: Any
    ) -> tuple[Any, DecoderCache]:
        """Decodes one more token of each hypothesis, with a growing cache.

        Args:
            ids: `[B, K]`, the token at position `index` of each hypothesis.
            parents: `[B, K]`, which hypothesis of the previous step each one
                continues. Ignored at the first step.
            cache: From `init_cache` or the previous step.
            index: P, the position of `ids`; 0 for the first.

        Returns:
            Logits `[B, K, V]` of the next token, and the new cache.
        """
        past = operations.take_parents(cache.ancestry, parents)
        slots = ops.arange(ops.shape(parents)[1], dtype=parents.dtype)
        own = ops.zeros_like(parents)[:, :, None] + slots[:, None]
        ancestry = self._append(past, ops.equal(own, slots))  # itself, too
        mask = ops.expand_dims(ancestry, 1)

        x = self.embed(ids, index)
        layers = []
        for number in range(len(self.layers)):
            x, pair = self._extend(number, x, cache, mask, index)
            layers.append(pair)
        cache = cache._replace(layers=tuple(layers), ancestry=ancestry)
        return self.logits(x), cache

    def _extend(
        self, number: int, x: Any, cache: DecoderCache, mask: Any, index: Any
    ) -> tuple[Any, parts.KeysAndValues]:
        """Returns the output of a layer, and its keys and values until now."""
        layer = self.layers[number]
        attention = layer.self_attention
        key, value = cache.layers[number]

        def attend_to_self(x: Any) -> Any:
            nonlocal key, value
            query, new_key, new_value = attention.project(x, index)
            key = self._append(key, new_key)
            value = self._append(value, new_value)
            return attention.attend(query, (key, value), mask, index)

        memory = cache.memory[number]
        x = layer(x, attend_to_self, memory, cache.memory_mask, index)
        return x, (key, value)

    def _append(self, past: Any, new: Any) -> Any:
        """Adds a position on axis 2; returns those in the window."""
        positions = ops.concatenate([past, new], axis=2)
        if self._window is None:
            return positions
        return positions[:, :, -self._window * self._beam_size :]

    def logits(self, x: Any) -> Any:
        """Returns logits `[B, K, V]` for the last layer's `[N, d_model]`."""
        logits = self._project(self.states(x))
        return operations.to_hypotheses(logits, self._beam_size)


def compare_steps(model: Any) -> None:
    """Raises InputError if a replaced part of a model needs more than a step.

    Logits after three random tokens are compared.
    """
    decoder = model.decoder
    layers = [model, model.target_embedding, model.target_positions, decoder]
    classes = {type(layer) for layer in layers + decoder.layers}
    classes |= {decoder.attention_class, decoder.feed_forward_class}
    classes.add(decoder.residual_class)
    ours = "keras_transformer."
    replaced = [x for x in classes if not x.__module__.startswith(ours)]
    if not replaced or _is_traced(model):
        return
    with _eager_and_exact():
        difference, largest = _compare(model)
    # `not`, because any comparison with NaN is False.
    if not difference <= _TOLERANCES[model.compute_dtype] * largest:
        names = sorted(x.__name__ for x in replaced)
        raise InputError(
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
    with contextlib.ExitStack() as stack:
        if keras.backend.backend() == "tensorflow":
            import tensorflow as tf

            settings = tf.config.experimental
            has_tf32 = settings.tensor_float_32_execution_enabled()
            settings.enable_tensor_float_32_execution(False)
            stack.callback(settings.enable_tensor_float_32_execution, has_tf32)
            stack.enter_context(tf.init_scope())
        elif keras.backend.backend() == "jax":
            import jax

            stack.enter_context(jax.ensure_compile_time_eval())
            stack.enter_context(jax.default_matmul_precision("highest"))
        yield


def _compare(model: Any) -> tuple[float, float]:
    """Returns the largest difference of logits, and the largest logit."""
    config = model.config
    sizes = (config.vocab_size, config.source_vocab_size or config.vocab_size)
    tokens = np.arange(min(sizes), dtype="int32")
    tokens = tokens[tokens != config.pad_id]
    source, *steps = np.random.default_rng(0).choice(tokens, (4, 2))
    source = source[None, : config.max_length]
    steps = steps[: config.max_length]
    parents = np.array([[0, 0], [1, 0], [1, 1]], "int32")  # two swap

    def logits() -> list[Any]:
        decoder = StepDecoder(model, len(steps), beam_size=2, compare=False)
        cache = decoder.init_cache(model.encode(source))
        targets = np.zeros((2, 0), "int32")
        for index, ids in enumerate(steps):
            past = parents[index]
            stepwise, cache = decoder.decode_step(
                ids[None], past[None], cache, index
            )
            targets = np.concatenate([targets[past], ids[:, None]], axis=1)
        sources = np.concatenate([source, source])
        at_once = model({"source": sources, "target": targets})[:, -1]
        return [ops.cast(x, "float32") for x in (stepwise[0], at_once)]

    stepwise, expected = map(
        ops.convert_to_numpy, operations.on_backend([model], logits)()
    )
    # A token that is forbidden has the logit -infinity in both.
    differ = stepwise != expected
    differences = np.abs(stepwise[differ] - expected[differ])
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return differences.max(initial=0.0), largest
