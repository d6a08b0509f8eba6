"""The training state in `state.npz`: everything that training resumes from."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import explain_damage
from keras_transformer.support.files import atomic_write

if TYPE_CHECKING:
    import keras

_ADVICE = "Train into a different folder, perhaps with init_from this run."


def save_state(run: Run, model: "keras.Model", step: int) -> None:
    """Writes the state of a compiled model after an update atomically."""
    variables = model_variables(model)
    header = dict(step=step, names=list(variables))
    values = (variable.numpy() for variable in variables.values())
    arrays = {f"{i:06d}": value for i, value in enumerate(values)}
    with atomic_write(run.state_path) as partial, open(partial, "wb") as file:
        np.savez(file, header=json.dumps(header), **arrays)


def load_state(run: Run, model: "keras.Model") -> int:
    """Assigns the saved values, and returns the number of updates.

    Raises:
        InputError: If the file is damaged.
    """
    step, values = read_state(run)
    for name, variable in model_variables(model).items():
        variable.assign(values[name])
    return step


def read_state(run: Run) -> tuple[int, dict[str, np.ndarray]]:
    """Returns the number of updates, and the saved values by name."""
    with _open_state(run) as (header, file):
        values = {
            name: file[f"{number:06d}"]
            for number, name in enumerate(header["names"])
        }
        return header["step"], values


def read_step(run: Run) -> int:
    """Returns the number of updates; 0 if no state has been saved."""
    if not run.state_path.exists():
        return 0
    with _open_state(run) as (header, _):
        return header["step"]


@contextlib.contextmanager
def _open_state(run: Run) -> Iterator[tuple[dict, Mapping[str, Any]]]:
    """Yields the header and the arrays of the state, which are read later."""
    path = run.state_path
    expected = "a training state"
    with explain_damage(path, expected, _ADVICE), np.load(path) as file:
        yield json.loads(str(file["header"])), file


def model_variables(model: "keras.Model") -> dict[str, "keras.Variable"]:
    """Returns weights, dropout seeds and the optimizer's variables by name.

    The names are the same in every process.
    """
    metrics = {id(variable) for variable in model.metrics_variables}
    variables = [v for v in model.variables if id(v) not in metrics]
    variables += model.optimizer.variables
    # Keras numbers the seed generators of a process.
    return {re.sub(r"generator_\d+", "generator", v.path): v for v in variables}
