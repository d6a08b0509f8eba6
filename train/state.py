"""All that training goes on from, in one file that is whole or not there."""

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.files import replacing
from keras_transformer.train.step import Training

FORMAT = 1


class State(NamedTuple):
    """Training after an update.

    The variables are the weights, the optimiser's and the dropout's seeds.
    """

    step: int  # updates so far
    position: np.ndarray  # [workers, 2], what follows in each one's data
    val_losses: np.ndarray  # of every epoch so far
    variables: list[np.ndarray]


def state_of(
    training: Training, step: int, position: np.ndarray, val_losses: Any = ()
) -> State:
    """Returns the state of a model in training."""
    values = [v.numpy() for v in _variables(training)]
    return State(step, position, np.asarray(val_losses, float), values)


def restore(training: Training, state: State) -> None:
    """Gives a model the values of a state.

    Raises:
        InputError: If the state is not one of this model.
    """
    variables = _variables(training)
    wanted = [tuple(v.shape) for v in variables]
    found = [value.shape for value in state.variables]
    if wanted != found:
        raise InputError(
            f"The state of training must hold {len(wanted)} variables of the "
            f"model's shapes. Received: {len(found)} variables, which are "
            "not those"
        )
    for variable, value in zip(variables, state.variables, strict=True):
        variable.assign(value)


def save(path: Path, state: State) -> None:
    """Writes a state; on any failure the file that was there stays."""
    about = {"format": FORMAT, "step": state.step}
    with replacing(path) as partial, open(partial, "wb") as file:
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
    try:
        with np.load(path) as file:
            about: dict[str, Any] = json.loads(str(file["about"]))
            if about["format"] == FORMAT:
                names = sorted(n for n in file.files if n.isdigit())
                return State(
                    about["step"],
                    file["position"],
                    file["val_losses"],
                    [file[name] for name in names],
                )
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


def _variables(training: Training) -> list:
    return [*training.variables, *training.optimizer.variables]
