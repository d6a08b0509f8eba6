"""A dry run: batches, memory and time per step of a training."""

import contextlib
import logging
import sys
import time

import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.train import fitting
from keras_transformer.train import strategy as strategies
from keras_transformer.train.data import batching, pools
from keras_transformer.train.data.prepared import PreparedCorpus
from keras_transformer.train.data.reading import without_tuning
from keras_transformer.train.recipe import Recipe

logger = logging.getLogger(__name__)

_STEPS = 3


def try_steps(
    config: TransformerConfig,
    data: PreparedCorpus,
    recipe: Recipe,
    strategy: tf.distribute.Strategy,
) -> None:
    """Trains for a few steps, and logs the time and memory of a training."""
    model = fitting.compiled_model(config, recipe, strategy)
    fitting.report_data(data, recipe)
    order = fitting.batch_order(data, recipe, strategies.worker(strategy))
    pairs = batching.PairIds(data.shards, data.tokenizer, data.max_length)
    lengths = pools.bucket_lengths(order.max_length)
    shapes = [f"[{recipe.batch_tokens // (2 * x)}, {x}]" for x in lengths]
    per_pass = int(order.count_batches(0).sum())
    logger.info(f"batches: from {shapes[0]} to {shapes[-1]}")
    logger.info(f"steps: {per_pass:,} per pass over the data")
    batch = next(iter(batching.make_batches(pairs, order)))
    # One batch, since a training reads the next ones during a step.
    batches = without_tuning(tf.data.Dataset.from_tensors(batch).repeat())
    batches = strategies.distribute(batches, strategy)
    model.fit(batches, steps_per_epoch=1, shuffle=False, verbose=0)
    start = time.monotonic()
    model.fit(batches, steps_per_epoch=_STEPS, shuffle=False, verbose=0)
    seconds = (time.monotonic() - start) / _STEPS
    logger.info(f"time: {seconds:.2g} s per step, mean of {_STEPS}")
    hours = seconds * recipe.steps / 3600
    logger.info(f"time: {hours:,.2g} hours for {recipe.steps:,} steps")
    with contextlib.suppress(ModuleNotFoundError):  # on Windows
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        logger.info(f"memory: {peak / 1e9:.1f} GB of main memory at the peak")
