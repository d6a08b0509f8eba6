"""Reads training states, without a model to assign them to."""

import json

import numpy as np


def read_state(run):
    """Returns the step and the variables of a run by name."""
    with np.load(run.state_path) as file:
        header = json.loads(str(file["header"]))
        values = {
            name: file[f"{i:06d}"] for i, name in enumerate(header["names"])
        }
        return {"step": header["step"], **values}
