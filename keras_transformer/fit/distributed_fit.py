"""`fit` and `evaluate` on TensorFlow, exact on any number of replicas.

Letters: B = sequences of a replica's share of the batch, S, T = source and
target length, V = vocabulary.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_transformer.fit.keras_overrides import (
    BuiltWithoutData,
    expect_reduced_gradients,
    optimizer_strategy,
)
from keras_transformer.losses import token_weights

_SUM = tf.distribute.ReduceOp.SUM
_TOKEN_MEAN = ("mean_with_sample_weight", "sum_over_batch_size", "mean")


class DistributedFit(BuiltWithoutData):
    """A `keras.Model` whose loss is a mean over the batch's target tokens.

    Keras averages the losses, gradients and metrics of the replicas, so that
    a token weighs more on a replica that has fewer of them. Here the loss,
    its gradient, clipping and all logged values are those of the global
    batch: the same on one replica and on many, for shares of any size.

    The compiled optimizer, loss and metrics are used as in Keras. The loss
    must give a value per token (its `call`, not `compute_loss`); each value is
    weighted by `sample_weight` where there is one, and padding by 0. So are
    the values of `weighted_metrics`; Keras passes no weights to `metrics`,
    among which those of this package ignore padding by themselves. `fit` also
    logs `gradient_norm`, the mean norm of the gradient before clipping.

    A subclass has a `config.pad_id` and is built by its constructor.
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
        **kwargs: Any,
    ) -> None:
        """Configures training; see `keras.Model.compile`.

        Args:
            optimizer: As in Keras. Its `global_clipnorm` limits the norm of
                the gradient of the global batch.
            loss: As in Keras.
            gradient_accumulation_steps: Parts in which each replica computes
                its share of a batch, one after the other, to save memory. It
                is one update with the same gradient.
            jit_compile: As in Keras, but `"auto"` is False: XLA compiles
                again for every length of batch.
            steps_per_execution: As in Keras.
            **kwargs: Other arguments of `keras.Model.compile`.

        Raises:
            ValueError: If an argument cannot be honored exactly.
        """
        replicas = self.distribute_strategy.num_replicas_in_sync
        for name, value, supported in (
            ("steps_per_execution", steps_per_execution, (1,)),
            ("jit_compile", jit_compile, (False, None, "auto")),
        ):
            if replicas > 1 and value not in supported:
                raise ValueError(
                    f"Keras does not support {name} on several replicas. "
                    f"Received: {name}={value}, {replicas} replicas; leave "
                    "the argument out."
                )
        if gradient_accumulation_steps < 1:
            raise ValueError(
                "gradient_accumulation_steps must be positive. Received: "
                f"gradient_accumulation_steps={gradient_accumulation_steps}"
            )
        if kwargs.get("loss_weights") is not None:
            raise ValueError(
                "A Transformer has one loss. Received: "
                f"loss_weights={kwargs['loss_weights']}"
            )
        pad_id = getattr(loss, "pad_id", self.config.pad_id)
        if pad_id != self.config.pad_id:
            raise ValueError(
                "The loss and the model must have the same pad_id. Received: "
                f"{pad_id} of the loss, {self.config.pad_id} of the model"
            )
        with self.distribute_strategy.scope():
            optimizer = keras.optimizers.get(optimizer)
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if optimizer_strategy(inner) is not self.distribute_strategy:
            raise ValueError(
                "The optimizer must be created in the scope of the strategy "
                "that the model was created in. Create it within `with "
                "strategy.scope():`."
            )
        if inner.gradient_accumulation_steps:
            raise ValueError(
                "The optimizer must not accumulate gradients: it would average "
                "batches, whatever their number of tokens. Received: "
                "gradient_accumulation_steps="
                f"{inner.gradient_accumulation_steps}. Use larger batches "
                "with compile(..., gradient_accumulation_steps=N), which "
                "computes each batch in N parts."
            )
        with self.distribute_strategy.scope():
            super().compile(
                optimizer,
                loss,
                jit_compile=jit_compile is True,
                steps_per_execution=steps_per_execution,
                **kwargs,
            )
            self.gradient_accumulation_steps = gradient_accumulation_steps
            self._token_loss = _token_loss(loss)
            self.optimizer.build(self.trainable_variables)
        expect_reduced_gradients(inner)

    def get_compile_config(self) -> dict[str, Any] | None:
        config = super().get_compile_config()
        if config and self.gradient_accumulation_steps > 1:
            steps = self.gradient_accumulation_steps
            config["gradient_accumulation_steps"] = steps
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras' own does nothing for a class that overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))

    def token_losses(
        self, inputs: Any, labels: Any, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the compiled loss per token, and the logits.

        Args:
            inputs: What `call` takes.
            labels: `[B, T]` ids.
            training: Whether dropout is applied.

        Returns:
            float32 `[B, T]` and `[B, T, V]`.
        """
        logits = self(inputs, training=training)
        return self._token_loss(labels, tf.cast(logits, tf.float32)), logits

    def train_step(self, data: Any) -> dict[str, Any]:
        """Updates the weights with a replica's share of a batch.

        Args:
            data: `(inputs, labels)` or `(inputs, labels, sample_weight)`.

        Returns:
            The metrics of the epoch so far, over all replicas.
        """
        inputs, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(
            data
        )
        weights, share, tokens = self._token_weights(labels, sample_weight)
        batch = (inputs, labels, weights, share)
        gradients, loss = self._gradients(batch)
        context = tf.distribute.get_replica_context()
        gradients, loss = context.all_reduce(_SUM, [gradients, loss])
        self._track(self._loss_metric(), loss, tokens)
        norm = tf.linalg.global_norm(gradients) / self.optimizer.scale_loss(1.0)
        # A float16 gradient that overflows updates nothing.
        counts = tf.math.is_finite(norm) | (self.compute_dtype != "float16")
        self._track(self._gradient_norm, tf.where(counts, norm, 0.0), counts)
        # Else the end of the data would add an iteration: it cancels what
        # depends on a batch, and the iteration counter does not.
        with tf.control_dependencies([loss]):
            self.optimizer.apply(gradients, self.trainable_variables)
        return self._results(self.metrics)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Evaluates a replica's share of a batch; see `train_step`."""
        inputs, labels, sample_weight = keras.utils.unpack_x_y_sample_weight(
            data
        )
        weights, share, tokens = self._token_weights(labels, sample_weight)
        losses, logits = self.token_losses(inputs, labels, training=False)
        loss = tf.reduce_sum(losses * share) + self._regularization(parts=1)
        loss = tf.distribute.get_replica_context().all_reduce(_SUM, loss)
        self._track(self._loss_metric(), loss, tokens)
        self.compute_metrics(inputs, labels, logits, weights)
        return self._results(
            [m for m in self.metrics if m is not self._gradient_norm]
        )

    def _token_weights(
        self, labels: tf.Tensor, sample_weight: Any
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the weight of each token here and in the global batch.

        Returns:
            The weights, float32 `[B, T]`; the same divided by their sum over
            all replicas; and that sum.
        """
        weights = token_weights(labels, self.config.pad_id, sample_weight)
        total = tf.distribute.get_replica_context().all_reduce(
            _SUM, tf.reduce_sum(weights)
        )
        return weights, tf.math.divide_no_nan(weights, total), total

    def _gradients(self, batch: tuple) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns this replica's part of the gradients and of the loss."""
        parts = self.gradient_accumulation_steps
        if parts == 1:
            return self._part_gradients(batch)
        rows = tf.shape(batch[1])[0]

        def add_part(
            part: tf.Tensor, gradients: list, loss: tf.Tensor
        ) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            more, part_loss = self._part_gradients(
                tf.nest.map_structure(lambda x: x[chosen], batch)
            )
            total = [a + b for a, b in zip(gradients, more, strict=True)]
            return part + 1, total, loss + part_loss

        _, gradients, loss = tf.while_loop(
            # Empty parts too: every replica draws as much dropout.
            lambda part, *_: part < parts,
            add_part,
            (
                tf.constant(0),
                [tf.zeros(v.shape) for v in self.trainable_variables],
                tf.constant(0.0),
            ),
            parallel_iterations=1,
        )
        return gradients, loss

    def _part_gradients(
        self, batch: tuple
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        inputs, labels, weights, share = batch
        parts = self.gradient_accumulation_steps
        with tf.GradientTape() as tape:
            losses, logits = self.token_losses(inputs, labels, training=True)
            loss = tf.reduce_sum(losses * share) + self._regularization(parts)
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(
            scaled,
            [variable.value for variable in self.trainable_variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        self.compute_metrics(inputs, labels, logits, weights)
        # Of the tied embedding: rows that were looked up plus a matrix.
        return [tf.convert_to_tensor(g) for g in gradients], loss

    def _regularization(self, parts: int) -> tf.Tensor:
        """Returns this part's share of what `add_loss` and regularizers add."""
        replicas = self.distribute_strategy.num_replicas_in_sync
        total = tf.add_n([tf.constant(0.0), *map(tf.reduce_sum, self.losses)])
        return total / (replicas * parts)

    def _loss_metric(self) -> keras.metrics.Metric:
        return next(m for m in self.metrics if m.name == "loss")

    def _track(self, metric: Any, value: Any, weight: Any) -> None:
        """Adds a value that all replicas have to a mean, once."""
        context = tf.distribute.get_replica_context()
        first = tf.equal(context.replica_id_in_sync_group, 0)
        metric.update_state(
            value, tf.cast(weight, tf.float32) * tf.cast(first, tf.float32)
        )

    def _results(self, metrics: list) -> dict[str, Any]:
        """Returns the results of metrics, summed over all replicas first."""

        def read(strategy: tf.distribute.Strategy) -> dict[str, Any]:
            results: dict[str, Any] = {}
            for metric in metrics:
                result = metric.result()
                if isinstance(result, dict):  # the compiled metrics
                    results.update(result)
                else:
                    results[metric.name] = result
            return results

        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return read(context.strategy)
        results = context.merge_call(read)
        resolver = context.strategy.cluster_resolver
        cluster = resolver.cluster_spec().as_dict() if resolver else {}
        if len(cluster.get("worker", ())) > 1:
            # Keras averages them over their first axis, which scalars lack.
            results = {k: v[tf.newaxis] for k, v in results.items()}
        return results


def _token_loss(loss: Any) -> Any:
    """Returns what computes the compiled loss per token."""
    if loss is None:
        raise ValueError(
            "compile() needs a loss that has a value per target token, such "
            "as LabelSmoothedCrossEntropy(). Received: loss=None"
        )
    loss = keras.losses.get(loss)
    if not isinstance(loss, keras.losses.Loss):
        return loss
    if loss.reduction not in _TOKEN_MEAN:
        raise ValueError(
            "The loss of a Transformer is a mean over target tokens. "
            f"Received: {type(loss).__name__} with "
            f"reduction={loss.reduction!r}; leave the reduction out."
        )
    return loss.call
