"""One update: the mean gradient over all target tokens of a global batch.

Letters: B = pairs of a replica's share, S, T = source and target length,
W = workers.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_transformer.keras_overrides import FusedAdam, NoSymbolicBuild
from keras_transformer.losses import tied_cross_entropies
from keras_transformer.model import Transformer
from keras_transformer.optimizers import adam

_SUM = tf.distribute.ReduceOp.SUM


class Training(NoSymbolicBuild):
    """Trains a Transformer with `fit`, exactly alike on one replica or many.

    Make it, and the Transformer, within the scope of the strategy. `fit`
    takes what `distribute` gives. Unlike Keras' own training step,
    which averages the replicas' means, this one weighs every target token of
    the global batch alike, whatever share of it a replica has.

    Args:
        transformer: The model that is trained.
        label_smoothing: Probability taken from the right token.
        accumulate: Parts in which each replica computes its share.
        clip_norm: Highest norm of the gradient; None: any.
        warmup_steps: Steps over which the learning rate rises.
        learning_rate_scale: Factor on the paper's learning rate.
    """

    def __init__(
        self,
        transformer: Transformer,
        label_smoothing: float = 0.1,
        accumulate: int = 1,
        clip_norm: float | None = None,
        warmup_steps: int = 4000,
        learning_rate_scale: float = 1.0,
    ) -> None:
        super().__init__(dtype=transformer.dtype_policy)
        self.transformer = transformer
        self.label_smoothing = label_smoothing
        self.accumulate = accumulate
        self.clip_norm = clip_norm
        paper = adam(
            transformer.config.d_model, warmup_steps, learning_rate_scale
        )
        # Named, since the state of training goes by names.
        optimizer = FusedAdam.from_config(
            {**paper.get_config(), "name": "adam"}
        )
        # XLA would compile anew for each length of batch.
        self.compile(optimizer, jit_compile=False)
        self.optimizer.build(self.trainable_variables)
        self.built = True
        self._validation_step: Callable | None = None

    def train_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """Updates the weights with a replica's share of a batch.

        Args:
            data: `(({"source": [B, S], "target": [B, T]}, labels [B, T]),
                position [W, 2])`.

        Returns:
            Of the global batch: `loss` and `nll`, nats a target token; the
            `tokens` of the target; `gradient_norm`, before clipping; the
            `learning_rate`, and `position`, what follows in the data.
        """
        (inputs, labels), position = data
        context = tf.distribute.get_replica_context()
        is_token = labels != self.transformer.config.pad_id
        tokens, position = context.all_reduce(
            _SUM,
            [
                tf.reduce_sum(tf.cast(is_token, tf.float32)),
                tf.cast(position, tf.float32),  # exact up to 2^24
            ],
        )
        learning_rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        gradients, losses = self._gradients(
            inputs, labels, tf.maximum(tokens, 1.0)
        )
        gradients, losses = context.all_reduce(_SUM, [gradients, losses])
        loss_scale = self.optimizer.scale_loss(1.0)
        norm = tf.linalg.global_norm(gradients) / loss_scale
        if self.clip_norm is not None:
            factor = tf.minimum(1.0, self.clip_norm / norm)
            gradients = [gradient * factor for gradient in gradients]
        self.optimizer.apply(gradients, self.trainable_variables)
        return {
            "loss": losses[0],
            "nll": losses[1],
            "tokens": tokens,
            "gradient_norm": norm,
            "learning_rate": learning_rate,
            "position": position,
        }

    def _gradients(
        self, inputs: dict[str, tf.Tensor], labels: tf.Tensor, tokens: Any
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns this replica's part of the gradients, and of loss and nll."""
        if self.accumulate == 1:
            return self._gradients_of(inputs, labels, tokens)
        rows, parts = tf.shape(labels)[0], self.accumulate

        def add(part: tf.Tensor, gradients: list, losses: tf.Tensor) -> tuple:
            chosen = slice(part * rows // parts, (part + 1) * rows // parts)
            new, more = self._gradients_of(
                {name: ids[chosen] for name, ids in inputs.items()},
                labels[chosen],
                tokens,
            )
            new = [a + b for a, b in zip(gradients, new, strict=True)]
            return part + 1, new, losses + more

        _, gradients, losses = tf.while_loop(
            # Empty parts too: every replica draws as much dropout.
            lambda part, *_: part < parts,
            add,
            (
                tf.constant(0),
                [tf.zeros(v.shape) for v in self.trainable_variables],
                tf.zeros([2]),
            ),
            parallel_iterations=1,
        )
        return gradients, losses

    def _gradients_of(
        self, inputs: dict[str, tf.Tensor], labels: tf.Tensor, tokens: Any
    ) -> tuple[list[tf.Tensor], tf.Tensor]:
        with tf.GradientTape() as tape:
            losses = self._sums_of(inputs, labels, True) / tokens
            loss = self.optimizer.scale_loss(losses[0])
        variables = [v.value for v in self.trainable_variables]
        gradients = tape.gradient(loss, variables)
        # Of the tied embedding: rows that were looked up plus a matrix.
        return [tf.convert_to_tensor(g) for g in gradients], losses

    def _sums_of(
        self, inputs: dict[str, tf.Tensor], labels: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """Returns the sums `[2]` of the loss and of the nll over tokens."""
        model = self.transformer
        states = model.states(inputs, training=training)
        labels = tf.reshape(labels, [-1])  # [N], N = B * T
        losses = tied_cross_entropies(
            labels,
            tf.reshape(states, [-1, model.config.d_model]),
            model.embedding.embeddings.value,
            self.label_smoothing,
        )
        is_token = tf.cast(labels != model.config.pad_id, tf.float32)
        return tf.reduce_sum(losses * is_token, axis=1)  # [2, N] -> [2]

    def make_train_function(self, force: bool = False) -> Callable:
        """Makes what `fit` calls for every step."""
        if self.train_function is None or force:
            self.train_function = self._on_all_replicas(self.train_step)
        return self.train_function

    def _on_all_replicas(self, step: Callable) -> Callable:
        strategy = self.distribute_strategy
        compiled = None

        def run(data: Any) -> Any:
            return strategy.run(step, args=(data,))

        def next_step(iterator: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                # One graph for all shapes from the first step on. A graph of
                # the first shape, which TensorFlow would make, rounds
                # otherwise, and a run that is resumed has another first.
                compiled = tf.function(run, [iterator.element_spec])
            # Every replica has the same: what all of them reduced.
            return tf.nest.map_structure(
                lambda value: strategy.experimental_local_results(value)[0],
                compiled(next(iterator)),
            )

        return next_step

    def validate(self, batches: Any) -> dict[str, float]:
        """Returns `val_loss` and `val_nll`, nats a target token.

        Args:
            batches: What `distribute` gives, of a finite dataset.
        """

        def step(data: tuple) -> tf.Tensor:
            (inputs, labels), _ = data
            is_token = labels != self.transformer.config.pad_id
            losses = self._sums_of(inputs, labels, False)
            tokens = tf.reduce_sum(tf.cast(is_token, tf.float32))
            return tf.distribute.get_replica_context().all_reduce(
                _SUM, tf.concat([losses, [tokens]], axis=0)
            )

        if self._validation_step is None:
            self._validation_step = self._on_all_replicas(step)
        iterator, sums = iter(batches), tf.zeros([3], tf.float64)
        while True:
            try:
                batch = self._validation_step(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                break
            sums += tf.cast(batch, tf.float64)
        loss, nll, tokens = sums.numpy()
        return {"val_loss": loss / tokens, "val_nll": nll / tokens}
