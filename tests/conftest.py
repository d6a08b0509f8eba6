import functools
import gc
import os
import types

# Tests run in several processes, so that each computes with one thread.
for name in (
    "OMP_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
):
    os.environ.setdefault(name, "1")

# Two devices of JAX.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=2"
)

import pytest

from keras_transformer.support.startup import quiet_tensorflow_import

with quiet_tensorflow_import():
    import keras
    from keras.src.utils import rng_utils

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator
    from translation_fixtures import (  # noqa: F401
        exported,
        litert_folder,
        model,
        pairs,
        tokenizer,
        translator,
    )

    from keras_transformer.train.data.reading import without_tuning

    # Two replicas for what trains under `mirrored`.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )

    # Deleting an iterator joins its tuning thread, which sleeps on for up to
    # a minute.
    create_iterator = OwnedIterator._create_iterator
    OwnedIterator._create_iterator = lambda self, dataset: create_iterator(
        self, without_tuning(dataset)
    )


def pytest_collection_finish():
    """Garbage is searched for rarely, and not in what was imported.

    Tracing makes millions of objects, which a search passes through again and
    again: an eighth of the time of all tests.
    """
    gc.freeze()
    # Keras collects garbage for each variable that a layer replaces.
    gc.collect = functools.partial(gc.collect, generation=0)
    gc.set_threshold(50_000, 20, 50)


# With slow tests, these files take a minute or more.
LONGEST = ("notebooks", "kill", "documents", "strategy", "multilingual")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begins with the files that take long.

    Processes get the files in this order (`--no-loadscope-reorder`), and none
    waits for another at the end.
    """
    long = {i.path for i in items if i.get_closest_marker("slow")}

    def place(item):
        name = item.path.stem.removeprefix("test_")
        if name in LONGEST:
            return LONGEST.index(name)
        return len(LONGEST) + (item.path not in long)

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _same_start():
    """No test depends on what ran before it, nor on a user's settings."""
    with pytest.MonkeyPatch.context() as patched:
        # Setting TensorFlow's own seed, which nothing here uses, makes it
        # forget its kernels: graphs would be prepared again for each test.
        unavailable = types.SimpleNamespace(available=False)
        patched.setattr(rng_utils, "tf", unavailable, raising=False)
        keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("float32")
