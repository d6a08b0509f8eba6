"""What all figures share: how they look, and their files."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".pdf", ".svg")  # formats of a figure's file

FONT_POINTS = 8
LEGEND = {"fontsize": FONT_POINTS, "frameon": False}
_DPI = 150


def save_figure(
    figure: "Figure",
    path: str | os.PathLike,
    title: str | None = None,
    description: str | None = None,
) -> None:
    """Writes a figure to a file atomically.

    Args:
        figure: Any matplotlib figure, such as those made here.
        path: The file. Its suffix chooses the format: `.png`, `.pdf` or
            `.svg`. An existing file is replaced.
        title: What the file records as its title, such as the text that
            the figure is about.
        description: What it records as its description.

    Raises:
        InputError: If the suffix is another, or the folder does not exist.
    """
    check_output(path, PICTURES)
    kind = Path(path).suffix.lower()[1:]
    name = "Subject" if kind == "pdf" else "Description"
    metadata = {"Title": title, name: description}
    metadata = {key: text for key, text in metadata.items() if text is not None}
    with atomic_write(path) as partial:
        figure.savefig(partial, format=kind, metadata=metadata)


def new_figure(width: float, height: float, title: str) -> "Figure":
    """Returns a figure of a size in inches, laid out by matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "Figures need matplotlib, which is not installed. "
            'Install it with: pip install "keras-transformer-nmt[plot]"'
        ) from error
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.suptitle(title, fontsize=FONT_POINTS + 3, parse_math=False)
    return figure


def style_axes(axes: Any, x: str, y: str) -> None:
    """Names the axes of a plot and removes frame lines."""
    axes.set_xlabel(x, fontsize=FONT_POINTS)
    axes.set_ylabel(y, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
