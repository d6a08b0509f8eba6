import pytest
from helpers import normal

from keras_transformer import layers

X = normal(2, 4, 8)


@pytest.mark.parametrize(
    ("make", "message"),
    (
        (lambda: layers.MultiHeadAttention(0), "num_heads"),
        (lambda: layers.MultiHeadAttention(3)(X, X), "8 with 3 heads"),
        (lambda: layers.MultiHeadAttention(2, d_k=0), "d_k"),
        (lambda: layers.MultiHeadAttention(2, d_v=-1), "d_v"),
        (lambda: layers.RestrictedSelfAttention(2, 0), "window"),
        (lambda: layers.EncoderLayer(2, 12, dropout=1)(X), "dropout"),
        (lambda: layers.EncoderLayer(2, 12, attention_window=-1)(X), "window"),
        (lambda: layers.Encoder(0, 2, 12), "num_layers"),
        (lambda: layers.DecoderLayer(2, 0)(X, X), "d_ff"),
        (lambda: layers.FeedForward("12"), "d_ff"),
        (lambda: layers.Residual(float("nan")), "dropout"),
        (lambda: layers.LearnedPositionalEncoding(0), "max_length"),
        (lambda: layers.SinusoidalPositionalEncoding("half"), "layout"),
        (lambda: layers.TiedEmbedding(0, 8), "vocab_size"),
        (lambda: layers.TiedEmbedding(7, 8, mask_zero=True), "mask_zero"),
    ),
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
