"""`fit` and `evaluate` on TensorFlow, exact on any number of replicas.

Letters: B = sequences in a replica's share of the batch, T = target length,
V = vocabulary.
"""

import inspect
import warnings
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.fit.keras_overrides import (
    BuiltWithoutData,
    inner_layers,
    without_all_reduce,
)
from keras_transformer.fit.token_loss import TokenMeanLoss, token_loss
from keras_transformer.layers.common import check_sizes
from keras_transformer.layers.embedding import factors_of
from keras_transformer.losses import (
    LabelSmoothedCrossEntropy,
    fused_cross_entropy,
)


class DistributedFit(BuiltWithoutData, TokenMeanLoss):
    """A `TokenMeanLoss`, exact on any number of replicas.

    Keras averages the losses, gradients and metrics of the replicas, so that
    tokens weigh more on a replica with fewer of them. Here the loss, its
    gradient, clipping and all logged values refer to the global batch. `fit`
    also logs `gradient_norm`, the mean norm of the gradient before clipping.

    `sample_weight`, `[B]` or `[B, T]`, weights tokens in the loss and in
    `weighted_metrics`; padding weighs 0. Keras passes no weights to `metrics`;
    the metrics of this package ignore padding.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._gradient_norm = keras.metrics.Mean(name="gradient_norm")

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: None = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool | str = "auto",
        auto_scale_loss: bool = True,
        gradient_accumulation_steps: int = 1,
    ) -> None:
        """Configures training; see `keras.Model.compile`.

        `global_clipnorm` of the optimizer limits the norm of the gradient of
        the global batch. To save memory, each replica computes its share of a
        batch in `gradient_accumulation_steps` parts; the update is the same.
        With `jit_compile=True` XLA compiles the forward and backward pass of
        each replica, or of a part; `"auto"` is False, since XLA compiles every
        length of batch again. With `auto_scale_loss` the loss is scaled in
        float16, mixed or not, so that gradients do not underflow. Arguments
        that would make the result inexact raise a ValueError.
        """
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync > 1 and steps_per_execution != 1:
            raise ValueError(
                "steps_per_execution must be 1 on several replicas. "
                f"Received: {steps_per_execution}"
            )
        check_sizes(gradient_accumulation_steps=gradient_accumulation_steps)
        if loss_weights is not None:
            raise ValueError(
                "A Transformer has one loss. Received: "
                f"loss_weights={loss_weights}"
            )
        if loss is not None:
            token_loss(loss, self.config.pad_id)  # checks it
        with strategy.scope():
            optimizer = keras.optimizers.get(optimizer)
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if inner.gradient_accumulation_steps:
            raise ValueError(
                "The optimizer must not accumulate gradients, since it ignores "
                "the number of tokens. Received: gradient_accumulation_steps="
                f"{inner.gradient_accumulation_steps}. Pass it to compile."
            )
        in_scope = strategy.extended.variable_created_in_scope
        if not in_scope(inner.iterations.value):
            raise ValueError(
                "The optimizer must be created in the scope of the model's "
                "strategy, within `with strategy.scope():`."
            )
        with strategy.scope():
            # Keras scales the loss of mixed_float16 only.
            is_float16 = self.dtype_policy.name == "float16"
            if auto_scale_loss and is_float16 and inner is optimizer:
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            super().compile(
                optimizer,
                loss,
                metrics=metrics,
                weighted_metrics=weighted_metrics,
                run_eagerly=run_eagerly,
                steps_per_execution=steps_per_execution,
                jit_compile=False,  # XLA compiles the gradients alone
                auto_scale_loss=auto_scale_loss,
            )
            self.gradient_accumulation_steps = gradient_accumulation_steps
            self._jitted_gradients = None
            if jit_compile is True:
                self._jitted_gradients = tf.function(
                    self._part_gradients,
                    autograph=False,
                    jit_compile=True,
                    reduce_retracing=True,
                )
            if all(x.built for x in inner_layers(self)):
                self.optimizer.build(self.trainable_variables)

    def get_compile_config(self) -> dict[str, Any] | None:
        config = super().get_compile_config()
        if config:
            config["jit_compile"] = self._jitted_gradients is not None
            if (steps := self.gradient_accumulation_steps) > 1:
                config["gradient_accumulation_steps"] = steps
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras does nothing for a class that overrides `compile`.
        if type(self).compile is DistributedFit.compile:
            self.compile(**keras.saving.deserialize_keras_object(config))
        else:
            super().compile_from_config(config)

    @property
    def metrics(self) -> list[keras.Metric]:
        """The metrics that take labels and logits, and the mean loss."""
        return [m for m in super().metrics if m is not self._gradient_norm]

    def reset_metrics(self) -> None:
        super().reset_metrics()
        self._gradient_norm.reset_state()

    def mean_loss(self, total: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        loss = super().mean_loss(total, weights)
        return loss / tf.distribute.get_strategy().num_replicas_in_sync

    def train_step(self, data: Any) -> dict[str, Any]:
        """Updates the weights with a replica's share of a batch."""
        batch = self._read(data)
        gradients, loss, y_pred = self._gradients(batch)
        loss = self._track_loss(loss, batch.total)
        if gradients:
            self._apply(_all_reduce(gradients), loss)
        else:
            warnings.warn("The model has no trainable weights.", stacklevel=2)
        return self._results(batch, y_pred, self._gradient_norm)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluates a replica's share of a batch."""
        batch = self._read(data)
        y_pred, loss = self._forward(batch, training=False)
        self._track_loss(loss, batch.total)
        return self._results(batch, y_pred)

    def _read(self, data: Any) -> "_Batch":
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        if self._overrides_loss:
            rows = tf.shape(tf.nest.flatten(x)[0])[0]
            count = tf.cast(rows, tf.float32)
        else:
            weights = self.token_weights(y, weights)
            count = tf.reduce_sum(weights)
        (total,) = _all_reduce([count])
        return _Batch(x, y, weights, total)

    @property
    def _overrides_loss(self) -> bool:
        """Whether a subclass computes the loss, as a mean over sequences."""
        return type(self).compute_loss is not TokenMeanLoss.compute_loss

    def _gradients(self, batch: "_Batch") -> tuple[list, tf.Tensor, Any]:
        """Returns gradients, loss, and predictions that no metric has seen."""
        compute_part = self._jitted_gradients or self._part_gradients
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return compute_part(batch)
        rows = tf.shape(tf.nest.flatten(batch.x)[0])[0]
        if self._overrides_loss:  # it may divide by the rows
            parts = tf.clip_by_value(parts, 1, tf.maximum(rows, 1))

        def add_part(part: Any, gradients: list, loss: Any) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            x, y, weights = tf.nest.map_structure(
                lambda values: None if values is None else values[chosen],
                (batch.x, batch.y, batch.weights),
            )
            part_batch = _Batch(x, y, weights, batch.total)
            more, more_loss, y_pred = compute_part(part_batch)
            self.compute_metrics(x, y, y_pred, weights)
            gradients = [a + b for a, b in zip(gradients, more, strict=True)]
            return part + 1, gradients, loss + more_loss

        variables = self.trainable_variables
        zeros = [tf.zeros(v.shape, _sum_dtype(v)) for v in variables]
        _, gradients, loss = tf.while_loop(
            # Empty parts run too, so that dropout seeds stay equal.
            lambda part, *_: part < parts,
            add_part,
            (tf.constant(0), zeros, tf.constant(0.0)),
            parallel_iterations=1,
        )
        if self._overrides_loss:  # parts count alike
            count = tf.cast(parts, tf.float32)
            gradients = [g / count for g in gradients]
            loss /= count
        return gradients, loss, None

    def _part_gradients(self, batch: "_Batch") -> tuple[list, tf.Tensor, Any]:
        variables = self.trainable_variables
        with tf.GradientTape() as tape:
            y_pred, loss = self._forward(batch, training=True)
            scaled = self.optimizer.scale_loss(loss)
        values = [v.value for v in variables]
        gradients = tape.gradient(scaled, values, unconnected_gradients="zero")
        gradients = [
            # The gradient of a tied embedding is sparse and dense.
            tf.cast(tf.convert_to_tensor(g), _sum_dtype(v))
            for g, v in zip(gradients, variables, strict=True)
        ]
        return gradients, loss, y_pred

    def _forward(
        self, batch: "_Batch", training: bool
    ) -> tuple[Any, tf.Tensor]:
        """Returns the predictions, and this replica's part of the loss."""
        x, y, weights, total = batch
        y_pred = self(x, training=training)
        if self._overrides_loss:
            named = {}
            if "training" in inspect.signature(self.compute_loss).parameters:
                named["training"] = training
            loss = self.compute_loss(x, y, y_pred, weights, **named)
            return y_pred, tf.cast(loss, tf.float32)
        if training and self._is_fused(y_pred):
            # Cheaper than `compute_loss`, but differentiable only once, and
            # not with respect to the logits.
            smoothing = self.loss.label_smoothing
            loss = fused_cross_entropy(y, y_pred, weights, smoothing)
            loss = self.mean_loss(loss, weights)
        else:
            loss = self.compute_loss(x, y, y_pred, weights, training)
        # Each replica, and each part, counts as much as its tokens.
        share = tf.math.divide_no_nan(tf.reduce_sum(weights), total)
        replicas = self.distribute_strategy.num_replicas_in_sync
        return y_pred, loss * (share * replicas)

    def _is_fused(self, y_pred: Any) -> bool:
        """Returns whether the loss has a faster gradient: the paper's loss."""
        return (
            factors_of(y_pred) is not None
            and type(self.loss) is LabelSmoothedCrossEntropy
            and type(self).token_losses is TokenMeanLoss.token_losses
        )

    def _track_loss(self, loss: tf.Tensor, total: tf.Tensor) -> tf.Tensor:
        """Adds this replica's part of the loss; returns the whole."""
        (loss,) = _all_reduce([loss])
        # Not `self.metrics`, which may be overridden.
        mean = next(m for m in super().metrics if m.name == "loss")
        self._track(mean, loss, total)
        return loss

    def _apply(self, gradients: list[tf.Tensor], loss: tf.Tensor) -> None:
        """Updates the weights with gradients that are summed over replicas."""
        optimizer = self.optimizer
        norm = tf.linalg.global_norm(gradients) / optimizer.scale_loss(1.0)
        # There is no update if a scaled gradient overflows.
        scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        counts = tf.math.is_finite(norm) | (not scaled)
        self._track(self._gradient_norm, tf.where(counts, norm, 0.0), counts)
        # At the end of the data all operations on the batch are cancelled; so
        # must be the update of the iteration counter.
        with tf.control_dependencies([loss]), without_all_reduce(optimizer):
            optimizer.apply(gradients, self.trainable_variables)

    def _track(self, mean: keras.metrics.Mean, value: Any, count: Any) -> None:
        """Adds a value, equal on all replicas, to a mean."""
        replicas = self.distribute_strategy.num_replicas_in_sync
        mean.update_state(value, tf.cast(count, tf.float32) / replicas)

    def _results(
        self, batch: "_Batch", y_pred: Any, *others: keras.Metric
    ) -> dict[str, Any]:
        """Updates the metrics, and returns their results over all replicas."""
        if y_pred is not None:
            x, y, weights, _ = batch
            results = self.compute_metrics(x, y, y_pred, weights)
            if type(self).compute_metrics is not keras.Model.compute_metrics:
                return results | {x.name: x.result() for x in others}

        def read(_: Any = None) -> dict[str, Any]:
            results = {metric.name: metric.result() for metric in others}
            return {**self.get_metrics_result(), **results}

        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync > 1:
            results = context.merge_call(read)
        else:
            results = read()
        resolver = context.strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        if sum(map(len, cluster.values())) > 1:
            # Keras averages them over the first axis, which scalars lack.
            results = {k: v[tf.newaxis] for k, v in results.items()}
        return results


class _Batch(NamedTuple):
    """A replica's share of a batch."""

    x: Any
    y: Any
    weights: Any  # of tokens, [B, T]; as in `fit` for an overridden loss
    total: tf.Tensor  # weights, or sequences, over all replicas


def _all_reduce(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the sums of tensors of one dtype over all replicas."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return tensors

    # `context.all_reduce` would keep the graph in memory: it registers a
    # gradient until the process ends.
    def reduce(strategy: tf.distribute.Strategy, *values: Any) -> list:
        pairs = [(value, value) for value in values]
        return strategy.extended.batch_reduce_to("SUM", pairs)

    return context.merge_call(reduce, tensors)


def _sum_dtype(variable: Any) -> str:
    """Returns the dtype for sums of gradients of a variable."""
    return keras.backend.result_type(variable.dtype, "float32")
