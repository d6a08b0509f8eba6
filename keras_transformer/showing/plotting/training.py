"""Figures of a training, and of learning rates."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.showing.plotting.figures import (
    FONT_POINTS,
    new_figure,
    style_axes,
)
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_POINTS = 500  # of a curve


def training_figure(
    rows: Sequence[Mapping[str, float]], title: str, score: str
) -> "Figure":
    """Plots what training wrote to `log.csv`.

    The negative log-likelihood of training (with dropout) and validation,
    and the score of greedy validation outputs, over the steps. A measure
    that no row has is left out.

    Args:
        rows: From `train.log.read_log`.
        title: Title, such as the name of the run.
        score: What the score is called, the task's `watched_label`.

    Returns:
        A figure that belongs to no window.

    Raises:
        InputError: If there are no rows, or matplotlib is not installed.
    """
    if not rows:
        raise InputError(
            "A curve needs at least one finished epoch. Received: an empty "
            "log. Wait until training has written one."
        )
    found = set().union(*rows)
    panels = {
        "nats per target token": {"training": "nll", "validation": "val_nll"},
        score: {"validation, greedy": "val_score"},
    }
    panels = {k: v for k, v in panels.items() if found & set(v.values())}
    figure = new_figure(4.2 * len(panels), 3, title)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        for line, name in lines.items():
            points = [(r["step"], r[name]) for r in rows if name in r]
            if points:
                axes.plot(*zip(*points, strict=True), label=line)
        style_axes(axes, "step", label)
        axes.legend(fontsize=FONT_POINTS, frameon=False)
    return figure


def schedule_figure(
    schedules: Mapping[str, Callable[[Any], Any]], steps: int
) -> "Figure":
    """Plots learning rates over the steps of training.

    Args:
        schedules: A schedule for each label, such as
            `WarmupInverseSquareRoot`.
        steps: Number of steps, at least 2.

    Returns:
        A figure that belongs to no window.

    Raises:
        InputError: If there is no schedule or only one step, or matplotlib
            is not installed.
    """
    if not schedules or steps < 2:
        raise InputError(
            "A plot of learning rates needs a schedule and at least 2 steps. "
            f"Received: schedules={list(schedules)}, steps={steps}"
        )
    # Evenly spaced alone, few of many steps would miss a short warm-up.
    even = np.linspace(1, steps, min(steps, _POINTS))
    at = np.concatenate([even, np.geomspace(1, steps, min(steps, _POINTS))])
    at = np.unique(at.round()) - 1
    figure = new_figure(5, 3, "Learning rate")
    axes = figure.subplots()
    for label, schedule in schedules.items():
        axes.plot(at + 1, [float(schedule(step)) for step in at], label=label)
    style_axes(axes, "step", "learning rate")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=FONT_POINTS, frameon=False)
    return figure
