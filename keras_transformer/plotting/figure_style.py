"""The style and the files of figures. They belong to no window."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.support.files import atomic_write, check_output
from keras_transformer.support.startup import explain_missing_packages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_SUFFIXES = (".png", ".pdf", ".svg")

# By Okabe and Ito: distinct for colour-blind people, on white and on black.
COLORS = "#0072b2 #d55e00 #009e73 #cc79a7 #56b4e9 #e69f00 #7f7f7f".split()
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
        figure: Any matplotlib figure.
        path: The file. Its suffix chooses the format: `.png`, `.pdf` or
            `.svg`. An existing file is replaced.
        title: Title in the metadata, such as the source of a translation.
        description: Description in the metadata.

    Raises:
        InputError: If the suffix or the folder is wrong.
    """
    check_output(path, FIGURE_SUFFIXES)
    file_format = Path(path).suffix.lower()[1:]
    name = "Subject" if file_format == "pdf" else "Description"
    metadata = {"Title": title, name: description}
    metadata = {key: text for key, text in metadata.items() if text is not None}
    with atomic_write(path) as partial:
        figure.savefig(partial, format=file_format, metadata=metadata)


def new_figure(width: float, height: float, title: str) -> "Figure":
    """Returns a figure with a size in inches, laid out by matplotlib."""
    with explain_missing_packages():
        from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.suptitle(title, fontsize=FONT_POINTS + 3, parse_math=False)
    return figure


def style_axes(axes: Any, x_label: str, y_label: str) -> None:
    """Prepares axes for curves: colors, labels and a grid."""
    axes.set_prop_cycle(color=COLORS)
    axes.set_xlabel(x_label, fontsize=FONT_POINTS)
    axes.set_ylabel(y_label, fontsize=FONT_POINTS)
    axes.tick_params(labelsize=FONT_POINTS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
