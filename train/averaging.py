"""Checkpoint averaging (section 6.1)."""

import logging
import os

import numpy as np

from keras_transformer.inference.run_folder import step_of
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.train.training_run import TrainingRun

logger = logging.getLogger(__name__)


def average(
    run: TrainingRun, output: str | os.PathLike, last: int | None = None
) -> TrainingRun:
    """Writes a run whose weights are the mean of another run's checkpoints.

    Section 6.1: base averages the last 5 checkpoints, big the last 20. Warns
    if one of them is from before the last third of the training. The recipe
    of the new run lists the checkpoints under `averaged`.
    """
    check_free(output)
    if last is not None and last < 1:
        raise InputError(f"last must be at least 1. Received: last={last}")
    run.find_checkpoint()  # refuses a run that has none
    found = run.checkpoints()
    if last is not None and len(found) < last:
        raise InputError(
            f"{run.path} has {len(found)} checkpoints. Received: last={last}. "
            "Choose fewer, with --last on the command line."
        )
    # A run may have a recipe of its own.
    count = last or run.recipe.get("max_to_keep", len(found))
    paths = found[-count:]
    _warn_of_early_checkpoints(run, [step_of(path) for path in paths])
    model, sums = Transformer(run.config), None
    for path in paths:
        run.load_weights(model, path)
        weights = [w.astype("float64") for w in model.get_weights()]
        sums = weights if sums is None else list(map(np.add, sums, weights))
    model.set_weights([total / len(paths) for total in sums])
    return TrainingRun.create(
        output,
        run.config,
        {**run.recipe, "averaged": [path.name for path in paths]},
        run.tokenizer,
        run.statistics,
        model=model,
        step=step_of(paths[-1]),
        task=run.task,
        search=run.search,
    )


def _warn_of_early_checkpoints(run: TrainingRun, steps: list[int]) -> None:
    if len(steps) == 1:
        problem = "a single checkpoint: the result has its weights"
    elif 3 * steps[0] < 2 * steps[-1]:
        problem = (
            f"the checkpoint of step {steps[0]:,}, which is before the last "
            f"third of the {steps[-1]:,} steps. The mean may be worse than the "
            "last checkpoint: compare them with `evaluate`, or average fewer"
        )
    else:
        return
    logger.warning(f"{run.path} is averaged from {problem}.")
