"""Self-attention that is restricted to a window (section 4).

Letters: B = batch, n = length, H = heads, r = positions in the window,
c = queries in a block, N = blocks, w = keys that a block may attend to.
"""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.attention import (
    MultiHeadAttention,
    broadcast_masks,
    check_masks,
    positions_of,
    scaled_dot_product_attention,
)
from keras_transformer.layers.common import arguments_of, check_sizes
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
    """Returns attention with `masks.window_mask`, in O(r n d).

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
    blocks = _Blocks(length, window, causal)

    def in_blocks():
        masks = [blocks.near(), blocks.key_mask(memory_mask)]
        if attention_mask is not None:
            masks.append(blocks.pair_mask(attention_mask))
        output, _ = scaled_dot_product_attention(
            blocks.split(query),
            blocks.surroundings(key),
            blocks.surroundings(value),
            combine_masks(*masks),  # [B, 1, N, c, w]
        )
        return blocks.join(output)

    def at_once():
        near = window_mask(length, window, causal)
        pairs = combine_masks(near, attention_mask)
        mask = broadcast_masks(pairs, memory_mask)
        return scaled_dot_product_attention(query, key, value, mask)[0]

    # In blocks, a short input would have more pairs, not fewer.
    is_short = length <= blocks.width
    if isinstance(is_short, bool):
        return at_once() if is_short else in_blocks()
    return ops.cond(is_short, at_once, in_blocks)


class _Blocks:
    """The division of n positions into blocks. The last one is padded."""

    def __init__(self, length: Any, window: int, causal: bool) -> None:
        self.reach = window_reach(window, causal)
        self.length = length  # n
        self.size = max(window // 2, _SMALLEST_BLOCK)  # c
        self.count = (length - 1) // self.size + 1  # N
        # Blocks before and after its own that a query may attend to.
        self.before, self.after = (-(-x // self.size) for x in self.reach)
        self.neighbours = self.before + 1 + self.after
        self.width = self.neighbours * self.size  # w

    def split(self, x: Any, before: int = 0, after: int = 0) -> Any:
        """`[B, H, n, d]` -> `[B, H, N, c, d]`, with more blocks of zeros."""
        batch, heads, length, width = ops.shape(x)
        end = (self.count + after) * self.size - length
        x = ops.pad(x, ((0, 0), (0, 0), (before * self.size, end), (0, 0)))
        count = before + self.count + after
        return ops.reshape(x, (batch, heads, count, self.size, width))

    def join(self, x: Any) -> Any:
        """`[B, H, N, c, d]` -> `[B, H, n, d]`."""
        batch, heads, count, size, width = ops.shape(x)
        x = ops.reshape(x, (batch, heads, count * size, width))
        return _part(x, 0, self.length)

    def surroundings(self, x: Any) -> Any:
        """`[B, H, n, d]` -> `[B, H, N, w, d]`, a block and those around it."""
        x = self.split(x, self.before, self.after)
        pieces = [_part(x, i, self.count) for i in range(self.neighbours)]
        return ops.concatenate(pieces, axis=3)

    def near(self) -> Any:
        """Returns True where a key is in the window, `[c, w]`."""
        before, after = self.reach
        keys = ops.arange(self.width)
        queries = ops.arange(self.size) + self.before * self.size
        distance = keys[None, :] - queries[:, None]
        return ops.logical_and(distance >= -before, distance <= after)

    def key_mask(self, mask: Any) -> Any:
        """`[B, n]` or None -> `[B, 1, N, 1, w]`, False outside the keys."""
        mask = combine_masks(ops.ones((1, self.length), dtype="bool"), mask)
        columns = self.surroundings(ops.expand_dims(mask, (1, 3)))
        return ops.swapaxes(columns, 3, 4)

    def pair_mask(self, mask: Any) -> Any:
        """`[n, n]` or `[B, n, n]` -> `[B, 1, N, c, w]`; any size may be 1."""
        mask = ops.expand_dims(mask, 0) if len(mask.shape) == 2 else mask
        if mask.shape[1] == 1:
            return self.key_mask(ops.squeeze(mask, 1))
        every = ops.ones((1, self.length, self.length), dtype="bool")
        mask = ops.logical_and(mask, every)
        mask = self.split(ops.expand_dims(mask, 1))  # [B, 1, N, c, n]
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
    O(n^2 d), except with `return_attention_scores`. `attend` attends to all
    keys that it is given, as in decoding step by step.

    Masks that Keras attached to tensors, the projections and their
    initialization are as in `MultiHeadAttention`.

    Args:
        num_heads: Number of heads, h.
        window: The number of positions that each attends to, r.
        d_k: As in `MultiHeadAttention`, and so are `d_v` and `use_bias`.
        causal: Whether the window ends at the position, for decoders.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        query: `[B, n, d_model]`.
        memory: `query` itself, or a different tensor of the same length.
        attention_mask: Boolean `[n, n]` or `[B, n, n]`, where any size may be
            1; True = attend. It costs O(n^2) unless it is the same for every
            query, as `masks.padding_mask` is. A query whose keys are all
            masked gives 0.
        memory_mask: As in `MultiHeadAttention`, and so is
            `return_attention_scores`.

    Returns:
        `[B, n, d_model]`; and the scores `[B, H, n, n]`, in float32.

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
        check_sizes(window=window)
        super().__init__(num_heads, d_k, d_v, use_bias, **kwargs)
        self.window = window
        self.causal = causal

    def call(
        self,
        query: Any,
        memory: Any,
        attention_mask: Any = None,
        memory_mask: Any = None,
        return_attention_scores: bool = False,
    ) -> Any:
        lengths = (query.shape[1], memory.shape[1])
        if None not in lengths and lengths[0] != lengths[1]:
            raise ValueError(
                "A window needs a memory as long as the query. Received: "
                f"lengths {lengths}. Use MultiHeadAttention instead."
            )
        check_masks((query.shape[0], *lengths), attention_mask, memory_mask)
        if return_attention_scores:
            near = window_mask(ops.shape(query)[1], self.window, self.causal)
            mask = combine_masks(near, attention_mask)
            return super().call(
                query, memory, mask, memory_mask, return_attention_scores=True
            )
        key, value = self.project_memory(memory, positions_of(memory))
        query = self.project_query(query, positions_of(query))
        heads = restricted_dot_product_attention(
            query,
            key,
            value,
            self.window,
            self.causal,
            attention_mask,
            memory_mask,
        )
        return self._project_output(heads)

    def get_config(self) -> dict[str, Any]:
        arguments = arguments_of(self, RestrictedSelfAttention)
        return super().get_config() | arguments


def _part(x: Any, start: int, count: Any) -> Any:
    """Returns the next `count` entries of axis 2."""
    shape = list(ops.shape(x))
    shape[2] = count
    starts = [0] * len(shape)
    starts[2] = start
    # Not x[:, :, start:...]: on TensorFlow the gradient of indexing takes
    # fifty times as long.
    return ops.slice(x, starts, shape)
