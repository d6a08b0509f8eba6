"""Token embedding, tied to the output projection (section 3.4)."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_transformer")
class TiedEmbedding(keras.layers.ReversibleEmbedding):
    """Embeds tokens and, in reverse, turns states into logits.

    One matrix serves as source embedding, target embedding and pre-softmax
    projection. Embedded tokens are multiplied by sqrt(d_model); the matrix
    starts from a normal distribution of variance 1 / d_model, so that both
    uses start with unit variance.

    Args:
        vocab_size: Number of tokens, V.
        d_model: Width of an embedding.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Ids `[B, T]`, or states `[B, T, d_model]` with `reverse=True`.
        reverse: If True, return logits.

    Returns:
        Embeddings `[B, T, d_model]`, or logits `[B, T, V]`.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> embedding = kt.layers.TiedEmbedding(vocab_size=100, d_model=16)
    >>> states = embedding(np.array([[5, 7, 9]]))
    >>> tuple(states.shape), tuple(embedding(states, reverse=True).shape)
    ((1, 3, 16), (1, 3, 100))
    """

    def __init__(self, vocab_size: int, d_model: int, **kwargs: Any) -> None:
        if min(vocab_size, d_model) < 1:
            raise ValueError(
                "vocab_size and d_model must be positive. Received: "
                f"vocab_size={vocab_size}, d_model={d_model}"
            )
        super().__init__(
            vocab_size,
            d_model,
            embeddings_initializer=keras.initializers.RandomNormal(
                stddev=d_model**-0.5
            ),
            **kwargs,
        )
        # Keras would compute the logits in the dtype of the variable when
        # the layer is called inside another layer.
        self.reverse_dtype = self.compute_dtype
        self.vocab_size = vocab_size
        self.d_model = d_model

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        outputs = super().call(inputs, reverse=reverse)
        return outputs if reverse else outputs * self.d_model**0.5

    def get_config(self) -> dict[str, Any]:
        base = keras.layers.Layer.get_config(self)
        return {
            **base,
            "vocab_size": self.vocab_size,
            "d_model": self.d_model,
        }
