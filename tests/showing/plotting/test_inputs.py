"""Positions, masks and a corpus."""

import numpy as np
import pytest

from keras_transformer.showing.plotting import (
    corpus_figure,
    masks_figure,
    positional_encoding_figure,
)
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask

pytest.importorskip("matplotlib")


def image(axes):
    return np.asarray(axes.images[0].get_array())


def test_positions():
    figure = positional_encoding_figure(length=9, d_model=6)
    table, curve, _ = figure.axes
    angles = np.arange(9)[:, None] / 10_000 ** (np.arange(3) / 3)
    np.testing.assert_allclose(image(table)[:, 0::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(image(table)[:, 1::2], np.cos(angles), atol=1e-6)
    # sin a sin b + cos a cos b = cos (a - b)
    expected = np.cos(angles).mean(axis=1)
    np.testing.assert_allclose(curve.lines[0].get_ydata(), expected, atol=1e-6)
    for length, width in ((1, 6), (9, 5), (9, 0)):
        message = f"length={length}, d_model={width}"
        with pytest.raises(InputError, match=message):
            positional_encoding_figure(length, width)


def test_masks():
    figure = masks_figure([[5, 6, 9], [5, 9, 9]], pad_id=9)
    found = [image(axes).astype(int).tolist() for axes in figure.axes]
    causal = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert found == [
        [[1, 1, 0]] * 3,
        causal,
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0]] * 3,
        causal,
        [[1, 0, 0]] * 3,
    ]
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == ["padding", "causal", "both"]


def test_masks_with_a_window():
    _, causal, both = masks_figure([[5, 6, 7, 0]], window=2).axes
    near = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert image(causal).astype(int).tolist() == near
    near[3][3] = 0
    assert image(both).astype(int).tolist() == near


@pytest.mark.parametrize("ids", [[1, 2], [[]], np.ones((9, 2))])
def test_batches_that_cannot_be_plotted(ids):
    with pytest.raises(InputError, match="of 1 to 8 sentences"):
        masks_figure(ids)


def test_a_corpus(tokenizer):
    pairs = [("dog", "Hund"), ("cat dog", "Katze"), ("", "Haus")]
    figure = corpus_figure(iter(pairs), tokenizer)
    of_lengths, of_ratios, of_tokens = figure.axes
    lengths = [
        [len(tokenizer.tokenize([pair[i]])[0]) for pair in pairs]
        for i in range(2)
    ]
    labels = [text.get_text() for text in of_lengths.get_legend().texts]
    assert labels == [
        f"source, mean {np.mean(lengths[0]):.1f}",
        f"target, mean {np.mean(lengths[1]):.1f}",
    ]
    total = sum(map(sum, lengths))
    assert figure.get_suptitle() == f"3 pairs, {total} tokens"
    # A pair with an empty side has no ratio.
    assert sum(bar.get_height() for bar in of_ratios.patches) == 2
    counts = of_tokens.lines[0].get_ydata()
    assert counts.sum() == total and (np.diff(counts) <= 0).all()
    with pytest.raises(InputError, match="needs pairs"):
        corpus_figure([], tokenizer)


def test_a_treebank():
    pairs = [("the dog", "(TOP (NP (DT the) (NN dog)))")]
    task = ParsingTask(split_words=False)
    tokenizer = task.train_tokenizer(pairs * 20, 280)
    figure = corpus_figure(pairs, tokenizer, task)
    targets = len(task.target_ids(tokenizer, [pairs[0][1]])[0])
    sources = len(tokenizer.tokenize(["the dog"])[0])
    assert targets == sources + 4
    assert figure.get_suptitle() == f"1 pairs, {sources + targets} tokens"
