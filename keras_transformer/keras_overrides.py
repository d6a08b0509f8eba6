"""The methods of Keras that training overrides though Keras hides them.

There are no others, but for `make_train_function` of `Training`, which Keras
documents. tests/train/test_hooks.py fails when Keras changes them.
"""

from typing import Any

import keras
import tensorflow as tf


class NoSymbolicBuild(keras.Model):
    """A model that is built before `fit`, which then takes no batch for it.

    Under a strategy Keras 3.15 takes the first batch, averages it over the
    replicas, which fails if their shares differ in size, and drops it.
    """

    def _maybe_symbolic_build(self, *args: Any, **kwargs: Any) -> None:
        pass


class FusedAdam(keras.optimizers.Adam):
    """Keras' Adam as one operation a variable, for reduced gradients.

    Keras' own takes about ten operations a variable, each of which reads and
    writes memory: 26 ms instead of 10 ms for 7.6M parameters on two cores.

    Gradients must be those of all replicas together, since clipping them by
    their norm comes before: Keras would add them up over replicas, and clip
    on each replica by itself.
    """

    def update_step(
        self, gradient: Any, variable: Any, learning_rate: Any
    ) -> None:
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, tf.float32)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(self.beta_1, step),
            beta2_power=tf.pow(self.beta_2, step),
            lr=learning_rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )

    def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> list:
        return list(grads_and_vars)
