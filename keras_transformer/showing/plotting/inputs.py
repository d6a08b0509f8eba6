"""Figures of what a model reads: positions, masks, and a corpus."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.masks import (
    causal_mask,
    combine_masks,
    padding_mask,
    window_mask,
)
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

_MOST_SENTENCES = 8
_BINS = 40  # at most, in a histogram


def positional_encoding_figure(
    length: int = 128, d_model: int = 128
) -> "Figure":
    """Plots the sinusoids of section 3.5.

    On the left is the vector of each position. On the right is the dot
    product of the vectors of two positions over their distance, divided by
    that of a vector with itself: it depends on the distance alone.

    Args:
        length: Number of positions, at least 2.
        d_model: Width of the vectors, even.

    Returns:
        A figure that belongs to no window.

    Raises:
        InputError: If an argument is invalid, or matplotlib is not installed.
    """
    if length < 2 or d_model < 2 or d_model % 2:
        raise InputError(
            "A plot of positions needs at least 2 of them, and an even width. "
            f"Received: length={length}, d_model={d_model}"
        )
    layer = SinusoidalPositionalEncoding(dtype="float32")
    layer.build((None, length, d_model))
    vectors = ops.convert_to_numpy(layer.vectors(ops.arange(length)))
    figure = new_figure(8, 3.2, f"Positional encoding, d_model = {d_model}")
    table, curve = figure.subplots(1, 2)
    image = table.imshow(vectors, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
    table.set_xlabel("dimension", fontsize=FONT_POINTS)
    table.set_ylabel("position", fontsize=FONT_POINTS)
    table.tick_params(labelsize=FONT_POINTS)
    figure.colorbar(image, ax=table).ax.tick_params(labelsize=FONT_POINTS)
    curve.plot(vectors @ vectors[0] / (d_model / 2))
    style_axes(curve, "distance of two positions", "relative dot product")
    return figure


def masks_figure(
    ids: Any, pad_id: int = 0, window: int | None = None
) -> "Figure":
    """Plots the masks of a batch of target ids.

    Each row is a sentence; the columns are the padding mask, the causal mask,
    and both, which is what the decoder's self-attention has. Dark is what a
    position, a row of a mask, may attend to.

    Args:
        ids: Integers `[B, T]`, at most 8 sentences.
        pad_id: Id of padding.
        window: Positions of restricted self-attention. Default: all.

    Returns:
        A figure that belongs to no window. Its axes are row by row.

    Raises:
        InputError: If there are no sentences or too many, or matplotlib is
            not installed.
    """
    ids = np.asarray(ids)
    if ids.ndim != 2 or not ids.size or len(ids) > _MOST_SENTENCES:
        raise InputError(
            f"ids must be integers [B, T] of 1 to {_MOST_SENTENCES} "
            f"sentences. Received: shape {list(ids.shape)}"
        )
    length = ids.shape[1]
    padding = padding_mask(ids, pad_id)
    causal = causal_mask(length)
    name = "causal"
    if window is not None:
        causal = combine_masks(causal, window_mask(length, window, causal=True))
        name = f"causal, window of {window}"
    masks = {
        "padding": padding,
        name: causal,
        "both": combine_masks(padding, causal),
    }
    shape = (len(ids), length, length)
    arrays = {
        name: np.broadcast_to(ops.convert_to_numpy(mask), shape)
        for name, mask in masks.items()
    }
    figure = new_figure(
        6, 0.5 + 2 * len(ids), "Masks of a batch: dark may be attended to"
    )
    grid = figure.subplots(len(ids), len(masks), squeeze=False)
    for sentence, row in enumerate(grid):
        for axes, (name, mask) in zip(row, arrays.items(), strict=True):
            axes.imshow(mask[sentence], cmap="Blues", vmin=0, vmax=1.4)
            axes.tick_params(labelsize=FONT_POINTS)
            axes.locator_params(integer=True)
            if sentence == 0:
                axes.set_title(name, fontsize=FONT_POINTS + 1)
            if sentence == len(ids) - 1:
                axes.set_xlabel("key", fontsize=FONT_POINTS)
        label = f"sentence {sentence + 1}\nquery"
        row[0].set_ylabel(label, fontsize=FONT_POINTS)
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

    figure = new_figure(
        10, 3, f"{lengths.shape[1]:,} pairs, {len(tokens):,} tokens"
    )
    of_lengths, of_ratios, of_tokens = figure.subplots(1, 3)
    # Bins of whole tokens; the few longest texts would squeeze the others.
    longest = int(np.quantile(lengths, 0.995)) + 1
    bins = np.arange(0, longest + 2, -(-longest // _BINS)) - 0.5
    for name, side in zip(("source", "target"), lengths, strict=True):
        of_lengths.hist(
            side, bins, histtype="step", label=f"{name}, mean {side.mean():.1f}"
        )
    # Above the axes, where there are no bars.
    of_lengths.legend(
        fontsize=FONT_POINTS,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(-0.1, 1),
        ncols=2,
    )
    style_axes(of_lengths, "tokens", "texts")
    of_ratios.hist(both[1] / both[0], np.linspace(0, 3, _BINS))
    style_axes(of_ratios, "target tokens per source token", "pairs")
    used = counts[counts > 0]
    of_tokens.loglog(np.arange(1, len(used) + 1), used)
    style_axes(
        of_tokens,
        f"rank of the token; {len(used):,} of {len(counts):,} occur",
        "occurrences",
    )
    return figure
