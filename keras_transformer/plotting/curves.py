"""Functions that return a matplotlib figure, and `save_figure`.

The figures belong to no window. All functions need matplotlib, and raise an
InputError without it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.plotting.figures import (
    FONT_POINTS,
    LEGEND,
    new_figure,
    save_figure,
    style_axes,
)
from keras_transformer.plotting.heat_maps import (
    attention_figure,
    masks_figure,
    translation_figure,
)
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.tasks import Task
    from keras_transformer.text import Tokenizer

__all__ = [
    "attention_figure",
    "corpus_figure",
    "masks_figure",
    "positions_figure",
    "save_figure",
    "schedule_figure",
    "training_figure",
    "translation_figure",
]

_POINTS = 500  # of a curve
_BINS = 40  # at most, in a histogram


def training_figure(
    rows: Sequence[Mapping[str, float]], title: str, score: str
) -> "Figure":
    """Plots what training wrote to `log.csv`.

    The negative log-likelihood of training (with dropout) and validation,
    and the score of greedy validation outputs, over the steps. A measure
    that no row has is left out.

    Args:
        rows: From `train.fitting.training_log.read_log`.
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
    figure = new_figure(4.2 * len(panels), 3, title)
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (label, lines) in zip(grid, panels.items(), strict=True):
        for line, name in lines.items():
            points = [(r["step"], r[name]) for r in rows if name in r]
            if points:
                axes.plot(*zip(*points, strict=True), label=line)
        style_axes(axes, "step", label)
        axes.legend(**LEGEND)
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
    figure = new_figure(5, 3, "Learning rate")
    axes = figure.subplots()
    for label, schedule in schedules.items():
        axes.plot(at, [float(schedule(step - 1)) for step in at], label=label)
    style_axes(axes, "step", "learning rate")
    axes.set_ylim(bottom=0)
    axes.legend(**LEGEND)
    return figure


def corpus_figure(
    pairs: Iterable[tuple[str, str]],
    tokenizer: "Tokenizer",
    task: "Task | None" = None,
    title: str = "",
) -> "Figure":
    """Plots the lengths and the tokens of a parallel corpus.

    The panels are the lengths of sources and targets in tokens, the ratio of
    the lengths of a pair, and how often each token occurs, the most frequent
    first.

    Args:
        pairs: Sources and targets.
        tokenizer: The tokenizer.
        task: What the pairs are for. Default: translation.
        title: What the pairs are, such as `"Sample of train"`.

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

    size = f"{lengths.shape[1]:,} pairs, {len(tokens):,} tokens"
    figure = new_figure(10, 3, f"{title}: {size}" if title else size)
    of_lengths, of_ratios, of_tokens = figure.subplots(1, 3)
    # Bins of whole tokens; the few longest texts would squeeze the others.
    longest = int(np.quantile(lengths, 0.995)) + 1
    bins = np.arange(0, longest + 2, -(-longest // _BINS)) - 0.5
    for name, side in zip(("source", "target"), lengths, strict=True):
        label = f"{name}, mean {side.mean():.1f}"
        of_lengths.hist(side, bins, histtype="step", label=label)
    # Above the axes, where there are no bars.
    place = dict(loc="lower left", bbox_to_anchor=(-0.1, 1), ncols=2)
    of_lengths.legend(**place, **LEGEND)
    style_axes(of_lengths, "tokens", "texts")
    of_ratios.hist(both[1] / both[0], np.linspace(0, 3, _BINS))
    style_axes(of_ratios, "target tokens per source token", "pairs")
    of_tokens.loglog(np.arange(1, len(used) + 1), used)
    rank = f"rank of the token; {len(used):,} of {len(counts):,} occur"
    style_axes(of_tokens, rank, "occurrences")
    return figure


def positions_figure(vectors: np.ndarray) -> "Figure":
    """Plots the vectors that positions are encoded by (section 3.5).

    The panels are all vectors as a map, and some of their dimensions over the
    positions.

    Args:
        vectors: `[T, d_model]`, from `PositionalEncoding.vectors`.

    Raises:
        InputError: If they have another shape.
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(
            "Vectors of positions must have the shape [T, d_model]. Received: "
            f"shape {list(vectors.shape)}"
        )
    length, width = vectors.shape
    title = f"Encodings of {length:,} positions, d_model {width:,}"
    figure = new_figure(9, 3.4, title)
    of_vectors, of_dimensions = figure.subplots(1, 2)
    image = of_vectors.imshow(
        vectors, "RdBu", aspect="auto", interpolation="nearest"
    )
    style_axes(of_vectors, "dimension", "position")
    of_vectors.grid(False)
    bar = figure.colorbar(image, ax=of_vectors)
    bar.ax.tick_params(labelsize=FONT_POINTS)
    bar.outline.set_visible(False)
    # Sines of ever lower frequencies.
    for dimension in sorted({width * part // 16 * 2 for part in range(4)}):
        label = f"dimension {dimension}"
        of_dimensions.plot(vectors[:, dimension], label=label)
    style_axes(of_dimensions, "position", "value")
    place = dict(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=2)
    of_dimensions.legend(**place, **LEGEND)
    return figure
