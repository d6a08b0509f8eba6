"""The private methods of Keras that this library overrides, and no others.

tests/test_keras_overrides.py fails when Keras changes one of them.
"""

from typing import Any

import keras


class NoSymbolicBuild(keras.Model):
    """A model that is built by its constructor and by `compile`.

    Under a strategy Keras builds a model from the first batch, which it
    averages over the replicas. That fails if their shares differ in size,
    and the batch is lost.
    """

    def _maybe_symbolic_build(self, *args: Any, **kwargs: Any) -> None:
        pass


def expect_reduced_gradients(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes an optimizer apply gradients that are summed over replicas.

    Keras sums them itself, after it has clipped those of each replica.

    Args:
        optimizer: Changed in place. Not a `LossScaleOptimizer`, but the
            optimizer inside it.
    """
    optimizer._all_reduce_sum_gradients = list
