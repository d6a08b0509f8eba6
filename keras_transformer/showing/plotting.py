"""Functions that return a matplotlib figure, and `save_figure`.

The figures belong to no window. All functions need matplotlib, and raise an
InputError without it.
"""

import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.inference.translator import TranslationAttention
    from keras_transformer.tasks import Task
    from keras_transformer.text import Tokenizer

__all__ = [
    "attention_figure",
    "corpus_figure",
    "save_figure",
    "schedule_figure",
    "training_figure",
    "translation_figure",
]

PICTURES = (".png", ".pdf", ".svg")  # formats of a figure's file

_FONT_POINTS = 8
_LEGEND = {"fontsize": _FONT_POINTS, "frameon": False}
_DPI = 150
_POINTS = 500  # of a curve
_BINS = 40  # at most, in a histogram

# Of figures of attention. Sizes are in inches.
_SMALLEST_CELL = 0.16  # a line of text
_LARGEST_CELL = 0.5
_SMALLEST_MAP = 1.2
_TARGET_MAP = 2.0  # what cells are to add up to
_GAP = 0.35  # between maps, with the titles of heads
_BORDERS = (1.5, 0.9)  # names of axes, the color bar, the title
_LONGEST_LABEL = 20  # characters
_MOST_TOKENS = 80  # 16 heads are then 9,000 pixels wide


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


def _new_figure(width: float, height: float, title: str) -> "Figure":
    """Returns a figure of a size in inches, laid out by matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError(
            "Figures need matplotlib, which is not installed. "
            'Install it with: pip install "keras-transformer-nmt[plot]"'
        ) from error
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    figure.suptitle(title, fontsize=_FONT_POINTS + 3, parse_math=False)
    return figure


def _style_axes(axes: Any, x: str, y: str) -> None:
    """Names the axes of a plot and removes frame lines."""
    axes.set_xlabel(x, fontsize=_FONT_POINTS)
    axes.set_ylabel(y, fontsize=_FONT_POINTS)
    axes.tick_params(labelsize=_FONT_POINTS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)


# === Training ===


def training_figure(
    rows: Sequence[Mapping[str, float]], title: str, score: str
) -> "Figure":
    """Plots what training wrote to `log.csv`.

    The negative log-likelihood of training (with dropout) and validation,
    and the score of greedy validation outputs, over the steps. A measure
    that no row has is left out.

    Args:
        rows: From `train.log.read_log`.
        title: Title, such as the name of the run.
        score: What the score is called, the task's `watched_label`.

    Raises:
        InputError: If there are no rows.
    """
    if not rows:
        raise InputError(
            "A curve needs at least one finished epoch. Received: an empty "
            "log. Wait until training has written one."
        )
    found = set().union(*rows)
    panels = {
        "nats per target token": {"training": "nll", "validation": "val_nll"},
        score: {"validation, greedy": "val_score"},
    }
    panels = {k: v for k, v in panels.items() if found & set(v.values())}
    figure = _new_figure(4.2 * len(panels), 3, title)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        for line, name in lines.items():
            points = [(r["step"], r[name]) for r in rows if name in r]
            if points:
                axes.plot(*zip(*points, strict=True), label=line)
        _style_axes(axes, "step", label)
        axes.legend(**_LEGEND)
    return figure


def schedule_figure(
    schedules: Mapping[str, Callable[[Any], Any]], steps: int
) -> "Figure":
    """Plots learning rates over the steps of training.

    Args:
        schedules: A schedule for each label, such as
            `WarmupInverseSquareRoot`.
        steps: Number of steps, at least 2.

    Raises:
        InputError: If there is no schedule or only one step.
    """
    if not schedules or steps < 2:
        raise InputError(
            "A plot of learning rates needs a schedule and at least 2 steps. "
            f"Received: schedules={list(schedules)}, steps={steps}"
        )
    # Evenly spaced alone, few of many steps would miss a short warm-up.
    count = min(steps, _POINTS)
    at = [np.linspace(1, steps, count), np.geomspace(1, steps, count)]
    at = np.unique(np.concatenate(at).round())
    figure = _new_figure(5, 3, "Learning rate")
    axes = figure.subplots()
    for label, schedule in schedules.items():
        axes.plot(at, [float(schedule(step - 1)) for step in at], label=label)
    _style_axes(axes, "step", "learning rate")
    axes.set_ylim(bottom=0)
    axes.legend(**_LEGEND)
    return figure


def corpus_figure(
    pairs: Iterable[tuple[str, str]],
    tokenizer: "Tokenizer",
    task: "Task | None" = None,
) -> "Figure":
    """Plots the lengths and the tokens of a parallel corpus.

    The panels are the lengths of sources and targets in tokens, the ratio of
    the lengths of a pair, and how often each token occurs, the most frequent
    first.

    Args:
        pairs: Sources and targets.
        tokenizer: The tokenizer.
        task: What the pairs are for. Default: translation.

    Raises:
        InputError: If there are no pairs.
    """
    sides = list(zip(*pairs, strict=True))
    if not sides:
        raise InputError("A plot of a corpus needs pairs. Received: none")
    # It needs the tokenizer's library, which the other figures do without.
    from keras_transformer.tasks import TranslationTask

    task = task or TranslationTask()
    sources, targets = map(list, sides)
    ids = (
        task.source_ids(tokenizer, sources),
        task.target_ids(tokenizer, targets),
    )
    lengths = np.stack([side.row_lengths().numpy() for side in ids])
    tokens = np.concatenate([side.values.numpy() for side in ids])
    counts = np.bincount(tokens, minlength=tokenizer.vocab_size)
    used = np.sort(counts[counts > 0])[::-1]
    both = lengths[:, (lengths > 0).all(axis=0)]

    title = f"{lengths.shape[1]:,} pairs, {len(tokens):,} tokens"
    figure = _new_figure(10, 3, title)
    of_lengths, of_ratios, of_tokens = figure.subplots(1, 3)
    # Bins of whole tokens; the few longest texts would squeeze the others.
    longest = int(np.quantile(lengths, 0.995)) + 1
    bins = np.arange(0, longest + 2, -(-longest // _BINS)) - 0.5
    for name, side in zip(("source", "target"), lengths, strict=True):
        label = f"{name}, mean {side.mean():.1f}"
        of_lengths.hist(side, bins, histtype="step", label=label)
    # Above the axes, where there are no bars.
    place = dict(loc="lower left", bbox_to_anchor=(-0.1, 1), ncols=2)
    of_lengths.legend(**place, **_LEGEND)
    _style_axes(of_lengths, "tokens", "texts")
    of_ratios.hist(both[1] / both[0], np.linspace(0, 3, _BINS))
    _style_axes(of_ratios, "target tokens per source token", "pairs")
    of_tokens.loglog(np.arange(1, len(used) + 1), used)
    rank = f"rank of the token; {len(used):,} of {len(counts):,} occur"
    _style_axes(of_tokens, rank, "occurrences")
    return figure


# === Attention, as in the paper's Figures 3 to 5 ===


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
    figure = _new_figure(1, 1, title)  # its size depends on the labels
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
    rows, columns = _labels(rows), _labels(columns)
    heads = len(scores)
    grid_columns = min(heads, 2 if heads <= 4 else 4)
    grid_rows = -(-heads // grid_columns)
    cell = max(_TARGET_MAP / max(expected), _SMALLEST_CELL)
    cell = min(cell, _LARGEST_CELL)
    # The engine places the maps, if the figure is large enough for them.
    width, height = (
        count
        * (
            max(size * cell, _SMALLEST_MAP)
            + max(map(_text_width, labels))
            + _GAP
        )
        + border
        for count, size, labels, border in (
            (grid_columns, len(columns), rows, _BORDERS[0]),
            (grid_rows, len(rows), columns, _BORDERS[1]),
        )
    )
    row_name, column_name = axis_labels
    width = max(width, _text_width(title, _FONT_POINTS + 3) + _GAP)
    height = max(height, _text_width(row_name, _FONT_POINTS + 1) + _GAP)
    figure.set_size_inches(width, height)
    style = {"fontsize": _FONT_POINTS + 1, "parse_math": False}
    figure.supylabel(row_name, **style)
    figure.supxlabel(column_name, **style)
    style["fontsize"] = _FONT_POINTS
    grid = figure.subplots(grid_rows, grid_columns, squeeze=False).flat
    for unused in grid[heads:]:
        unused.remove()
    for head, (axes, head_scores) in enumerate(zip(grid, scores, strict=False)):
        image = axes.imshow(
            head_scores, "Blues", aspect="auto", interpolation="nearest"
        )
        image.set_clim(0, 1)
        axes.set_title(f"head {head + 1}", fontsize=_FONT_POINTS + 1, pad=5)
        axes.set_yticks(range(len(rows)), rows, **style)
        axes.set_xticks(range(len(columns)), columns, rotation=90, **style)
        axes.tick_params(length=0, pad=3)
        axes.spines[:].set_color("0.8")
    bar = figure.colorbar(image, ax=grid[:grid_columns], ticks=[0, 0.5, 1])
    bar.ax.tick_params(labelsize=_FONT_POINTS, length=2)
    bar.set_label("attention score", fontsize=_FONT_POINTS)
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
            one
            # Some fonts have a glyph for control characters: a box.
            if ord(one) in drawable and unicodedata.category(one)[0] != "C"
            else one.encode("unicode_escape").decode()
            for one in token.replace("\N{LOWER ONE EIGHTH BLOCK}", "·")
        )
        is_long = len(text) > _LONGEST_LABEL
        labels.append(text[: _LONGEST_LABEL - 1] + "…" if is_long else text)
    return labels


def _text_width(text: str, points: float = _FONT_POINTS) -> float:
    """Returns the width of a line of text in inches."""
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    # TextPath would parse dollar signs as mathematics.
    path = TextPath((0, 0), text.replace("$", "S"), size=points)
    return path.get_extents().x1 / 72
