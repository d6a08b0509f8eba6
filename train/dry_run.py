"""A dry run: batches, memory and time per step of a training."""

import contextlib
import logging
import sys
import time

import keras
import tensorflow as tf

from keras_transformer.train.data import batching, pools
from keras_transformer.train.data.reading import without_tuning
from keras_transformer.train.recipe import Recipe

logger = logging.getLogger(__name__)

_STEPS = 3


def try_steps(
    model: keras.Model,
    recipe: Recipe,
    order: batching.BatchOrder,
    pairs: batching.PairIds,
) -> None:
    """Trains for a few steps, and logs the time and memory of a training."""
    lengths = pools.bucket_lengths(order.max_length)
    shapes = [f"[{recipe.batch_tokens // (2 * x)}, {x}]" for x in lengths]
    per_pass = int(order.count_batches(0).sum())
    logger.info(f"batches: from {shapes[0]} to {shapes[-1]}")
    logger.info(f"steps: {per_pass:,} per pass over the data")
    batch = next(iter(batching.make_batches(pairs, order)))
    # One batch, since a training reads the next ones during a step.
    batches = without_tuning(tf.data.Dataset.from_tensors(batch).repeat())
    options = dict(verbose=0, shuffle=False)
    model.fit(batches, steps_per_epoch=1, **options)
    start = time.monotonic()
    model.fit(batches, steps_per_epoch=_STEPS, **options)
    seconds = (time.monotonic() - start) / _STEPS
    logger.info(f"time: {seconds:.2g} s per step, mean of {_STEPS}")
    hours = seconds * recipe.steps / 3600
    logger.info(f"time: {hours:,.2g} hours for {recipe.steps:,} steps")
    with contextlib.suppress(ModuleNotFoundError):  # on Windows
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        logger.info(f"memory: {peak / 1e9:.1f} GB of main memory at the peak")
