"""Operations of a SavedModel that TensorFlow Serving has, and since when."""

from functools import partial

import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla as tfxla

from keras_transformer.export.saved_model.serving_operations import (
    oldest_serving,
)
from keras_transformer.support.errors import InputError

IDS = tf.TensorSpec([None], tf.int32, name="ids")


def save(function, folder):
    module = tf.Module()
    module.function = tf.function(function, input_signature=[IDS])
    tf.saved_model.save(module, folder, signatures=module.function)
    return folder


def segment_max(ids):
    return tf.raw_ops.SegmentMaxV2(
        data=ids, segment_ids=tf.zeros_like(ids), num_segments=1
    )


def check_pinned(ids):
    return tf.raw_ops.CheckPinned(tensor=ids)


@pytest.mark.parametrize(
    ("functions", "release"),
    [
        ([tf.abs], "2.12"),
        ([tf.abs, segment_max], "2.15"),
        ([check_pinned, segment_max], "2.18"),
    ],
)
def test_the_oldest_release_is_named(tmp_path, functions, release):
    def function(ids):
        for added in functions:
            # In a function of the graph, as most operations are.
            ids = tf.cond(
                tf.size(ids) > 0, partial(added, ids), partial(tf.abs, ids)
            )
        return {"ids": ids}

    assert oldest_serving(save(function, tmp_path)) == release


@pytest.mark.parametrize("operation", ["XlaDynamicUpdateSlice", "PyFunc"])
def test_operations_that_a_server_lacks_are_refused(tmp_path, operation):
    def function(ids):
        if operation == "PyFunc":
            y = tf.numpy_function(lambda x: x, [ids], tf.int32)
            return {"ids": tf.ensure_shape(y, [None])}
        return {"ids": tfxla.dynamic_update_slice(ids, ids[:1], [0])}

    with pytest.raises(InputError, match=f"only. Received: {operation}"):
        oldest_serving(save(function, tmp_path))


def test_a_function_that_xla_must_compile_is_refused(tmp_path):
    compiled = tf.function(lambda ids: 2 * ids, jit_compile=True)
    with pytest.raises(InputError, match="Received: .* jit_compile=True"):
        oldest_serving(save(lambda ids: {"ids": compiled(ids)}, tmp_path))
