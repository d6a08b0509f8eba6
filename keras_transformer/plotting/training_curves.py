"""Plots the curves of a training."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from keras_transformer.plotting import figure_style
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def training_figure(
    rows: Sequence[Mapping[str, float]], title: str, score: str
) -> "Figure":
    """Plots the rows of a run's `log.csv`.

    Shows the negative log-likelihood in training (with dropout) and in
    validation, and the score of greedy validation outputs, if they were
    measured.

    Args:
        rows: The rows of `log.csv`, as numbers by column.
        title: Title, such as the name of the run.
        score: Name of the score, such as `"BLEU"`.

    Raises:
        InputError: If there are no rows.
    """
    if not rows:
        raise InputError(
            "A curve needs at least one finished epoch. Received: an empty log"
        )
    measured = set().union(*rows)
    panels = {}
    if measured & {"nll", "val_nll"}:
        nats = {"training": "nll", "validation": "val_nll"}
        panels["nats per target token"] = nats
    if "val_score" in measured:
        panels[score] = {"validation, greedy": "val_score"}
    figure = figure_style.new_figure(4.2 * len(panels), 3, title)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        figure_style.style_axes(axes, "step", label)
        for line, name in lines.items():
            logged = [row for row in rows if name in row]
            steps = [row["step"] for row in logged]
            if logged:
                axes.plot(steps, [row[name] for row in logged], label=line)
        axes.legend(**figure_style.LEGEND)
    return figure
