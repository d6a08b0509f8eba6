"""The training state in `state.npz`: everything that training resumes from."""

import contextlib
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write

FORMAT = 2


class State(NamedTuple):
    """Training after an update."""

    step: int  # updates so far
    position: np.ndarray  # [workers, 2], the next batch of each worker's data
    names: list[str]  # of the variables
    # Weights, dropout seeds and the optimizer's variables.
    variables: list[np.ndarray]


def get_state(model: keras.Model, step: int, position: np.ndarray) -> State:
    """Returns the state of a compiled model."""
    names, variables = _named_variables(model)
    values = [variable.numpy() for variable in variables]
    return State(step, position, names, values)


def set_state(model: keras.Model, state: State) -> None:
    """Assigns a state to a compiled model of the same variables."""
    names, variables = _named_variables(model)
    expected = [
        (name, tuple(variable.shape))
        for name, variable in zip(names, variables, strict=True)
    ]
    received = [
        (name, value.shape)
        for name, value in zip(state.names, state.variables, strict=True)
    ]
    if expected != received:
        differences = [
            f"{found} instead of {wanted}"
            for found, wanted in zip(received, expected, strict=False)
            if found != wanted
        ]
        raise InputError(
            f"The training state must have the model's {len(expected)} "
            f"variables. Received: {len(received)} variables"
            + (f", {differences[0]}" if differences else "")
        )
    for variable, value in zip(variables, state.variables, strict=True):
        variable.assign(value)


def save_state(path: Path, state: State, run_id: str) -> None:
    """Writes the state of a run atomically."""
    header = dict(format=FORMAT, run=run_id, step=state.step, names=state.names)
    arrays = {f"{i:06d}": value for i, value in enumerate(state.variables)}
    with atomic_write(path) as partial, open(partial, "wb") as file:
        np.savez(
            file, header=json.dumps(header), position=state.position, **arrays
        )


def load_state(path: Path, run_id: str) -> State:
    """Reads what `save_state` wrote for this run."""
    with _open_state(path) as (header, file):
        if header["run"] != run_id:
            raise InputError(
                f"{path} must be the state of run {run_id[:8]}, in whose "
                f"folder it is. Received: that of run {header['run'][:8]}. "
                "Restore the right file."
            )
        names = header["names"]
        return State(
            header["step"],
            file["position"],
            names,
            [file[f"{i:06d}"] for i in range(len(names))],
        )


def load_step(path: Path) -> int:
    """Reads the number of updates alone; raises as `load_state` does."""
    with _open_state(path) as (header, _):
        return header["step"]


@contextlib.contextmanager
def _open_state(path: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    damage = (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile)
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
    except InputError:
        raise
    except damage as error:
        raise InputError(
            f"{path} must be a training state. Received: {error}. It is "
            "damaged or was written by another version: train into another "
            "folder, perhaps with --init-from this run."
        ) from error


def _named_variables(model: keras.Model) -> tuple[list[str], list[Any]]:
    """Returns the variables, and names that are the same in every process."""
    metrics = {id(variable) for variable in model.metrics_variables}
    variables = [v for v in model.variables if id(v) not in metrics]
    variables += model.optimizer.variables
    # Keras numbers the seed generators of a process.
    names = [re.sub(r"generator_\d+", "generator", v.path) for v in variables]
    return names, variables
