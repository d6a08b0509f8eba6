"""The residual connection around every sub-layer (sections 3.1 and 5.4)."""

from typing import Any

import keras


@keras.saving.register_keras_serializable(package="keras_transformer")
class AddNorm(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))): post-norm, as in the paper.

    The "Add & Norm" boxes of Figure 1. The sub-layer is called by whoever
    owns it; this layer receives its output.

    Args:
        dropout: Rate on the sub-layer's output.
        **kwargs: Arguments of `keras.layers.Layer`.

    Call arguments:
        x: Input of the sub-layer, `[B, T, d_model]`.
        output: Output of the sub-layer, `[B, T, d_model]`.

    Returns:
        `[B, T, d_model]`.

    Example:

    >>> import keras, keras_transformer as kt
    >>> add_norm = kt.layers.AddNorm(dropout=0.1)
    >>> x = keras.random.normal((2, 10, 512))
    >>> tuple(add_norm(x, kt.layers.FeedForward(2048)(x)).shape)
    (2, 10, 512)
    """

    def __init__(self, dropout: float = 0.0, **kwargs: Any) -> None:
        if not 0.0 <= dropout < 1.0:
            raise ValueError(
                f"dropout must be in [0, 1). Received: dropout={dropout}"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.dropout = dropout

    def build(self, x_shape: tuple, output_shape: tuple) -> None:
        """Creates the dropout and the normalisation."""
        self.dropout_layer = keras.layers.Dropout(
            self.dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.norm = keras.layers.LayerNormalization(
            epsilon=1e-6, dtype=self.dtype_policy, name="norm"
        )
        self.norm.build(x_shape)

    def call(self, x: Any, output: Any, training: bool | None = None) -> Any:
        return self.norm(x + self.dropout_layer(output, training=training))

    def compute_output_shape(
        self, x_shape: tuple, output_shape: tuple
    ) -> tuple:
        return x_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dropout": self.dropout}
