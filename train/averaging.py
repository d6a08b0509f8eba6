"""Checkpoint averaging (section 6.1)."""

import os
from pathlib import Path

import numpy as np

from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.weight_files import load_weights, step_of
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.support.progress import progress_bar
from keras_transformer.support.startup import import_tensorflow_quietly


def average(
    run: Run, output: str | os.PathLike, last: int | None = None
) -> Run:
    """Writes a run whose weights are the mean of another run's checkpoints.

    They are the last ones, by default as many as training keeps; section 6.1:
    5 for base, 20 for big. The new run's recipe lists them as `averaged`.
    """
    check_free(output)
    paths = choose_checkpoints(run, last)
    import_tensorflow_quietly()
    from keras_transformer.model import Transformer

    model, sums = Transformer(run.config), None
    for path in progress_bar(paths, desc="averaging", unit="checkpoint"):
        load_weights(model, path)
        weights = [w.astype("float64") for w in model.get_weights()]
        sums = weights if sums is None else list(map(np.add, sums, weights))
    model.set_weights([total / len(paths) for total in sums])
    return Run.create(
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


def choose_checkpoints(run: Run, last: int | None = None) -> list[Path]:
    """Returns the checkpoints that `average` takes."""
    if last is not None and last < 1:
        raise InputError(f"last must be at least 1. Received: last={last}")
    run.find_checkpoint()  # raises if there is none
    checkpoints = run.checkpoints()
    if last is not None and len(checkpoints) < last:
        raise InputError(
            f"{run.path} has {len(checkpoints)} checkpoints. Received: "
            f"last={last}. Choose fewer, with --last on the command line."
        )
    # A run may have a recipe of its own.
    count = last or run.recipe.get("max_to_keep", len(checkpoints))
    return checkpoints[-count:]
