"""Heat maps with tokens on their axes: attention and masks.

They look as the paper's Figures 3 to 5.
"""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_transformer import masks
from keras_transformer.plotting.figures import FONT_POINTS, new_figure
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

    from keras_transformer.inference.translator import TranslationAttention

# Sizes are in inches.
_SMALLEST_CELL = 0.16  # a line of text
_LARGEST_CELL = 0.5
_SMALLEST_MAP = 1.2
_TARGET_MAP = 2.0  # what cells are to add up to
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
    read = (attention.source_tokens, "source position")
    written = (attention.target_tokens, "output position")
    # Title, what attends and what is attended to.
    kinds = {
        "encoder": ("Encoder self-attention", read, read),
        "decoder": ("Decoder self-attention", written, written),
        "cross": ("Encoder-decoder attention", written, read),
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
    title, (rows, row), (columns, column) = kinds[kind]
    predicting = "" if kind == "encoder" else ", predicting the next token"
    return attention_figure(
        layers[layer - 1],
        rows,
        columns,
        f"{title}, layer {layer}",
        (f"{row}{predicting}", f"{column} attended to"),
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
        The figure. Its first axes are the heads, in
        order; the last one is the color bar.

    Raises:
        InputError: If the shape of the scores does not fit the tokens, or
            there are more than 80 tokens.
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
    maps = [
        _Map(f"head {head}", values, rows, columns)
        for head, values in enumerate(scores, 1)
    ]
    grid_columns = min(len(maps), 2 if len(maps) <= 4 else 4)
    images = _draw(figure, maps, grid_columns, title, axis_labels)
    first_row = [image.axes for image in images[:grid_columns]]
    bar = figure.colorbar(images[0], ax=first_row, ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=FONT_POINTS, length=2)
    bar.set_label("attention score", fontsize=FONT_POINTS)
    bar.outline.set_visible(False)
    return figure


def masks_figure(
    source: Sequence[str],
    target: Sequence[str],
    padding: int = 2,
    window: int | None = None,
) -> "Figure":
    """Plots the masks of a source and a target (section 3.2.3).

    The maps are the mask of padding in the encoder and between encoder and
    decoder, the mask of the decoder that hides the future, and this combined
    with the padding of the target. Padding stands where others of a batch are
    longer.

    Args:
        source: The tokens of the source.
        target: The tokens that the decoder reads.
        padding: How much padding follows each of them.
        window: The `attention_window` of the model, which hides more.

    Returns:
        The figure. Its axes are the four maps.

    Raises:
        InputError: If there are no tokens, or more than 80 with the padding.
    """
    figure = new_figure(1, 1, title := "Masks: dark may be attended to")
    sides = [list(source), list(target)]
    most = max(map(len, sides)) + padding
    if not all(sides) or most > _MOST_TOKENS:
        raise InputError(
            f"A figure of masks needs 1 to {_MOST_TOKENS} tokens per side, "
            f"padding included. Received: {len(sides[0])} of the source and "
            f"{len(sides[1])} of the target, and padding={padding}"
        )
    # Tokens are 1.
    ids = [np.repeat([[1, 0]], [len(side), padding], axis=1) for side in sides]
    source, target = ([*side, *["<pad>"] * padding] for side in sides)
    of_source, of_target = (masks.padding_mask(side, 0) for side in ids)
    s, t = len(source), len(target)
    near = None if window is None else masks.window_mask(s, window)
    future = (
        masks.causal_mask(t)
        if window is None
        else masks.window_mask(t, window, causal=True)
    )
    panels = {
        "encoder: padding": (
            masks.combine_masks(of_source, near),
            source,
            source,
        ),
        "encoder-decoder: padding": (of_source, target, source),
        "decoder: look-ahead": (future, target, target),
        "look-ahead and padding": (
            masks.combine_masks(future, of_target),
            target,
            target,
        ),
    }
    maps = [
        _Map(
            name,
            np.broadcast_to(np.asarray(mask)[0], (len(rows), len(columns))),
            rows,
            columns,
        )
        for name, (mask, rows, columns) in panels.items()
    ]
    labels = ("position that attends", "position attended to")
    for image in _draw(figure, maps, 2, title, labels):
        axes = image.axes
        axes.set_aspect("equal", anchor="N")
        # Lines between the cells.
        for axis, count in zip(
            (axes.yaxis, axes.xaxis), image.get_size(), strict=True
        ):
            axis.set_ticks(np.arange(1, count) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=1)
        axes.tick_params(which="minor", length=0)
    return figure


class _Map(NamedTuple):
    """A heat map of values from 0 to 1."""

    title: str
    values: np.ndarray  # [T, S]
    rows: Sequence[str]  # T tokens
    columns: Sequence[str]  # S tokens


def _draw(
    figure: "Figure",
    maps: Sequence[_Map],
    grid_columns: int,
    title: str,
    axis_labels: tuple[str, str],
) -> list["AxesImage"]:
    """Draws maps with their tokens on the axes, in a figure of their size."""
    maps = [
        one._replace(rows=_labels(one.rows), columns=_labels(one.columns))
        for one in maps
    ]
    most_rows = max((one.rows for one in maps), key=len)
    most_columns = max((one.columns for one in maps), key=len)
    # Sources and targets have labels of other widths.
    all_rows = {label for one in maps for label in one.rows}
    all_columns = {label for one in maps for label in one.columns}
    grid_rows = -(-len(maps) // grid_columns)
    cell = _TARGET_MAP / max(len(most_rows), len(most_columns))
    cell = min(max(cell, _SMALLEST_CELL), _LARGEST_CELL)
    # The engine places the maps, if the figure is large enough for them.
    width, height = (
        count
        * (
            max(len(cells) * cell, _SMALLEST_MAP)
            + max(map(_text_width, labels))
            + _GAP
        )
        + border
        for count, cells, labels, border in (
            (grid_columns, most_columns, all_rows, _BORDERS[0]),
            (grid_rows, most_rows, all_columns, _BORDERS[1]),
        )
    )
    row_name, column_name = axis_labels
    width = max(width, _text_width(title, FONT_POINTS + 3) + _GAP)
    height = max(height, _text_width(row_name, FONT_POINTS + 1) + _GAP)
    figure.set_size_inches(width, height)
    style = {"fontsize": FONT_POINTS + 1, "parse_math": False}
    figure.supylabel(row_name, **style)
    figure.supxlabel(column_name, **style)
    style["fontsize"] = FONT_POINTS
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flat
    for unused in grid[len(maps) :]:
        unused.remove()
    images = []
    for one, axes in zip(maps, grid, strict=False):
        image = axes.imshow(
            one.values, "Blues", aspect="auto", interpolation="nearest"
        )
        image.set_clim(0, 1)
        axes.set_title(one.title, fontsize=FONT_POINTS + 1, pad=5)
        axes.set_yticks(range(len(one.rows)), one.rows, **style)
        axes.set_xticks(
            range(len(one.columns)), one.columns, rotation=90, **style
        )
        axes.tick_params(length=0, pad=3)
        axes.spines[:].set_color("0.8")
        images.append(image)
    return images


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
            one
            # Some fonts have a glyph for control characters: a box.
            if ord(one) in drawable and unicodedata.category(one)[0] != "C"
            else one.encode("unicode_escape").decode()
            for one in token.replace("\N{LOWER ONE EIGHTH BLOCK}", "·")
        )
        is_long = len(text) > _LONGEST_LABEL
        labels.append(text[: _LONGEST_LABEL - 1] + "…" if is_long else text)
    return labels


def _text_width(text: str, points: float = FONT_POINTS) -> float:
    """Returns the width of a line of text in inches."""
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    # TextPath would parse dollar signs as mathematics.
    path = TextPath((0, 0), text.replace("$", "S"), size=points)
    return path.get_extents().x1 / 72
