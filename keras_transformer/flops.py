"""Floating-point operations of a Transformer, counted from its architecture.

A multiplication and the addition that follows it are two operations. Matrix
products are counted; embedding, normalization, softmax and other element-wise
operations, a few per cent, are not.

Letters: S = source length, T = target length. Both include the end token, and
may be means.
"""

from keras_transformer.config import StackConfig, TransformerConfig


def forward_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the operations of the forward pass for one pair."""
    s, t = source_length, target_length
    window = config.attention_window or float("inf")

    def layer(sizes: StackConfig, length: float, memory: float) -> float:
        widths = sizes.num_heads * (sizes.d_k + sizes.d_v)
        # Queries and output projection, or keys and values, per position.
        half = 2 * config.d_model * widths
        feed_forward = 2 * 2 * config.d_model * sizes.d_ff
        # Each pair of a query and a key: its score, and its part of the output.
        pairs = length * (min(length, window) + memory)
        projections = half * 2 * length
        if memory:
            projections += half * (length + memory)
        return projections + length * feed_forward + 2 * widths * pairs

    encoder = config.encoder.num_layers * layer(config.encoder, s, 0)
    decoder = config.decoder.num_layers * layer(config.decoder, t, s)
    return encoder + decoder + 2 * t * config.d_model * config.vocab_size


def training_flops(
    config: TransformerConfig, source_length: float, target_length: float
) -> float:
    """Returns the operations of an update, per pair of the batch."""
    # A product y = x W takes as much again for each of its two gradients.
    return 3 * forward_flops(config, source_length, target_length)
