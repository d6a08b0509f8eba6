"""The loop of a search; finished sentences leave the batch.

Letters: B = batch, K = hypotheses of a sentence, V = vocabulary, t = tokens
decoded so far, p = prefix length.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding.settings import SearchResult

# step(ids [B, K], parents [B, K], cache, index) -> (log_probs [B, K, V], cache)
StepFunction = Callable[
    [tf.Tensor, tf.Tensor, Any, tf.Tensor], tuple[tf.Tensor, Any]
]


class Constraints(NamedTuple):
    """Maximum length and forced prefix of each sentence."""

    max_lengths: tf.Tensor  # [B] int32, at least 1
    prefix: tf.Tensor  # [B, p + 1] forced tokens, then padding

    @classmethod
    def create(
        cls, max_lengths: tf.Tensor, prefix: tf.Tensor | None, pad_id: int
    ) -> "Constraints":
        """Takes lengths `[B]` and prefixes `[B, p]`."""
        max_lengths = tf.maximum(tf.cast(max_lengths, tf.int32), 1)
        if prefix is None:
            prefix = tf.zeros([tf.shape(max_lengths)[0], 0], tf.int32)
        # After the prefix, padding: any token is allowed.
        prefix = tf.pad(prefix, [[0, 0], [0, 1]], constant_values=pad_id)
        return cls(max_lengths, prefix)

    def forced(self, index: tf.Tensor, eos_id: int) -> tf.Tensor:
        """Returns the forced token, `[B]`; padding where any may follow."""
        last = tf.shape(self.prefix)[1] - 1
        is_last = index + 1 >= self.max_lengths
        prefix = self.prefix[:, tf.minimum(index, last)]
        return tf.where(is_last, eos_id, prefix)


def run_search(
    state: Any,
    extend: Callable[[Any], Any],
    is_live: Callable[[Any], tf.Tensor],
    make_result: Callable[[Any], SearchResult],
    pad_id: int,
) -> SearchResult:
    """Extends the hypotheses of a batch until all sentences are finished.

    When half of the sentences are finished, they leave the batch. The state is
    a NamedTuple of nested tensors: scalars, or with the batch as first axis;
    an axis of length 0 may grow. `state.sentences`, `[B]`, numbers the rows.
    `is_live` returns `[B]`, True for unfinished sentences.
    """

    def most_are_live(state: Any) -> tf.Tensor:
        live = is_live(state)
        count = tf.reduce_sum(tf.cast(live, tf.int32))
        return 2 * count > tf.size(live)

    def extend_most(state: Any, results: SearchResult) -> tuple:
        (state,) = tf.while_loop(
            most_are_live,
            lambda state: (extend(state),),
            (state,),
            shape_invariants=growing_shapes((state,)),
        )
        new = make_result(state)
        longer = tf.shape(new.ids)[2] - tf.shape(results.ids)[2]
        paddings = [[0, 0], [0, 0], [0, longer]]
        ids = tf.pad(results.ids, paddings, constant_values=pad_id)
        results = tf.nest.map_structure(
            lambda old, values: tf.tensor_scatter_nd_update(
                old, state.sentences[:, None], values
            ),
            results._replace(ids=ids),
            new,
        )
        rows = tf.where(is_live(state))[:, 0]
        state = tf.nest.map_structure(
            lambda x: tf.gather(x, rows) if x.shape.rank else x, state
        )
        return state, results

    variables = (state, make_result(state))
    _, results = tf.while_loop(
        lambda state, _: tf.size(state.sentences) > 0,
        extend_most,
        variables,
        shape_invariants=growing_shapes(variables),
    )
    return results


def growing_shapes(state: Any) -> Any:
    """Returns shape invariants: the batch may shrink, axes of length 0 grow."""

    def invariant(tensor: tf.Tensor) -> tf.TensorShape:
        lengths = [length or None for length in tensor.shape]
        return tf.TensorShape([None, *lengths[1:]] if lengths else [])

    return tf.nest.map_structure(invariant, state)
