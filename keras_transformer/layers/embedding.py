"""Token embedding, tied to the output projection (section 3.4).

Letters: B = batch, T = length, V = vocabulary.
"""

import contextlib
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.common import arguments_of, check_sizes


@keras.saving.register_keras_serializable(package="keras_transformer")
class TiedEmbedding(keras.layers.Layer):
    """Embeds tokens and, in reverse, projects states to logits.

    One matrix serves as source embedding, target embedding and pre-softmax
    projection. Embeddings are multiplied by sqrt(d_model); the matrix is
    initialized from a normal distribution of variance 1 / d_model, so that
    embeddings and logits start with unit variance. Neither carries a Keras
    mask: masks are made from the ids (`kt.masks.padding_mask`).

    A model with separate matrices has one of these layers for each.

    Args:
        vocab_size: Number of tokens, V.
        d_model: Width of an embedding.
        scale: Factor on the embeddings. Default: sqrt(d_model).
        use_bias: Whether a bias is added to the logits, unlike the paper.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: Ids `[B, T]`, or states `[B, T, d_model]` with `reverse=True`.
        reverse: Whether to return logits.

    Returns:
        Embeddings `[B, T, d_model]`, or logits `[B, T, V]`.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> embedding = kt.layers.TiedEmbedding(vocab_size=100, d_model=16)
    >>> states = embedding(np.array([[5, 7, 9]]))
    >>> tuple(states.shape), tuple(embedding(states, reverse=True).shape)
    ((1, 3, 16), (1, 3, 100))
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        scale: float | None = None,
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        check_sizes(vocab_size=vocab_size, d_model=d_model)
        super().__init__(**kwargs)
        # In half precision the looked-up rows are cast, not the whole matrix.
        self.autocast = False
        self.vocab_size = vocab_size
        self.d_model = d_model
        self.scale = scale
        self.use_bias = use_bias
        # Made here, not in `build`: it draws its seed now, so that a seeded
        # model always starts from the same weights.
        self._initializer = keras.initializers.RandomNormal(0.0, d_model**-0.5)

    @property
    def factor(self) -> float:
        """The factor on embeddings."""
        return self.d_model**0.5 if self.scale is None else self.scale

    def build(self, input_shape: Any = None) -> None:
        """Creates the matrix `[V, d_model]`, and the bias `[V]`."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocab_size, self.d_model),
            initializer=self._initializer,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.vocab_size,), initializer="zeros"
            )

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        dtype = self.compute_dtype
        if not reverse:
            rows = ops.take(self.embeddings, ops.cast(inputs, "int32"), axis=0)
            return ops.cast(rows, dtype) * self.factor
        states = ops.reshape(ops.cast(inputs, dtype), (-1, self.d_model))
        matrix = ops.cast(ops.transpose(self.embeddings), dtype)
        # Of two dimensions: a batched product reads the matrix for each row.
        logits = ops.matmul(states, matrix)
        logits = ops.reshape(logits, (*ops.shape(inputs)[:-1], self.vocab_size))
        if self.bias is not None:
            logits = logits + ops.cast(self.bias, dtype)
        with contextlib.suppress(AttributeError):  # of arrays of JAX
            logits.factors = inputs, self.embeddings, self.bias  # `factors_of`
        return logits

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape, self.d_model)  # of ids

    def compute_output_spec(
        self, inputs: Any, reverse: bool = False
    ) -> keras.KerasTensor:
        shape = inputs.shape[:-1] if reverse else inputs.shape
        width = self.vocab_size if reverse else self.d_model
        return keras.KerasTensor((*shape, width), dtype=self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **arguments_of(self, TiedEmbedding)}


def factors_of(logits: Any) -> tuple[Any, Any, Any] | None:
    """Returns states, matrix and bias of a `TiedEmbedding`'s logits, or None.

    For `losses.fused_cross_entropy`: Keras gives a loss only the logits.
    """
    return getattr(logits, "factors", None)
