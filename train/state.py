"""The training state in `state.npz`: everything that training resumes from."""

import functools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.files import atomic_write

if TYPE_CHECKING:
    import keras

_explain_damage = functools.partial(
    explain_damage,
    expected="a training state",
    advice="Train into a different folder, perhaps with init_from this run.",
)


def save_state(run: Run, model: "keras.Model", step: int) -> None:
    """Writes the state of a compiled model and its step, atomically."""
    values = {x: y.numpy() for x, y in model_variables(model).items()}
    with atomic_write(run.state_path) as partial, open(partial, "wb") as file:
        np.savez(file, step=step, **values)


def load_state(run: Run, model: "keras.Model") -> int:
    """Assigns the saved values, and returns the number of updates."""
    with _explain_damage(run.state_path), np.load(run.state_path) as file:
        values = dict(file)
        step = int(values.pop("step"))
    variables = model_variables(model)
    for name in {**variables, **values}:
        saved = values[name].shape if name in values else "nothing"
        needed = variables[name].shape if name in variables else "nothing"
        if saved != needed:
            raise InputError(
                f"{run.state_path} does not fit the model of the run. "
                f"Received: {saved} instead of {needed} for {name}. Resume "
                "with the Keras and the config.json that trained it, or train "
                "into a different folder with init_from this run."
            )
    for name, variable in variables.items():
        variable.assign(values[name])
    return step


def read_step(run: Run) -> int:
    """Returns the number of updates; 0 if no state has been saved."""
    path = run.state_path
    if not path.exists():
        return 0
    with _explain_damage(path), np.load(path) as file:
        return int(file["step"])


def model_variables(model: "keras.Model") -> dict[str, Any]:
    """Returns weights, dropout seeds and the optimizer's variables, named."""
    metrics = {id(variable) for variable in model.metrics_variables}
    variables = [v for v in model.variables if id(v) not in metrics]
    variables += model.optimizer.variables
    # Keras numbers what has no name, differently in every process.
    names = [re.sub(r"_\d+", "", variable.path) for variable in variables]
    return {f"{i:05d}/{names[i]}": v for i, v in enumerate(variables)}
