"""Reads saved training states, for comparisons."""

import json

import numpy as np


def read_state(run):
    """Returns the number of updates, and the saved values by name."""
    with np.load(run.state_path) as file:
        header = json.loads(str(file["header"]))
        names = enumerate(header["names"])
        return header["step"], {name: file[f"{i:06d}"] for i, name in names}
