"""All that training goes on from, in one file that is whole or not there."""

import contextlib
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.distributed_fit import Training
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write

FORMAT = 1


class State(NamedTuple):
    """Training after an update.

    The variables are the weights, the optimiser's and the dropout's seeds.
    """

    step: int  # updates so far
    position: np.ndarray  # [workers, 2], what follows in each one's data
    val_losses: np.ndarray  # of every epoch so far
    names: list[str]  # of the variables
    variables: list[np.ndarray]


def state_of(
    training: Training, step: int, position: np.ndarray, val_losses: Any = ()
) -> State:
    """Returns the state of a model in training."""
    names, variables = _variables(training)
    values = [variable.numpy() for variable in variables]
    return State(step, position, np.asarray(val_losses, float), names, values)


def restore(training: Training, state: State) -> None:
    """Gives a model the values of a state.

    Raises:
        InputError: If the state is not one of this model.
    """
    names, variables = _variables(training)
    wanted = [
        (name, tuple(variable.shape))
        for name, variable in zip(names, variables, strict=True)
    ]
    values = zip(state.names, state.variables, strict=True)
    found = [(name, value.shape) for name, value in values]
    if wanted != found:
        differ = [
            pair
            for pair in zip(wanted, found, strict=False)
            if pair[0] != pair[1]
        ]
        raise InputError(
            f"The state of training must hold the model's {len(wanted)} "
            f"variables. Received: {len(found)} variables"
            + (f", {differ[0][1]} and not {differ[0][0]}" if differ else "")
        )
    for variable, value in zip(variables, state.variables, strict=True):
        variable.assign(value)


def save(path: Path, state: State) -> None:
    """Writes a state; on any failure the file that was there stays."""
    about = {"format": FORMAT, "step": state.step, "names": state.names}
    with atomic_write(path) as partial, open(partial, "wb") as file:
        np.savez(
            file,
            about=json.dumps(about),
            position=state.position,
            val_losses=state.val_losses,
            **{f"{i:06d}": v for i, v in enumerate(state.variables)},
        )


def load(path: Path) -> State:
    """Reads what `save` wrote.

    Raises:
        InputError: If the file is damaged, or of another version.
    """
    with _opened(path) as (about, file):
        names = about["names"]
        return State(
            about["step"],
            file["position"],
            file["val_losses"],
            names,
            [file[f"{i:06d}"] for i in range(len(names))],
        )


def load_step(path: Path) -> int:
    """Reads how many updates there were; raises as `load` does."""
    with _opened(path) as (about, _):
        return about["step"]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    try:
        with np.load(path) as file:
            about = json.loads(str(file["about"]))
            if about["format"] == FORMAT:
                yield about, file
                return
    except (
        ValueError,
        KeyError,
        EOFError,
        OSError,
        zipfile.BadZipFile,
    ) as error:
        raise InputError(
            f"{path} must hold the state of training. Received: {error}. It "
            "is damaged: train anew into another folder, perhaps with "
            "--init-from this run."
        ) from error
    raise InputError(
        f"{path} must be of format {FORMAT}. Received: "
        f"format={about['format']}. It was written by another version."
    )


def _variables(training: Training) -> tuple[list[str], list]:
    """Returns the variables and their names, which are the same next time."""
    variables = [*training.variables, *training.optimizer.variables]
    # Keras numbers the generators of a process.
    names = [re.sub(r"generator_\d+", "generator", v.path) for v in variables]
    return names, variables
