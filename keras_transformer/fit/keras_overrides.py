"""All private attributes of Keras that this library overrides or reads.

Tests fail when Keras changes one of them.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

HALF = ("float16", "bfloat16")


class BuiltWithoutData(keras.Model):
    """A model of ids `[B, T]` that `fit` does not build from a batch.

    Under a strategy Keras builds model, metrics and optimizer from the average
    of the replicas' first batches, which fails if these differ in size. Here
    `config.vocab_size` builds the metrics, and symbolic inputs the layers that
    the constructor has not built.
    """

    def _maybe_symbolic_build(self, *args: Any, **kwargs: Any) -> None:
        ids = keras.KerasTensor((None, None), "int32")
        strategy = self.distribute_strategy
        with strategy.scope():
            if not self.optimizer.built:
                self({"source": ids, "target": ids})
                self.optimizer.build(self.trainable_variables)
            if strategy.num_replicas_in_sync == 1:
                return
            for metric in super().metrics:
                if metric.name == "compile_metrics" and not metric.built:
                    shape = (None, None, self.config.vocab_size)
                    metric.build(ids, keras.KerasTensor(shape))


def unlock(model: keras.Model) -> None:
    """Lets a subclass add layers and metrics after `super().__init__`."""
    model._tracker.unlock()


# On PyTorch Keras makes each Adam an instance of a subclass, which updates all
# weights at once and computes in their dtype.
_Adam = type(keras.optimizers.Adam.__new__(keras.optimizers.Adam))


class AdamInHalfPrecision(_Adam):
    """Keras' Adam, which calls `update_step` for half-precision weights."""

    def _parallel_update_step(
        self, grads: list, variables: list, learning_rate: Any
    ) -> None:
        if variables[0].dtype in HALF:
            for gradient, variable in zip(grads, variables, strict=True):
                self.update_step(gradient, variable, learning_rate)
        else:
            super()._parallel_update_step(grads, variables, learning_rate)


@contextlib.contextmanager
def without_all_reduce(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Within the block, the optimizer expects gradients summed over replicas.

    Keras would sum them after clipping on each replica. Replicas are traced
    by turns: none leaves before all have passed the sum.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    optimizer._all_reduce_sum_gradients = list
    try:
        yield
    finally:
        vars(optimizer).pop("_all_reduce_sum_gradients", None)


def save_without_optimizer(model: keras.Model, path: Path) -> None:
    """Writes the weights of a model to a new file `.weights.h5`."""
    # Keras passes an undocumented argument on.
    optimizer = getattr(model, "optimizer", None)
    keras.saving.save_weights(
        model, path, overwrite=True, objects_to_skip=[optimizer]
    )


def inner_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns all layers inside a layer, at any depth."""
    return layer._flatten_layers(include_self=False)


def adam_moments(
    optimizer: keras.optimizers.Adam, variable: Any
) -> tuple[keras.Variable, keras.Variable]:
    """Returns the first and second moment of a variable's gradient."""
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index], optimizer._velocities[index]
