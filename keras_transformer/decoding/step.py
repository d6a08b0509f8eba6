"""One decoding step: the next token of every hypothesis.

It runs on every Keras backend, and is independent of the search.

Letters: B = batch, K = hypotheses decoded side by side (the beam), N = B * K,
S = source length, P = positions decoded so far, H = heads, w = width of a
head, V = vocabulary.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding import backend, parts
from keras_transformer.decoding.comparison import compare_steps
from keras_transformer.decoding.layout import HeadLayout, to_hypotheses


class DecoderCache(NamedTuple):
    """The values that decoding keeps between steps, outside of layers.

    The cache contains the keys of all K hypotheses side by side, and is never
    reordered when hypotheses swap; `ancestry` marks each hypothesis' own past.
    An `attention_window` limits P.
    """

    layers: tuple[parts.Pair, ...]  # of each layer, [B, H, P*K, w]
    ancestry: Any  # [B, K, P*K] boolean, True = own past
    memory: tuple[parts.Pair, ...]  # of each layer, [B, H, S, w]
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
        embed: Embeds ids, a `parts.PreparedEmbedding`.
        layers: The decoder's layers, each a `parts.PreparedLayer`.

    Raises:
        ValueError: If steps compute something different from `call`.

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
        heads: HeadLayout | None = None,
        compare: bool = True,
    ) -> None:
        if compare:
            compare_steps(model, StepDecoder)
        dtype = model.compute_dtype
        if heads is None:
            heads = HeadLayout(beam_size, model.config.decoder.num_heads)
        self._beam_size = beam_size
        self._window = model.config.attention_window
        self.embed = parts.PreparedEmbedding(
            model.target_embedding, model.target_positions, max_length, dtype
        )
        self.layers = [
            parts.PreparedLayer(layer, heads, dtype)
            for layer in model.decoder.layers
        ]
        final_norm = model.decoder.final_norm
        self._normalize = parts.prepare_normalization(final_norm)
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
        past = backend.take_parents(cache.ancestry, parents)
        slots = ops.arange(ops.shape(parents)[1], dtype=parents.dtype)
        own = ops.zeros_like(parents)[:, :, None] + slots[:, None]
        is_own = ops.equal(own, slots)  # [B, K, K]
        ancestry = self._append(past, is_own)
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
    ) -> tuple[Any, parts.Pair]:
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
        return to_hypotheses(self._project(self.states(x)), self._beam_size)

    def states(self, x: Any) -> Any:
        """Returns what the output matrix multiplies, `[N, d_model]`."""
        return self._normalize(x)
