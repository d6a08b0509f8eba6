"""Checkpoint averaging (section 6.1)."""

import os

import numpy as np

from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import load_weights, step_of
from keras_transformer.support.fields import check_values, integer_from
from keras_transformer.support.files import atomic_folder
from keras_transformer.support.logs import progress_bar
from keras_transformer.support.startup import start_keras


def average(
    run: Run, output: str | os.PathLike, last: int | None = None
) -> Run:
    """Averages the last checkpoints of a run into a new run.

    By default it takes as many as training keeps; section 6.1: 5 for base, 20
    for big. The statistics of the new run list them as `averaged`.
    """
    run.find_checkpoint()  # raises if there is none
    paths = run.checkpoints()
    if last is None:
        last = run.request.get("max_to_keep", len(paths))
    else:
        check_values(integer_from(1, len(paths)), last=last)
    paths = paths[-last:]
    start_keras()
    from keras_transformer.model import Transformer

    with atomic_folder(output) as folder:
        model = Transformer(run.config)
        sums = [np.zeros(weight.shape) for weight in model.weights]
        for path in progress_bar(paths, desc="averaging", unit="checkpoint"):
            load_weights(model, path)
            for total, weight in zip(sums, model.get_weights(), strict=True):
                total += weight
        model.set_weights([total / len(paths) for total in sums])
        averaged = [path.name for path in paths]
        Run.create(
            folder,
            run.config,
            run.tokenizer,
            task=run.task,
            search=run.search,
            languages=run.languages,
            statistics={**run.statistics, "averaged": averaged},
            request=run.request,
            model=model,
            step=step_of(paths[-1]),
        )
    return Run.open(output)
