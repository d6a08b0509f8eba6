"""Figures of attention, as in the paper's Figures 3 to 5."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.showing.plotting.figures import (
    DPI,
    FONT_POINTS,
    figure_class,
)
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.inference.translator import TranslationAttention

# Inches, unless a name says points. Positions are computed, since layout
# engines let the labels of long tokens overlap.
_SMALLEST_CELL = 0.16  # a line of text at that size
_LARGEST_CELL = 0.5
_PREFERRED_MAP = 2.0
_SMALLEST_MAP = 1.2  # the name of the color bar fits beside it
_MARGIN = 0.2
_GAP = 0.3
_TITLE = 0.45
_HEAD_TITLE = 0.25
_LABEL_GAP = 0.08
_AXIS_LABEL = 0.25
_BAR_WIDTH = 0.12
_BAR_SPACE = 0.75  # the color bar with its numbers and name
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
    output_position = "output position, predicting the next token"
    kinds = {
        "encoder": (
            "encoder self-attention",
            (attention.encoder, source, source),
            ("source position", "source position attended to"),
        ),
        "decoder": (
            "decoder self-attention",
            (attention.decoder, target, target),
            (output_position, "output position attended to"),
        ),
        "cross": (
            "encoder-decoder attention",
            (attention.cross, target, source),
            (output_position, "source position attended to"),
        ),
    }
    if kind not in kinds:
        raise InputError(
            f"kind must be one of {', '.join(kinds)}. Received: kind={kind!r}"
        )
    name, (layers, rows, columns), axis_labels = kinds[kind]
    layer = len(layers) if layer is None else layer
    if not 1 <= layer <= len(layers):
        raise InputError(
            f"The model has layers 1 to {len(layers)}. Received: layer={layer}"
        )
    return attention_figure(
        layers[layer - 1],
        rows,
        columns,
        f"{name[0].upper()}{name[1:]}, layer {layer}",
        axis_labels,
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
        A figure that belongs to no window. Its first axes are the heads, in
        order; the last one is the color bar.

    Raises:
        InputError: If the shape of the scores does not fit the tokens, if
            there are more than 80 tokens, or if matplotlib is not installed.
    """
    make_figure = figure_class()
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
            "A page of all layers has no limit: kt.pages.attention_page."
        )
    drawable = _drawable_characters()
    rows = [_label(token, drawable) for token in rows]
    columns = [_label(token, drawable) for token in columns]

    heads = len(scores)
    grid_columns = min(heads, 2 if heads <= 4 else 4)
    grid_rows = -(-heads // grid_columns)
    cell = _PREFERRED_MAP / max(expected)
    cell = min(max(cell, _SMALLEST_CELL), _LARGEST_CELL)
    map_height = max(len(rows) * cell, _SMALLEST_MAP)
    map_width = max(len(columns) * cell, _SMALLEST_MAP)
    row_label = max(map(_text_width, rows)) + _LABEL_GAP
    column_label = max(map(_text_width, columns)) + _LABEL_GAP
    column_step = row_label + map_width + _GAP
    row_step = _HEAD_TITLE + map_height + column_label + _GAP
    left = _MARGIN + _AXIS_LABEL
    width = max(
        left + grid_columns * column_step + _BAR_SPACE,
        _text_width(title, FONT_POINTS + 3) + 2 * _MARGIN,
    )
    row_name_height = _text_width(axis_labels[0], FONT_POINTS + 1)
    height = max(
        _TITLE + grid_rows * row_step + _AXIS_LABEL,
        _TITLE + row_name_height + _AXIS_LABEL,
    )

    figure = make_figure(figsize=(width, height), dpi=DPI)

    def add_axes(x: float, y: float, w: float, h: float):
        return figure.add_axes((x / width, y / height, w / width, h / height))

    top = height - _TITLE - _HEAD_TITLE - map_height
    for head, head_scores in enumerate(scores):
        grid_row, grid_column = divmod(head, grid_columns)
        axes = add_axes(
            left + grid_column * column_step + row_label,
            top - grid_row * row_step,
            map_width,
            map_height,
        )
        image = axes.imshow(
            head_scores,
            cmap="Blues",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
        )
        axes.set_title(f"head {head + 1}", fontsize=FONT_POINTS + 1, pad=5)
        _set_ticks(axes, rows, columns)
    bar_left = left + grid_columns * column_step
    bar_axes = add_axes(bar_left, top, _BAR_WIDTH, map_height)
    bar = figure.colorbar(image, cax=bar_axes, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=FONT_POINTS, length=2)
    bar.set_label("attention score", fontsize=FONT_POINTS)
    bar.outline.set_visible(False)
    figure.text(
        _MARGIN / width,
        1 - _MARGIN / height,
        title,
        fontsize=FONT_POINTS + 3,
        verticalalignment="top",
        parse_math=False,
    )
    row_name, column_name = axis_labels
    figure.text(
        _MARGIN / width,
        (height - _TITLE) / 2 / height,
        row_name,
        fontsize=FONT_POINTS + 1,
        rotation="vertical",
        verticalalignment="center",
        horizontalalignment="center",
    )
    figure.text(
        (left + grid_columns * column_step / 2) / width,
        _AXIS_LABEL / 2 / height,
        column_name,
        fontsize=FONT_POINTS + 1,
        verticalalignment="center",
        horizontalalignment="center",
    )
    return figure


def _set_ticks(axes, rows: Sequence[str], columns: Sequence[str]):
    """Labels the rows and the columns of a map with their tokens."""
    style = {"fontsize": FONT_POINTS, "parse_math": False}
    axes.set_yticks(range(len(rows)), rows, **style)
    axes.set_xticks(range(len(columns)), columns, rotation="vertical", **style)
    axes.tick_params(length=0, pad=3)
    for spine in axes.spines.values():
        spine.set_color("0.8")


def _label(token: str, drawable: set[int]) -> str:
    """Returns a token in characters that the font has, shortened if long."""
    text = "".join(
        character
        if ord(character) in drawable
        else character.encode("unicode_escape").decode()
        for character in token.replace("\N{LOWER ONE EIGHTH BLOCK}", "·")
    )
    if len(text) > _LONGEST_LABEL:
        text = text[: _LONGEST_LABEL - 1] + "…"
    return text


def _drawable_characters() -> set[int]:
    """Returns the code points that the configured fonts have a glyph for."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont, get_font

    characters: set[int] = set()
    for family in rcParams["font.family"]:
        font = get_font(findfont(FontProperties(family=[family])))
        characters.update(font.get_charmap())
    # Some fonts have a glyph for control characters: a box.
    return {
        code
        for code in characters
        if not unicodedata.category(chr(code)).startswith("C")
    }


def _text_width(text: str, points: float = FONT_POINTS) -> float:
    """Returns the width of a line of text in inches."""
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    # TextPath would parse dollar signs as mathematics.
    path = TextPath((0, 0), text.replace("$", "S"), size=points)
    return path.get_extents().x1 / 72
