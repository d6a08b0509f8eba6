"""`fit` and `evaluate` on TensorFlow, exact on any number of replicas.

Letters: B = sequences in a replica's share of the batch, T = target length,
V = vocabulary.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_transformer.fit import keras_overrides
from keras_transformer.fit.fused import fused_linear_cross_entropy
from keras_transformer.layers.common import check_sizes
from keras_transformer.losses import LabelSmoothedCrossEntropy, token_weights

_TOKEN_MEAN = ("mean_with_sample_weight", "sum_over_batch_size", "mean")


def _without_class_weight(method: Callable) -> Callable:
    """Makes a method of `keras.Model` raise if it gets `class_weight`."""

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        arguments = inspect.signature(method).bind(*args, **kwargs).arguments
        class_weight = arguments.get("class_weight")
        if class_weight is not None:
            raise ValueError(
                "Sequences of labels have no class_weight. Received: "
                f"class_weight={class_weight}. Pass a sample_weight of shape "
                "[B, T] instead."
            )
        return method(*args, **kwargs)

    return checked


class DistributedFit(keras_overrides.BuiltWithoutData):
    """A `keras.Model` whose loss is a mean over the batch's target tokens.

    Keras averages the losses, gradients and metrics of the replicas, so that
    tokens weigh more on a replica with fewer of them. Here the loss, its
    gradient, clipping and all logged values refer to the global batch: they are
    the same on any number of replicas, for shares of any size.

    The compiled optimizer, loss and metrics are used as in Keras. The loss
    must return a value per token. `sample_weight`, `[B]` or `[B, T]`, weights
    these values and the values of `weighted_metrics`; padding weighs 0. Keras
    passes no weights to `metrics`; the metrics of this package ignore padding.
    `fit` also logs `gradient_norm`, the mean norm of the gradient before
    clipping.

    A subclass is built by its constructor and has a `config.pad_id`. Its
    `output_projection()` returns the matrix and the bias that project its
    `states(inputs, training)` to logits, to be fused with the paper's loss; or
    None.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._gradient_norm = keras.metrics.Mean(name="gradient_norm")

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        *,
        gradient_accumulation_steps: int = 1,
        jit_compile: bool | str = "auto",
        steps_per_execution: int = 1,
        auto_scale_loss: bool = True,
        **kwargs: Any,
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
        replicas = strategy.num_replicas_in_sync
        if replicas > 1 and steps_per_execution != 1:
            raise ValueError(
                "steps_per_execution must be 1 on several replicas. "
                f"Received: steps_per_execution={steps_per_execution}"
            )
        check_sizes(gradient_accumulation_steps=gradient_accumulation_steps)
        if kwargs.get("loss_weights") is not None:
            raise ValueError(
                "A Transformer has one loss. Received: "
                f"loss_weights={kwargs['loss_weights']}"
            )
        token_loss = _token_loss(loss, self.config.pad_id)
        with strategy.scope():
            optimizer = keras.optimizers.get(optimizer)
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if keras_overrides.optimizer_strategy(inner) is not strategy:
            raise ValueError(
                "The optimizer must be created in the scope of the model's "
                "strategy, within `with strategy.scope():`."
            )
        if inner.gradient_accumulation_steps:
            raise ValueError(
                "The optimizer must not accumulate gradients, since it ignores "
                "the number of tokens. Received: gradient_accumulation_steps="
                f"{inner.gradient_accumulation_steps}. Pass it to compile."
            )
        if replicas > 1 and inner.use_ema and inner.ema_overwrite_frequency:
            raise ValueError(
                "Keras cannot overwrite weights with their moving averages "
                "during training on several replicas. Received: "
                f"ema_overwrite_frequency={inner.ema_overwrite_frequency}, "
                f"{replicas} replicas. Leave it out: fit does it at the end."
            )
        with strategy.scope():
            # Keras scales the loss of mixed_float16 only.
            is_float16 = self.dtype_policy.name == "float16"
            if auto_scale_loss and is_float16 and inner is optimizer:
                optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
            super().compile(
                optimizer,
                loss,
                jit_compile=False,  # XLA compiles the gradients alone
                steps_per_execution=steps_per_execution,
                auto_scale_loss=auto_scale_loss,
                **kwargs,
            )
            self.gradient_accumulation_steps = gradient_accumulation_steps
            self._token_loss = token_loss
            self._jits_gradients = jit_compile is True
            self._compute_part = self._part_gradients
            if self._jits_gradients:
                self._compute_part = tf.function(
                    self._part_gradients,
                    autograph=False,
                    jit_compile=True,
                    reduce_retracing=True,
                )
            self.optimizer.build(self.trainable_variables)
        keras_overrides.expect_reduced_gradients(inner)

    def get_compile_config(self) -> dict[str, Any] | None:
        config = super().get_compile_config()
        if config and self.gradient_accumulation_steps > 1:
            steps = self.gradient_accumulation_steps
            config["gradient_accumulation_steps"] = steps
        if config:
            config["jit_compile"] = self._jits_gradients
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras' own does nothing for a class that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))

    fit = _without_class_weight(keras.Model.fit)
    train_on_batch = _without_class_weight(keras.Model.train_on_batch)

    def token_losses(
        self, inputs: Any, labels: Any, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the compiled loss per token, `[B, T]`, and the logits."""
        projection = self.output_projection()
        if projection and type(self.loss) is LabelSmoothedCrossEntropy:
            states = _States(self)(inputs, training=training)
            smoothing = self.loss.label_smoothing
            return fused_linear_cross_entropy(
                labels, states, *projection, smoothing
            )
        logits = self(inputs, training=training)
        losses = self._token_loss(labels, tf.cast(logits, tf.float32))
        if losses.shape.rank != 2:
            raise ValueError(
                "The loss must return a value per target token, [B, T]. "
                f"Received: {self.loss}, which returns {losses.shape}"
            )
        return losses, logits

    def train_step(self, data: Any) -> dict[str, Any]:
        """Updates the weights with a replica's share of a batch."""
        batch, tokens = self._weighted(data)
        gradients, loss = self._gradients(batch)
        # A collective operation takes a single dtype.
        loss = tf.cast(loss, gradients[0].dtype)
        gradients, loss = _all_reduce([gradients, loss])
        self._track("loss", loss, tokens)
        norm = tf.linalg.global_norm(gradients) / self.optimizer.scale_loss(1.0)
        # There is no update if a scaled gradient overflows.
        scaled = isinstance(self.optimizer, keras.optimizers.LossScaleOptimizer)
        counts = tf.math.is_finite(norm) | (not scaled)
        self._track("gradient_norm", tf.where(counts, norm, 0.0), counts)
        # At the end of the data all operations on the batch are cancelled; so
        # must be the update of the iteration counter.
        with tf.control_dependencies([loss]):
            self.optimizer.apply(gradients, self.trainable_variables)
        return self._results()

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluates a replica's share of a batch."""
        batch, tokens = self._weighted(data)
        self._track("loss", _all_reduce(self._loss(batch)), tokens)
        results = self._results()
        del results["gradient_norm"]
        return results

    def _weighted(self, data: Any) -> tuple["_Batch", tf.Tensor]:
        """Returns a batch, and the sum of the weights over all replicas."""
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        weights = token_weights(labels, self.config.pad_id, weights)
        total = _all_reduce(tf.reduce_sum(weights))
        shares = tf.math.divide_no_nan(weights, total)
        return _Batch(inputs, labels, weights, shares), total

    def _loss(
        self, batch: "_Batch", training: bool = False, parts: int = 1
    ) -> tf.Tensor:
        """Returns this replica's part of the loss, and updates the metrics."""
        inputs, labels, weights, shares = batch
        losses, logits = self.token_losses(inputs, labels, training)
        self.compute_metrics(inputs, labels, tf.stop_gradient(logits), weights)
        # From `add_loss` and regularizers; every replica and part adds them.
        added = [tf.cast(tf.reduce_sum(x), tf.float32) for x in self.losses]
        times = parts * self.distribute_strategy.num_replicas_in_sync
        # The loss of labels that are not tokens is NaN, even without a weight.
        losses = tf.math.multiply_no_nan(losses, shares)
        return tf.reduce_sum(losses) + sum(added) / times

    def _gradients(self, batch: "_Batch") -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns this replica's part of the gradients and of the loss."""
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return self._compute_part(batch)
        rows = tf.shape(batch.labels)[0]

        def add_part(part: tf.Tensor, *total: Any) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            more = self._compute_part(
                tf.nest.map_structure(lambda x: x[chosen], batch)
            )
            return part + 1, *tf.nest.map_structure(tf.add, total, more)

        variables = self.trainable_variables
        zeros = [tf.zeros(v.shape, _sum_dtype(v)) for v in variables]
        _, gradients, loss = tf.while_loop(
            # Empty parts run too, so that dropout seeds stay equal.
            lambda part, *_: part < parts,
            add_part,
            (tf.constant(0), zeros, tf.constant(0.0)),
            parallel_iterations=1,
        )
        return gradients, loss

    def _part_gradients(
        self, batch: "_Batch"
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        variables = self.trainable_variables
        with tf.GradientTape() as tape:
            parts = self.gradient_accumulation_steps
            loss = self._loss(batch, training=True, parts=parts)
            scaled = self.optimizer.scale_loss(loss)
        values = [v.value for v in variables]
        zero = tf.UnconnectedGradients.ZERO
        gradients = tape.gradient(scaled, values, unconnected_gradients=zero)
        return [
            # The gradient of a tied embedding is sparse and dense.
            tf.cast(tf.convert_to_tensor(g), _sum_dtype(v))
            for g, v in zip(gradients, variables, strict=True)
        ], loss

    def _track(self, name: str, value: Any, weight: Any) -> None:
        """Adds a value, equal on all replicas, to a mean."""
        metric = next(m for m in self.metrics if m.name == name)
        replicas = self.distribute_strategy.num_replicas_in_sync
        metric.update_state(value, tf.cast(weight, tf.float32) / replicas)

    def _results(self) -> dict[str, Any]:
        """Returns the metrics' results over all replicas."""
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return self.get_metrics_result()
        results = context.merge_call(lambda _: self.get_metrics_result())
        resolver = context.strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        if sum(map(len, cluster.values())) > 1:
            # Keras averages them over the first axis, which scalars lack.
            results = {k: v[tf.newaxis] for k, v in results.items()}
        return results


class _Batch(NamedTuple):
    """A replica's share of a batch."""

    inputs: Any
    labels: tf.Tensor  # [B, T]
    weights: tf.Tensor  # of tokens, [B, T]
    shares: tf.Tensor  # the weights over their sum over all replicas, [B, T]


class _States(keras.layers.Layer):
    """Calls a model's `states` as Keras calls `call`.

    Keras then clears the added losses, passes `training` on, and casts weights.
    """

    def __init__(self, model: DistributedFit) -> None:
        super().__init__(name=model.name, dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.model.states(inputs, training)


def _all_reduce(values: Any) -> Any:
    """Returns the sums of tensors over all replicas."""
    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, values)


def _sum_dtype(variable: Any) -> str:
    """Returns the dtype for sums of gradients of a variable."""
    return keras.backend.result_type(variable.dtype, "float32")


def _token_loss(loss: Any, pad_id: int) -> Callable:
    """Returns the compiled loss as a function with a value per token."""
    if loss is None:
        raise ValueError(
            "compile() needs a loss with a value per target token, such as "
            "LabelSmoothedCrossEntropy(). Received: loss=None"
        )
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
