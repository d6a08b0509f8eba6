"""The training state in `state.npz`: everything that training resumes from."""

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.inference.run_folder import RunFolder
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write

if TYPE_CHECKING:
    import keras

FORMAT = 2


def save_state(
    run: RunFolder, model: "keras.Model", step: int, positions: np.ndarray
) -> None:
    """Writes the state of a compiled model after an update atomically.

    `positions`, `[workers, 2]`, are the next batches of each worker's data.
    """
    variables = model_variables(model)
    header = dict(format=FORMAT, run=run.id, step=step, names=list(variables))
    values = (variable.numpy() for variable in variables.values())
    arrays = {f"{i:06d}": value for i, value in enumerate(values)}
    with atomic_write(run.state_path) as partial, open(partial, "wb") as file:
        np.savez(file, header=json.dumps(header), position=positions, **arrays)


def load_state(run: RunFolder, model: "keras.Model") -> tuple[int, np.ndarray]:
    """Assigns what `save_state` wrote for this run; returns step, positions."""
    variables = model_variables(model)
    with _open_state(run.state_path) as (header, file):
        owner, step, names = (header[x] for x in ("run", "step", "names"))
        positions = file["position"]
        values = {name: file[f"{i:06d}"] for i, name in enumerate(names)}
    if owner != run.id:
        raise InputError(
            f"{run.state_path} must be the state of run {run.id[:8]}, in "
            f"whose folder it is. Received: that of run {owner[:8]}. Restore "
            "the right file."
        )
    received = ((name, x.shape, x.dtype.name) for name, x in values.items())
    expected = (
        (name, tuple(v.shape), v.dtype) for name, v in variables.items()
    )
    for saved, needed in itertools.zip_longest(received, expected):
        if saved != needed:
            raise InputError(
                "The training state must have the model's "
                f"{len(variables)} variables. Received: {len(values)} "
                f"variables, {saved} instead of {needed}"
            )
    for name, value in values.items():
        variables[name].assign(value)
    return step, positions


def load_step(path: Path) -> int:
    """Reads the number of updates alone; raises as `load_state` does."""
    with _open_state(path) as (header, _):
        return header["step"]


@contextlib.contextmanager
def _open_state(path: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    try:
        with np.load(path) as file:
            header = json.loads(str(file["header"]))
            if header["format"] != FORMAT:
                raise InputError(
                    f"{path} must have format {FORMAT}. Received: "
                    f"format={header['format']}. It was written by another "
                    "version."
                )
            yield header, file
    except (InputError, PermissionError):
        raise
    except Exception as error:  # a damaged file may raise anything
        raise InputError(
            f"{path} must be a training state. Received: {error}. It is "
            "damaged or was written by another version: train into another "
            "folder, perhaps with --init-from this run."
        ) from error


def model_variables(model: "keras.Model") -> dict[str, "keras.Variable"]:
    """Returns weights, dropout seeds and the optimizer's variables by name.

    The names are the same in every process.
    """
    metrics = {id(variable) for variable in model.metrics_variables}
    variables = [v for v in model.variables if id(v) not in metrics]
    variables += model.optimizer.variables
    # Keras numbers the seed generators of a process.
    return {re.sub(r"generator_\d+", "generator", v.path): v for v in variables}
