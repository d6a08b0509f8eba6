"""The loss of a `Transformer`, and `fit` on JAX and PyTorch.

Letters: B = batch, T = target length.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.losses import token_weights

_TOKEN_MEAN = ("mean_with_sample_weight", "sum_over_batch_size", "mean")


def _without_class_weight(method: Callable) -> Callable:
    """Makes a method of `keras.Model` raise if it gets `class_weight`."""

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        named = inspect.signature(method).bind(*args, **kwargs).arguments
        # Keras would take the largest label of each sequence as its class.
        if named.get("class_weight") is not None:
            raise ValueError(
                "Sequences of labels have no class_weight. Pass a "
                "sample_weight of shape [B, T] instead."
            )
        return method(*args, **kwargs)

    return checked


class TokenMeanLoss(keras.Model):
    """A `keras.Model` with a `config.pad_id`, and a mean loss per token."""

    fit = _without_class_weight(keras.Model.fit)
    train_on_batch = _without_class_weight(keras.Model.train_on_batch)

    def token_losses(self, y: Any, y_pred: Any) -> Any:
        """Returns the compiled loss of each label `[B, T]`."""
        if self.loss is None:
            raise ValueError(
                "compile() needs a loss with a value per target token, such as "
                "LabelSmoothedCrossEntropy(). Received: loss=None"
            )
        loss = token_loss(self.loss, self.config.pad_id)
        losses = loss(y, ops.cast(y_pred, "float32"))
        if len(losses.shape) != 2:
            raise ValueError(
                "The loss must return a value per target token, [B, T]. "
                f"Received: {self.loss}, which returns {losses.shape}"
            )
        return losses

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Returns the mean of `token_losses`, plus added losses.

        Under a strategy of TensorFlow, it is a mean over the labels of the
        replica, and divided by the number of replicas, as in Keras.
        """
        weights = self.token_weights(y, sample_weight)
        losses = self.token_losses(y, y_pred)
        # Labels that are not tokens have the loss NaN, even with weight 0.
        losses = ops.where(weights != 0, losses * weights, 0.0)
        return self.mean_loss(ops.sum(losses), weights)

    def mean_loss(self, total: Any, weights: Any) -> Any:
        """Returns `compute_loss` for a weighted sum of losses."""
        loss = ops.divide_no_nan(total, ops.sum(weights))
        # From `add_loss` and regularizers.
        for added in self.losses:
            loss += ops.cast(ops.sum(added), "float32")
        return loss

    def token_weights(self, labels: Any, sample_weight: Any) -> Any:
        """Returns the weights of labels `[B, T]`; 0 for what is ignored."""
        weights = token_weights(labels, self.config.pad_id, sample_weight)
        ignored = getattr(self.loss, "ignore_class", None)
        if ignored is None:
            return weights
        return ops.where(ops.equal(labels, ignored), 0.0, weights)


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


def token_loss(loss: Any, pad_id: int) -> Callable:
    """Returns the compiled loss as a function with a value per token."""
    loss = keras.losses.get(loss)
    if getattr(loss, "pad_id", pad_id) != pad_id:
        raise ValueError(
            "The loss and the model must have the same pad_id. Received: "
            f"pad_id={loss.pad_id} and {pad_id}"
        )
    argument = inspect.signature(loss).parameters.get("from_logits")
    default = getattr(argument, "default", None)
    if getattr(loss, "from_logits", None) is False or default is False:
        raise ValueError(
            "The loss must accept logits. Received: "
            f"loss={loss}. Create it with from_logits=True."
        )
    if not isinstance(loss, keras.losses.Loss):
        return loss
    if loss.reduction not in _TOKEN_MEAN:
        raise ValueError(
            "The loss of a Transformer is a mean over target tokens. "
            f"Received: {type(loss).__name__} with "
            f"reduction={loss.reduction!r}. Leave it out."
        )
    return loss.call
