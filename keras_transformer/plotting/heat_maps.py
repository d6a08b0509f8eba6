"""Heat maps with tokens on their axes, like the paper's Figures 3 to 5."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.plotting.figure_style import FONT_POINTS, new_figure
from keras_transformer.support import fields
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.inference.records import TranslationAttention

# Sizes are in inches.
_CELL = 0.16  # a line of text
_SMALLEST_MAP = 2.0
_LABELS = 1.8  # next to a map
_SMALLEST_WIDTH = 5.0
_SMALLEST_HEIGHT = 4.0
_LONGEST_LABEL = 20  # characters
_MOST_TOKENS = 80  # 16 heads are then 9,000 pixels wide


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
    figure = new_figure(
        max(width, _SMALLEST_WIDTH), max(height, _SMALLEST_HEIGHT), title
    )
    rows = _labels(rows)
    columns = _labels(columns)
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
