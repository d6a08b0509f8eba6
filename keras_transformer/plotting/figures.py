"""Matplotlib figures of trainings and of attention, without a window."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.support import fields
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output
from keras_transformer.support.startup import explain_missing_packages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.inference.records import TranslationAttention

# By Okabe and Ito: distinct for colour-blind people, on white and on black.
COLORS = "#0072b2 #d55e00 #009e73 #cc79a7 #56b4e9 #e69f00 #7f7f7f".split()
FONT_POINTS = 8
LEGEND = {"fontsize": FONT_POINTS, "frameon": False}

# Of heat maps, in inches.
_CELL = 0.16  # a line of text
_SMALLEST_MAP = 2.0
_LABELS = 1.8  # next to a map
_LONGEST_LABEL = 20  # characters
_MOST_TOKENS = 80  # 16 heads are then 9,000 pixels wide


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
    check_output(path, (".png", ".pdf", ".svg"))
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
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
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
    figure = new_figure(4.2 * len(panels), 3, title)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        style_axes(axes, "step", label)
        for line, name in lines.items():
            logged = [row for row in rows if name in row]
            steps = [row["step"] for row in logged]
            if logged:
                axes.plot(steps, [row[name] for row in logged], label=line)
        axes.legend(**LEGEND)
    return figure


def translation_figure(
    attention: "TranslationAttention", kind: str, layer: int | None = None
) -> "Figure":
    """Plots the attention of one layer during a translation.

    Args:
        attention: From `Translator.attention`.
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        layer: From 1. Default: the last.

    Returns:
        As `attention_figure`.

    Raises:
        InputError: If the kind or the layer does not exist, or as in
            `attention_figure`.
    """
    source = attention.source_tokens
    target = attention.target_tokens
    kinds = {
        "encoder": ("Encoder self-attention", source, source),
        "decoder": ("Decoder self-attention", target, target),
        "cross": ("Encoder-decoder attention", target, source),
    }
    fields.check_values(fields.one_of(*kinds), kind=kind)
    name, rows, columns = kinds[kind]
    layers = getattr(attention, kind)
    layer = len(layers) if layer is None else layer
    fields.check_values(fields.integer_from(1, len(layers)), layer=layer)
    row_name = "output position, predicting the next token"
    if kind == "encoder":
        row_name = "source position"
    column_name = "output" if kind == "decoder" else "source"
    return attention_figure(
        layers[layer - 1],
        rows,
        columns,
        title=f"{name}, layer {layer}",
        axis_labels=(row_name, f"{column_name} position attended to"),
    )


def attention_figure(
    scores: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    axis_labels: tuple[str, str] = ("query", "key"),
) -> "Figure":
    r"""Plots a heat map for each attention head of a layer.

    Row t of a map shows the attention scores of query t, which sum to 1. All
    maps share one color scale, from 0 to 1.

    SentencePiece's mark for the start of a word is plotted as a middle dot,
    and a character that the font lacks as its code (`\u4f60`): add a font to
    `matplotlib.rcParams["font.family"]`.

    Args:
        scores: Attention scores `[heads, T, S]`.
        rows: The T query tokens.
        columns: The S key tokens.
        title: Title, for example `"Encoder self-attention, layer 2"`.
        axis_labels: Names of the rows and of the columns.

    Returns:
        The figure. Its axes are the heads, in order, and the color bar.

    Raises:
        InputError: If there are more than 80 tokens.
    """
    scores = np.asarray(scores, dtype="float32")
    if scores.shape[1:] != (len(rows), len(columns)):
        raise ValueError(
            "scores must have the shape [H, rows, columns]. Received: "
            f"{scores.shape} with {len(rows)} rows, {len(columns)} columns"
        )
    if max(len(rows), len(columns)) > _MOST_TOKENS:
        raise InputError(
            f"A figure shows at most {_MOST_TOKENS} tokens per side. Received: "
            f"{len(rows)} rows and {len(columns)} columns. Use "
            "kt.plotting.attention_page, which has no limit."
        )
    grid_columns = min(len(scores), 2 if len(scores) <= 4 else 4)
    grid_rows = -(-len(scores) // grid_columns)
    width = grid_columns * (max(len(columns) * _CELL, _SMALLEST_MAP) + _LABELS)
    height = grid_rows * (max(len(rows) * _CELL, _SMALLEST_MAP) + _LABELS)
    figure = new_figure(max(width, 5.0), max(height, 4.0), title)
    rows, columns = _labels(rows), _labels(columns)
    style = {"fontsize": FONT_POINTS + 1, "parse_math": False}
    figure.supylabel(axis_labels[0], **style)
    figure.supxlabel(axis_labels[1], **style)
    style["fontsize"] = FONT_POINTS
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flat
    for unused in grid[len(scores) :]:
        unused.remove()
    for head, (values, axes) in enumerate(zip(scores, grid, strict=False), 1):
        image = axes.imshow(
            values, "Blues", aspect="auto", interpolation="nearest"
        )
        image.set_clim(0, 1)
        axes.set_title(f"head {head}", fontsize=FONT_POINTS + 1, pad=5)
        axes.set_yticks(range(len(rows)), rows, **style)
        axes.set_xticks(range(len(columns)), columns, rotation=90, **style)
        axes.tick_params(length=0, pad=3)
        axes.spines[:].set_color("0.8")
    top_row = figure.axes[:grid_columns]
    bar = figure.colorbar(image, ax=top_row, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=FONT_POINTS, length=2)
    bar.set_label("attention score", fontsize=FONT_POINTS)
    bar.outline.set_visible(False)
    return figure


def _labels(tokens: Sequence[str]) -> list[str]:
    """Returns tokens in drawable characters, shortened if long."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont, get_font

    drawable: set[int] = set()
    for family in rcParams["font.family"]:
        font = get_font(findfont(FontProperties(family=[family])))
        drawable.update(font.get_charmap())
    labels = []
    for token in tokens:
        text = "".join(
            character
            # Some fonts draw control characters as a box.
            if ord(character) in drawable and character.isprintable()
            else character.encode("unicode_escape").decode()
            for character in token.replace("\N{LOWER ONE EIGHTH BLOCK}", "·")
        )
        is_long = len(text) > _LONGEST_LABEL
        labels.append(text[: _LONGEST_LABEL - 1] + "…" if is_long else text)
    return labels
