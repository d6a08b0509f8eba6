"""Floating-point operations of a Transformer, counted from its architecture.

A multiplication and the addition that follows it are two operations. Matrix
products are counted; embedding, normalization, softmax and other element-wise
operations, a few per cent, are not.

Letters: S = source length, T = target length.
"""

from keras_transformer.config import TransformerConfig

# A product y = x W takes as much again for each of its two gradients.
_FORWARD_AND_BACKWARD = 3


def forward_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the operations of the forward pass for one pair.

    Args:
        config: The architecture.
        source_length: S, the end token included. A mean is allowed.
        target_length: T, likewise.
    """
    s, t = source_length, target_length
    widths = config.num_heads * (config.d_k + config.d_v)
    # Queries and output projection, or keys and values, per position.
    half = 2 * config.d_model * widths
    feed_forward = 2 * 2 * config.d_model * config.d_ff
    # Each pair of a query and a key: its score, and its part of the output.
    per_key = 2 * widths
    window = config.attention_window or float("inf")
    encoder = s * (2 * half + feed_forward + per_key * min(s, window))
    decoder = t * (2 * half + feed_forward + per_key * min(t, window))
    decoder += t * half + s * half + per_key * t * s  # attention to the memory
    logits = 2 * t * config.d_model * config.vocab_size
    return config.num_layers * (encoder + decoder) + logits


def training_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the operations of an update, per pair of the batch.

    Args:
        config: As in `forward_flops`.
        source_length: As in `forward_flops`.
        target_length: As in `forward_flops`.
    """
    return _FORWARD_AND_BACKWARD * forward_flops(
        config, source_length, target_length
    )
