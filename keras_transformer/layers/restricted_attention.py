"""Self-attention that is restricted to a window (section 4).

Letters: B = batch, n = length, H = heads, r = positions in the window,
c = queries in a block, N = blocks, w = keys that a block may attend to.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers.attention import (
    MultiHeadAttention,
    check_masks,
    scaled_dot_product_attention,
)
from keras_transformer.layers.checks import check_positive
from keras_transformer.masks import combine_masks, window_mask, window_reach

# Products of smaller blocks take no less time.
_SMALLEST_BLOCK = 16


def restricted_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    window: int,
    causal: bool = False,
    attention_mask: Any = None,
    memory_mask: Any = None,
) -> Any:
    """Returns what attention with `masks.window_mask` gives, in O(r n d).

    The queries are divided into blocks, each of which attends to the keys of
    its own block and of those around it.

    Args:
        query: `[B, H, n, d_k]`.
        key: `[B, H, n, d_k]`.
        value: `[B, H, n, d_v]`.
        window: The number of positions that each attends to, r.
        causal: Whether the window ends at the position; else it is centred.
        attention_mask: Boolean `[n, n]` or `[B, n, n]`, where B and one n may
            be 1; True = attend.
        memory_mask: Boolean `[B, n]`, True where `key` may be attended to.

    Returns:
        `[B, H, n, d_v]` in the dtype of `value`; 0 for a query whose keys are
        all masked.
    """
    length = ops.shape(query)[2]
    before, after = window_reach(window, causal)
    size = max(window // 2, _SMALLEST_BLOCK)
    blocks = _Blocks(length, size, -(-before // size), -(-after // size))

    def in_blocks():
        every = ops.ones_like(query[:1, 0, :, 0], dtype="bool")  # [1, n]
        masks = [blocks.near(before, after), blocks.of_keys(every)]
        if memory_mask is not None:
            masks.append(blocks.of_keys(ops.logical_and(every, memory_mask)))
        if attention_mask is not None:
            masks.append(blocks.of_pairs(attention_mask, every))
        output, _ = scaled_dot_product_attention(
            blocks.split(query),
            blocks.surroundings(key),
            blocks.surroundings(value),
            combine_masks(*masks),  # [B, 1, N, c, w]
        )
        return blocks.join(output)

    def at_once():
        mask = window_mask(length, window, causal)
        of_keys = None if memory_mask is None else memory_mask[:, None]
        mask = combine_masks(mask, attention_mask, of_keys)
        mask = mask[None] if len(mask.shape) == 2 else mask
        output, _ = scaled_dot_product_attention(
            query, key, value, mask[:, None]
        )
        return output

    # In blocks, a short input would have more pairs, not fewer.
    is_short = length <= blocks.width
    if isinstance(is_short, bool):
        return at_once() if is_short else in_blocks()
    return ops.cond(is_short, at_once, in_blocks)


class _Blocks(NamedTuple):
    """How n positions are divided. The last block is padded."""

    length: Any  # n
    size: int  # c
    before: int  # blocks before its own that a query may attend to
    after: int  # blocks after it

    @property
    def count(self) -> Any:
        """N."""
        return (self.length - 1) // self.size + 1

    @property
    def neighbours(self) -> int:
        """Blocks that a query may attend to, its own included."""
        return self.before + 1 + self.after

    @property
    def width(self) -> int:
        """Keys that a block may attend to, w."""
        return self.neighbours * self.size

    def split(self, x: Any) -> Any:
        """`[B, H, n, d]` -> `[B, H, N, c, d]`."""
        batch, heads, length, width = ops.shape(x)
        shape = (batch, heads, self.count * self.size - length, width)
        x = ops.concatenate([x, ops.zeros(shape, x.dtype)], axis=2)
        return ops.reshape(x, (batch, heads, self.count, self.size, width))

    def join(self, x: Any) -> Any:
        """`[B, H, N, c, d]` -> `[B, H, n, d]`."""
        batch, heads, count, size, width = ops.shape(x)
        x = ops.reshape(x, (batch, heads, count * size, width))
        return _part(x, 0, self.length)

    def surroundings(self, x: Any) -> Any:
        """`[B, H, n, d]` -> `[B, H, N, w, d]`, what a block may attend to."""
        x = self.split(x)
        zeros = ops.zeros_like(x[:, :, :1])
        x = ops.concatenate(
            [zeros] * self.before + [x] + [zeros] * self.after, axis=2
        )
        pieces = [_part(x, i, self.count) for i in range(self.neighbours)]
        return ops.concatenate(pieces, axis=3)

    def near(self, before: int, after: int) -> Any:
        """Returns True where a key is in the window, `[c, w]`."""
        keys = ops.arange(self.width)
        queries = ops.arange(self.size) + self.before * self.size
        distance = keys[None, :] - queries[:, None]
        return ops.logical_and(distance >= -before, distance <= after)

    def of_keys(self, mask: Any) -> Any:
        """`[B, n]` -> `[B, 1, N, 1, w]`."""
        return self.surroundings(mask[:, None, :, None])[..., None, :, 0]

    def of_pairs(self, mask: Any, every: Any) -> Any:
        """`[n, n]` or `[B, n, n]` -> `[B, 1, N, c, w]`; any size may be 1."""
        mask = mask[None] if len(mask.shape) == 2 else mask
        if mask.shape[1] == 1:
            return self.of_keys(ops.logical_and(every, mask[:, 0]))
        mask = combine_masks(mask, every[:, :, None], every[:, None, :])
        mask = self.split(mask[:, None])  # [B, 1, N, c, n]
        starts = (ops.arange(self.count) - self.before) * self.size
        keys = starts[:, None] + ops.arange(self.width)
        # Keys that do not exist are hidden by other masks.
        keys = ops.clip(keys, 0, self.length - 1)[None, None, :, None]
        return ops.take_along_axis(mask, keys, axis=-1)


@keras.saving.register_keras_serializable(package="keras_transformer")
class RestrictedSelfAttention(MultiHeadAttention):
    """Multi-head self-attention to the positions around each (section 4).

    A position attends to `window` positions, the paper's r: those centred on
    it (`masks.window_mask`), or with `causal` itself and the r - 1 before it.
    Near the ends there are fewer. Time and memory are in O(r n d) instead of
    O(n^2 d), except in `call_with_scores`. `attend` attends to all keys that it
    is given, as when one position after the other is decoded.

    Masks that Keras attached to tensors, the projections and their
    initialization are those of `MultiHeadAttention`.

    Args:
        num_heads: Number of heads, h.
        window: The number of positions that each attends to, r.
        d_k: Width of one head's queries and keys. Default: width of the
            query / `num_heads`.
        d_v: Width of one head's values. Default: width of the query /
            `num_heads`.
        causal: Whether the window ends at the position, for decoders.
        use_bias: As in `MultiHeadAttention`.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: `[B, n, d_model]`.
        memory: `query` itself, or another tensor of its length.
        attention_mask: Boolean `[n, n]` or `[B, n, n]`, where any size may be
            1; True = attend. It costs O(n^2) unless it is the same for every
            query, as `masks.padding_mask` is. A query whose keys are all
            masked gives 0.
        memory_mask: Boolean `[B, n]`, True where `memory` may be attended to.
            Default: the mask that Keras attached to `memory`, if any.

    Returns:
        `[B, n, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> attention = kt.layers.RestrictedSelfAttention(num_heads=8, window=128)
    >>> x = keras.random.normal((2, 1000, 512))
    >>> tuple(attention(x, x).shape)
    (2, 1000, 512)
    """

    def __init__(
        self,
        num_heads: int,
        window: int,
        d_k: int | None = None,
        d_v: int | None = None,
        causal: bool = False,
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        check_positive(window=window)
        super().__init__(num_heads, d_k, d_v, use_bias, **kwargs)
        self.window = window
        self.causal = causal

    def call(
        self,
        query: Any,
        memory: Any,
        attention_mask: Any = None,
        memory_mask: Any = None,
    ) -> Any:
        key, value = self.project_memory(memory)
        _check_lengths(query, memory)
        check_masks(attention_mask, memory_mask, query, key)
        heads = restricted_dot_product_attention(
            self._project_query(query),
            key,
            value,
            self.window,
            self.causal,
            attention_mask,
            memory_mask,
        )
        return self._project_output(heads)

    def call_with_scores(
        self,
        query: Any,
        memory: Any,
        attention_mask: Any = None,
        memory_mask: Any = None,
    ) -> tuple[Any, Any]:
        """Computes what `call` does, with a mask and in O(n^2 d).

        Arguments are those of `call`, but Keras does not fill in
        `memory_mask`.

        Returns:
            The output `[B, n, d_model]`, and the scores `[B, H, n, n]` in
            float32, which are 0 outside of the windows.
        """
        key, value = self.project_memory(memory)
        _check_lengths(query, memory)
        check_masks(attention_mask, memory_mask, query, key)
        near = window_mask(ops.shape(query)[1], self.window, self.causal)
        mask = combine_masks(near, attention_mask)
        return self.attend(query, key, value, mask, memory_mask)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "window": self.window,
            "causal": self.causal,
        }


def _part(x: Any, start: int, count: Any) -> Any:
    """Returns the next `count` entries of axis 2."""
    shape = (*ops.shape(x)[:2], count, *ops.shape(x)[3:])
    starts = [start if axis == 2 else 0 for axis in range(len(shape))]
    # Not x[:, :, start:...]: on TensorFlow the gradient of indexing takes
    # fifty times as long.
    return ops.slice(x, starts, shape)


def _check_lengths(query: Any, memory: Any) -> None:
    lengths = (query.shape[1], memory.shape[1])
    if None not in lengths and len(set(lengths)) > 1:
        raise ValueError(
            "Attention that is restricted to a window needs queries and "
            "memory of one length. For another memory use "
            f"MultiHeadAttention. Received: lengths {lengths}"
        )
