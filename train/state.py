"""The training state in `state.npz`: everything that training resumes from."""

import json
import re
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.inference.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write

if TYPE_CHECKING:
    import keras


def save_state(run: Run, model: "keras.Model", step: int) -> None:
    """Writes the state of a compiled model after an update atomically."""
    variables = model_variables(model)
    header = dict(step=step, names=list(variables))
    values = (variable.numpy() for variable in variables.values())
    arrays = {f"{i:06d}": value for i, value in enumerate(values)}
    with atomic_write(run.state_path) as partial, open(partial, "wb") as file:
        np.savez(file, header=json.dumps(header), **arrays)


def load_state(run: Run, model: "keras.Model") -> int:
    """Assigns what `save_state` wrote, and returns the number of updates.

    Raises:
        InputError: If the file is damaged.
    """
    path = run.state_path
    try:
        with np.load(path) as file:
            header = json.loads(str(file["header"]))
            names = enumerate(header["names"])
            values = {name: file[f"{i:06d}"] for i, name in names}
    except PermissionError:
        raise
    except Exception as error:  # a damaged file may raise anything
        raise InputError(
            f"{path} must be a training state. Received: {error}. It is "
            "damaged: train into a different folder, perhaps with init_from "
            "this run."
        ) from error
    for name, variable in model_variables(model).items():
        variable.assign(values[name])
    return header["step"]


def model_variables(model: "keras.Model") -> dict[str, "keras.Variable"]:
    """Returns weights, dropout seeds and the optimizer's variables by name.

    The names are the same in every process.
    """
    metrics = {id(variable) for variable in model.metrics_variables}
    variables = [v for v in model.variables if id(v) not in metrics]
    variables += model.optimizer.variables
    # Keras numbers the seed generators of a process.
    return {re.sub(r"generator_\d+", "generator", v.path): v for v in variables}
