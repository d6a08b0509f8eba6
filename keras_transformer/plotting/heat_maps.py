"""Heat maps with tokens on their axes, as the paper's Figures 3 to 5."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.plotting.figure_style import FONT_POINTS, new_figure
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.inference.translator import TranslationAttention

# Sizes are in inches.
_SMALLEST_CELL = 0.16  # a line of text
_LARGEST_CELL = 0.5
_SMALLEST_MAP = 1.2
_TARGET_MAP = 2.0  # size of a map, if its cells then have an allowed size
_CHARACTER = 0.07  # mean width of a character in a label
_GAP = 0.35  # between maps, with their titles
_BORDERS = (1.5, 0.9)  # names of axes, the color bar, the title
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
        InputError: If there is no such kind or layer, or as
            `attention_figure`.
    """
    source, target = attention.source_tokens, attention.target_tokens
    kinds = {
        "encoder": ("Encoder self-attention", source, source),
        "decoder": ("Decoder self-attention", target, target),
        "cross": ("Encoder-decoder attention", target, source),
    }
    if kind not in kinds:
        raise InputError(
            f"kind must be one of {', '.join(kinds)}. Received: kind={kind!r}"
        )
    name, rows, columns = kinds[kind]
    layers = getattr(attention, kind)
    check_layer(layer, len(layers))
    layer = len(layers) if layer is None else layer
    row_name = "output position, predicting the next token"
    if kind == "encoder":
        row_name = "source position"
    column_name = "output" if kind == "decoder" else "source"
    scores, title = layers[layer - 1], f"{name}, layer {layer}"
    axis_labels = row_name, f"{column_name} position attended to"
    return attention_figure(scores, rows, columns, title, axis_labels)


def check_layer(layer: int | None, num_layers: int) -> None:
    """Raises InputError if there is no such layer; None is the last one."""
    if layer is not None and not 1 <= layer <= num_layers:
        raise InputError(
            f"The model has layers 1 to {num_layers}. Received: layer={layer}"
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

    SentencePiece's mark for the start of a word is plotted as a middle dot. A
    character that the font lacks is plotted as its code (`\u4f60`); to see the
    character, add a font that has it to `matplotlib.rcParams["font.family"]`.

    Args:
        scores: Attention scores `[heads, T, S]`.
        rows: The T query tokens.
        columns: The S key tokens.
        title: Title, for example `"Encoder self-attention, layer 2"`.
        axis_labels: Names of the rows and of the columns.

    Returns:
        The figure. Its first axes are the heads, in order; the last one is
        the color bar.

    Raises:
        InputError: If the shape of the scores does not fit the tokens, or
            there are more than 80 tokens.
    """
    scores = np.asarray(scores, dtype="float32")
    expected = (len(rows), len(columns))
    if scores.ndim != 3 or scores.shape[1:] != expected or not scores.size:
        raise InputError(
            "Attention scores must have the shape [heads, rows, columns], "
            f"here [heads, {expected[0]}, {expected[1]}] with at least one "
            f"head, row and column. Received: shape {list(scores.shape)}."
        )
    if max(expected) > _MOST_TOKENS:
        raise InputError(
            f"A figure has at most {_MOST_TOKENS} tokens per side. "
            f"Received: {expected[0]} rows and {expected[1]} columns. "
            "A page of all layers has no limit: kt.plotting.attention_page."
        )
    figure = new_figure(1, 1, title)  # its size depends on the labels
    rows, columns = _labels(rows), _labels(columns)
    grid_columns = min(len(scores), 2 if len(scores) <= 4 else 4)
    grid_rows = -(-len(scores) // grid_columns)
    cell = min(max(_TARGET_MAP / max(expected), _SMALLEST_CELL), _LARGEST_CELL)
    map_width = max(len(columns) * cell, _SMALLEST_MAP) + _GAP
    map_height = max(len(rows) * cell, _SMALLEST_MAP) + _GAP
    map_width += _CHARACTER * max(map(len, rows))
    map_height += _CHARACTER * max(map(len, columns))
    # The title and the name of the rows are in a larger font.
    title_width = 1.4 * _CHARACTER * len(title) + _GAP
    name_height = 1.2 * _CHARACTER * len(axis_labels[0]) + _GAP
    figure.set_size_inches(
        max(grid_columns * map_width + _BORDERS[0], title_width),
        max(grid_rows * map_height + _BORDERS[1], name_height),
    )
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
    """Returns tokens in characters that the font has, shortened if long."""
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
            # Some fonts have a glyph for control characters: a box.
            if ord(character) in drawable
            and unicodedata.category(character)[0] != "C"
            else character.encode("unicode_escape").decode()
            for character in token.replace("\N{LOWER ONE EIGHTH BLOCK}", "·")
        )
        is_long = len(text) > _LONGEST_LABEL
        labels.append(text[: _LONGEST_LABEL - 1] + "…" if is_long else text)
    return labels
