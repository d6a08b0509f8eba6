"""Checkpoint averaging (section 6.1)."""

import dataclasses
import os
import shutil
from pathlib import Path

import numpy as np

from keras_transformer.inference.run import step_of
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.train.cost import training_cost
from keras_transformer.train.run import TrainingRun, check_free


def average(
    run: TrainingRun, output: str | os.PathLike, last: int | None = None
) -> TrainingRun:
    """Writes a run whose weights are the mean of another run's checkpoints.

    Section 6.1: base averages the last 5 checkpoints, big the last 20.

    Args:
        run: The run.
        output: Folder of the new run; it must be new or empty. Its recipe is
            the run's, and lists the checkpoints under `averaged`.
        last: Number of checkpoints, the newest ones. Default: as many as
            training keeps.

    Raises:
        InputError: If the run has fewer checkpoints, one of them belongs to
            another run, or `output` is not empty.
    """
    check_free(output)
    if last is None:
        last = run.recipe["max_to_keep"]
    if last < 1:
        raise InputError(f"last must be at least 1. Received: last={last}")
    paths = run.checkpoints()[-last:]
    if len(paths) < last:
        raise InputError(
            f"{run.path} has {len(run.checkpoints())} checkpoints. Received: "
            f"last={last}. Choose fewer, with --last on the command line."
        )
    model, sums = Transformer(run.config), None
    for path in paths:
        run.load_weights(model, path)
        weights = [w.astype("float64") for w in model.get_weights()]
        sums = weights if sums is None else list(map(np.add, sums, weights))
    model.set_weights([total / last for total in sums])
    names = [path.name for path in paths]
    recipe = {**run.recipe, "averaged": names}
    # A run that is averaged again after an interruption starts anew.
    output = Path(output).resolve()
    partial = output.with_name(f".partial-{output.name}")
    shutil.rmtree(partial, ignore_errors=True)
    created = TrainingRun.create(
        partial,
        run.config,
        recipe,
        run.tokenizer,
        {"cost": training_cost(run, step_of(paths[-1]))},
        model=model,
        step=step_of(paths[-1]),
        task=run.task,
    )
    # `check_free` has seen that what is there is unfinished.
    shutil.rmtree(output / "checkpoints", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    for name in (*run.tokenizer.files(), "checkpoints", "config.json"):
        os.replace(partial / name, output / name)
    shutil.rmtree(partial)
    return dataclasses.replace(created, path=output)
