"""Reads saved training states, for comparisons."""

import numpy as np


def read_state(run):
    """Returns the number of updates, and the saved values by name."""
    with np.load(run.state_path) as file:
        values = dict(file)
    return int(values.pop("step")), values
