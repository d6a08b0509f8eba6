"""The Transformer's layers, each usable alone in any Keras model."""

from keras_transformer.layers.attention import (
    MultiHeadAttention,
    attention_scores,
    scaled_dot_product_attention,
)
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.embedding import TiedEmbedding
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.positional_encoding import (
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
)
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.restricted_attention import (
    RestrictedSelfAttention,
    restricted_dot_product_attention,
)

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositionalEncoding",
    "MultiHeadAttention",
    "Residual",
    "RestrictedSelfAttention",
    "SinusoidalPositionalEncoding",
    "TiedEmbedding",
    "attention_scores",
    "restricted_dot_product_attention",
    "scaled_dot_product_attention",
]
