"""Figures of attention, as in the paper's Figures 3 to 5."""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.showing.plotting.figures import FONT_POINTS, new_figure
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.inference.translator import TranslationAttention

_CELL = (0.16, 0.5)  # inches: a line of text, and the largest cell
_MAP = (1.2, 2.0)  # inches: the smallest, and what cells are to add up to
_GAP = 0.35  # inches between maps, with the titles of heads
_BORDERS = (1.5, 0.9)  # inches: names of axes, the color bar, the title
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
    # Title, what attends and what is attended to.
    kinds = {
        "encoder": ("Encoder self-attention", "source", "source"),
        "decoder": ("Decoder self-attention", "output", "output"),
        "cross": ("Encoder-decoder attention", "output", "source"),
    }
    if kind not in kinds:
        raise InputError(
            f"kind must be one of {', '.join(kinds)}. Received: kind={kind!r}"
        )
    layers = getattr(attention, kind)
    layer = len(layers) if layer is None else layer
    if not 1 <= layer <= len(layers):
        raise InputError(
            f"The model has layers 1 to {len(layers)}. Received: layer={layer}"
        )
    title, row, column = kinds[kind]
    tokens = {
        "source": attention.source_tokens,
        "output": attention.target_tokens,
    }
    predicting = ", predicting the next token" if row == "output" else ""
    return attention_figure(
        layers[layer - 1],
        tokens[row],
        tokens[column],
        f"{title}, layer {layer}",
        (f"{row} position{predicting}", f"{column} position attended to"),
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
    figure = new_figure(1, 1, title)  # its size depends on the labels
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
    cell = min(max(_MAP[1] / max(expected), _CELL[0]), _CELL[1])
    # The engine places the maps, if the figure is large enough for them.
    width, height = (
        count
        * (max(size * cell, _MAP[0]) + max(map(_text_width, labels)) + _GAP)
        + border
        for count, size, labels, border in (
            (grid_columns, len(columns), rows, _BORDERS[0]),
            (grid_rows, len(rows), columns, _BORDERS[1]),
        )
    )
    row_name, column_name = axis_labels
    width = max(width, _text_width(title, FONT_POINTS + 3) + _GAP)
    height = max(height, _text_width(row_name, FONT_POINTS + 1) + _GAP)
    figure.set_size_inches(width, height)
    style = {"fontsize": FONT_POINTS + 1, "parse_math": False}
    figure.supylabel(row_name, **style)
    figure.supxlabel(column_name, **style)
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flat
    for unused in grid[heads:]:
        unused.remove()
    for head, (axes, head_scores) in enumerate(zip(grid, scores, strict=False)):
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
    bar = figure.colorbar(image, ax=grid[:grid_columns], ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=FONT_POINTS, length=2)
    bar.set_label("attention score", fontsize=FONT_POINTS)
    bar.outline.set_visible(False)
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
