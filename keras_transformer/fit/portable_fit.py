"""`fit` and `evaluate` on JAX and PyTorch."""

from typing import Any

import keras
from keras import ops

from keras_transformer.fit.token_loss import TokenMeanLoss


class PortableFit(TokenMeanLoss):
    """A `TokenMeanLoss` that logs the mean over all tokens as the loss.

    Keras would weight the loss of a batch by its sequences. A subclass that
    overrides `compute_loss` gets Keras' mean.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._token_loss = None
        if type(self).compute_loss is TokenMeanLoss.compute_loss:
            # It follows Keras' own, whose result it replaces by its name.
            self._token_loss = keras.metrics.Mean(name="loss")

    def mean_loss(self, total: Any, weights: Any) -> Any:
        loss = super().mean_loss(total, weights)
        if self._token_loss is not None:
            self._token_loss.update_state(
                ops.stop_gradient(loss), ops.sum(weights)
            )
        return loss
