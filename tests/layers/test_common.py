import pytest
from helpers import normal

from keras_transformer import layers

X = normal(2, 4, 8)


@pytest.mark.parametrize(
    ("make", "message"),
    (
        (lambda: layers.MultiHeadAttention(2.0), "num_heads=2.0"),
        (lambda: layers.MultiHeadAttention(True), "num_heads=True"),
        (lambda: layers.MultiHeadAttention(2, d_k=0), "d_k=0"),
        (lambda: layers.MultiHeadAttention(2, d_v=-1), "d_v=-1"),
        (lambda: layers.MultiHeadAttention(3)(X, X), "width=8, num_heads=3"),
        (lambda: layers.MultiHeadAttention(3, d_k=2)(X, X), "d_k and d_v"),
        (lambda: layers.RestrictedSelfAttention(2, 0), "window=0"),
        (lambda: layers.EncoderLayer(None, 12), "num_heads=None"),
        (lambda: layers.EncoderLayer(2, 12, dropout="0.1"), "dropout='0.1'"),
        (
            lambda: layers.EncoderLayer(2, 12, attention_window=2.5),
            "attention_window=2.5",
        ),
        (lambda: layers.Encoder(0, 2, 12), "num_layers=0"),
        (lambda: layers.Decoder(1, 2, 12, dropout=1), "dropout=1"),
        (lambda: layers.DecoderLayer(2, 0), "d_ff=0"),
        (lambda: layers.FeedForward("12"), "d_ff='12'"),
        (lambda: layers.Residual(1.0), "dropout=1.0"),
        (lambda: layers.Residual(float("nan")), "dropout=nan"),
        (lambda: layers.LearnedPositionalEncoding(0), "max_length=0"),
        (lambda: layers.SinusoidalPositionalEncoding(offset=-1), "offset=-1"),
        (lambda: layers.SinusoidalPositionalEncoding(endpoint=2), "endpoint=2"),
        (lambda: layers.TiedEmbedding(0, 8), "vocab_size=0"),
        (lambda: layers.TiedEmbedding(7, 8.0), "d_model=8.0"),
        (lambda: layers.TiedEmbedding(7, 8, mask_zero=True), "mask_zero"),
    ),
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
