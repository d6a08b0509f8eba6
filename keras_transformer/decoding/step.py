"""One decoding step: the next token of every hypothesis.

It runs on every backend of Keras, and knows no search.

Letters: B = batch, K = hypotheses decoded side by side (the beam), N = B * K,
S = source length, P = positions decoded so far, H = heads, w = width of a
head, V = vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding import parts
from keras_transformer.decoding.rows import Rows


class DecoderCache(NamedTuple):
    """What decoding keeps between steps: a value, never state of a layer.

    The keys of all K hypotheses lie side by side, so that the cache is never
    reordered when hypotheses change places; `ancestry` says which of them
    are a hypothesis' own past. With an `attention_window`, P is at most that.
    """

    layers: tuple[parts.Pair, ...]  # of each layer, [B, H, P*K, w]
    ancestry: Any  # [B, K, P*K] boolean, True = own past
    memory: tuple[parts.Pair, ...]  # of each layer, [B, H, S, w]
    memory_mask: Any  # [B, 1, 1, S] boolean, True where there is no padding


class StepDecoder:
    """Decodes token by token, with the weights that a model has now.

    Args:
        model: A `Transformer`.
        max_length: The number of positions to decode at most, an integer or
            a scalar tensor.
        beam_size: K, likewise.
        rows: Converts between shapes. Default: `Rows` for `beam_size`, which
            is not used otherwise.

    Raises:
        ValueError: If a class of the model overrides what steps leave out;
            see `Transformer.check_step_by_step`.

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
        rows: Rows | None = None,
    ) -> None:
        model.check_step_by_step()
        dtype = model.compute_dtype
        if rows is None:
            rows = Rows(beam_size, model.config.decoder.num_heads)
        self._rows = rows
        self._window = model.config.attention_window
        self._embed = parts.embedding_step(
            model.target_embedding,
            model.target_positions,
            max_length,
            rows,
            dtype,
        )
        self.layers = [
            parts.LayerStep(layer, rows, dtype)
            for layer in model.decoder.layers
        ]
        norm = model.decoder.final_norm
        self._normalize = (
            parts.normalization_step(norm) if norm else lambda x: x
        )
        self._project = parts.output_step(model, rows)

    def init_cache(self, memory: Any) -> DecoderCache:
        """Returns the cache before the first step.

        Args:
            memory: The encoded sources, from `Transformer.encode`.
        """
        batch = ops.shape(memory.states)[0]
        pairs = [
            layer.cross_attention.project_memory(memory)
            for layer in self.layers
        ]
        return DecoderCache(
            tuple(tuple(x[:, :, :0] for x in pair) for pair in pairs),
            ops.zeros((batch, self._rows.beam_size, 0), dtype="bool"),
            tuple(pairs),
            memory.mask[:, None],
        )

    def decode_step(
        self, ids: Any, parents: Any, cache: DecoderCache, index: Any
    ) -> tuple[Any, DecoderCache]:
        """Decodes one more token of each hypothesis, with a growing cache.

        The K hypotheses are K queries at the same position, so that the
        encoded source is neither repeated nor projected again.

        Args:
            ids: `[B, K]`, the token at position `index` of each hypothesis.
            parents: `[B, K]`, which hypothesis of the previous step each one
                continues. Ignored at the first step.
            cache: From `init_cache` or the previous step.
            index: P, the position of `ids`; 0 for the first.

        Returns:
            Logits `[B, K, V]` of the next token, and the new cache.
        """

        def last(x: Any) -> Any:
            """Returns the positions in the window, on axis 2."""
            if self._window is None:
                return x
            return x[:, :, -self._window * self._rows.beam_size :]

        def append(past: parts.Pair, new: parts.Pair) -> list[parts.Pair]:
            pairs = zip(past, new, strict=True)
            return [tuple(last(ops.concatenate(p, axis=2)) for p in pairs)]

        past = parts.of_parents(cache.ancestry, parents)
        slots = ops.arange(ops.shape(parents)[1], dtype=parents.dtype)
        own = ops.zeros_like(parents)[:, :, None] + slots[:, None]
        is_own = ops.equal(own, slots)  # [B, K, K]
        ancestry = last(ops.concatenate([past, is_own], axis=2))
        logits, blocks = self.step(
            ids, index, cache.layers, [ancestry[:, None]], cache, append
        )
        layers = tuple(pair for (pair,) in blocks)
        return logits, cache._replace(layers=layers, ancestry=ancestry)

    def step(
        self,
        ids: Any,
        index: Any,
        past: Sequence[parts.Pair],
        masks: Sequence[Any],
        cache: DecoderCache,
        append: parts.Append,
    ) -> tuple[Any, tuple[Sequence[parts.Pair], ...]]:
        """Decodes one more token, with keys and values that the caller keeps.

        Args:
            ids: `[B, K]`, as in `decode_step`.
            index: As in `decode_step`.
            past: Keys and values of each layer.
            masks: `[B, 1, K, keys]`, one for each block of keys that `append`
                returns: boolean, True = attend, or float32, to be added to
                the scores. None: each hypothesis attends to its own key.
            cache: Has the memory and its mask.
            append: Takes the `past` of a layer and the keys and values
                `[B, H, K, w]` of this step; returns those to attend to, in
                one or several blocks.

        Returns:
            Logits `[B, K, V]`, and what `append` returned for each layer.
        """
        x, kept = self._embed(ids, index), []
        for layer, pair, memory in zip(
            self.layers, past, cache.memory, strict=True
        ):
            x, blocks = layer(x, pair, masks, memory, cache.memory_mask, append)
            kept.append(blocks)
        logits = self._project(self._normalize(x))
        return self._rows.of_hypotheses(logits), tuple(kept)
