"""The figure of a corpus."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.showing.plotting.figures import (
    FONT_POINTS,
    new_figure,
    style_axes,
)
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_transformer.tasks import Task
    from keras_transformer.text import Tokenizer

_BINS = 40  # at most, in a histogram


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

    Returns:
        A figure that belongs to no window.

    Raises:
        InputError: If there are no pairs, or matplotlib is not installed.
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
    counts = np.sort(np.bincount(tokens, minlength=tokenizer.vocab_size))[::-1]
    both = lengths[:, (lengths > 0).all(axis=0)]

    title = f"{lengths.shape[1]:,} pairs, {len(tokens):,} tokens"
    figure = new_figure(10, 3, title)
    of_lengths, of_ratios, of_tokens = figure.subplots(1, 3)
    # Bins of whole tokens; the few longest texts would squeeze the others.
    longest = int(np.quantile(lengths, 0.995)) + 1
    bins = np.arange(0, longest + 2, -(-longest // _BINS)) - 0.5
    for name, side in zip(("source", "target"), lengths, strict=True):
        label = f"{name}, mean {side.mean():.1f}"
        of_lengths.hist(side, bins, histtype="step", label=label)
    of_lengths.legend(
        fontsize=FONT_POINTS,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(-0.1, 1),  # above the axes, where there are no bars
        ncols=2,
    )
    style_axes(of_lengths, "tokens", "texts")
    of_ratios.hist(both[1] / both[0], np.linspace(0, 3, _BINS))
    style_axes(of_ratios, "target tokens per source token", "pairs")
    used = counts[counts > 0]
    of_tokens.loglog(np.arange(1, len(used) + 1), used)
    rank = f"rank of the token; {len(used):,} of {len(counts):,} occur"
    style_axes(of_tokens, rank, "occurrences")
    return figure
