"""The training state in `state.npz`: everything that training resumes from."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.inference.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write

if TYPE_CHECKING:
    import keras


def save_state(
    run: Run, model: "keras.Model", step: int, positions: np.ndarray
) -> None:
    """Writes the state of a compiled model after an update atomically.

    `positions`, `[workers, 2]`, are the next batches of each worker's data.
    """
    variables = model_variables(model)
    header = dict(step=step, names=list(variables))
    values = (variable.numpy() for variable in variables.values())
    arrays = {f"{i:06d}": value for i, value in enumerate(values)}
    with atomic_write(run.state_path) as partial, open(partial, "wb") as file:
        np.savez(file, header=json.dumps(header), position=positions, **arrays)


def load_state(run: Run, model: "keras.Model") -> tuple[int, np.ndarray]:
    """Assigns what `save_state` wrote for this run; returns step, positions."""
    variables = model_variables(model)
    with _open_state(run.state_path) as (header, file):
        step, names = header["step"], header["names"]
        positions = file["position"]
        values = {name: file[f"{i:06d}"] for i, name in enumerate(names)}
    for name, variable in variables.items():
        variable.assign(values[name])
    return step, positions


def load_step(path: Path) -> int:
    """Reads the number of updates alone; raises as `load_state` does."""
    with _open_state(path) as (header, _):
        return header["step"]


@contextlib.contextmanager
def _open_state(path: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    try:
        with np.load(path) as file:
            yield json.loads(str(file["header"])), file
    except PermissionError:
        raise
    except Exception as error:  # a damaged file may raise anything
        raise InputError(
            f"{path} must be a training state. Received: {error}. It is "
            "damaged: train into a different folder, perhaps with --init-from "
            "this run."
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
