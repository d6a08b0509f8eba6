"""What all figures share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT_POINTS = 8
DPI = 150
PICTURES = (".png", ".pdf", ".svg")  # formats of a figure's file


def new_figure(width: float, height: float, title: str) -> "Figure":
    """Returns a figure that belongs to no window, laid out by matplotlib.

    Args:
        width: In inches.
        height: In inches.
        title: Shown above the axes.

    Raises:
        InputError: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "Figures need matplotlib, which is not installed. "
            'Install it with: pip install "keras-transformer-nmt[plot]"'
        ) from error
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    figure.suptitle(title, fontsize=FONT_POINTS + 3, parse_math=False)
    return figure


def style_axes(axes: Any, x: str, y: str) -> None:
    """Names the axes of a plot and makes it quiet."""
    axes.set_xlabel(x, fontsize=FONT_POINTS)
    axes.set_ylabel(y, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


def save_figure(figure: "Figure", path: str | os.PathLike) -> None:
    """Writes a figure to a file atomically.

    Args:
        figure: Any matplotlib figure, such as those made here.
        path: The file. Its suffix chooses the format: `.png`, `.pdf` or
            `.svg`. An existing file is replaced.

    Raises:
        InputError: If the suffix is another, or the folder does not exist.
    """
    check_output(path, PICTURES)
    with atomic_write(path) as partial:
        figure.savefig(partial, format=Path(path).suffix.lower()[1:])
