import struct
import sys

import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.plotting import (
    attention_figure,
    save_figure,
    training_figure,
)

pytest.importorskip("matplotlib")


def softmax_weights(heads, rows, columns):
    scores = np.random.default_rng(0).normal(size=(heads, rows, columns))
    weights = np.exp(scores)
    return weights / weights.sum(axis=-1, keepdims=True)


def tokens(count):
    return [f"▁word{i}" if i % 2 else f"s{i}" for i in range(count)]


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_every_head_is_drawn_with_its_weights_and_tokens():
    weights = softmax_weights(3, 2, 4)
    rows, columns = ["▁Der", "Hund"], ["▁The", "▁dog", "_", "</s>"]
    figure = attention_figure(weights, rows, columns, "layer 1")

    *maps, bar = figure.axes
    assert [axes.get_title() for axes in maps] == ["head 1", "head 2", "head 3"]
    for axes, head_weights in zip(maps, weights, strict=True):
        (image,) = axes.images
        np.testing.assert_allclose(image.get_array(), head_weights, atol=1e-7)
        assert image.get_clim() == (0, 1)
        assert labels(axes.yaxis) == ["·Der", "Hund"]
        assert labels(axes.xaxis) == ["·The", "·dog", "_", "</s>"]
        # The first row is at the top, and a label stands at its row.
        assert axes.get_ylim() == (1.5, -0.5)
        assert list(axes.get_yticks()) == [0, 1]
    assert bar.get_ylabel() == "attention weight"
    assert [text.get_text() for text in figure.texts] == ["layer 1"]


@pytest.mark.parametrize(
    "heads, rows, columns",
    [(1, 1, 1), (4, 30, 30), (5, 5, 40), (3, 7, 2), (16, 40, 40)],
)
def test_no_text_overlaps_another_or_leaves_the_picture(heads, rows, columns):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = attention_figure(
        softmax_weights(heads, rows, columns),
        tokens(rows),
        tokens(columns),
        "a title that is longer than a small map is wide",
    )
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # puts the name of the colour bar in place
    texts = [*figure.texts]
    for axes in figure.axes:
        texts += [axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()]
        texts += [axes.yaxis.label]
    boxes = np.array(
        [
            text.get_window_extent(renderer).extents
            for text in texts
            if text.get_text()
        ]
    )
    assert boxes.min() >= 0
    assert (boxes[:, 2:] <= figure.bbox.extents[2:]).all()

    x0, y0, x1, y1 = boxes.T
    # Boxes hold the space of a line, so that neighbours may touch by a pixel.
    overlap = (
        (x0[:, None] < x1 - 1)
        & (x0 < x1[:, None] - 1)
        & (y0[:, None] < y1 - 1)
        & (y0 < y1[:, None] - 1)
    )
    np.testing.assert_array_equal(overlap, np.eye(len(boxes), dtype=bool))

    bar = figure.axes[-1]
    name = bar.yaxis.label.get_window_extent(renderer)
    assert name.height <= bar.bbox.height


def test_what_the_font_lacks_is_drawn_as_its_code():
    rows = ["▁你", "\n", "x" * 30, "größer", "$a$ $b$"]
    figure = attention_figure(softmax_weights(1, 5, 1), rows, ["$"], "$1 $2")
    assert labels(figure.axes[0].yaxis) == [
        "·\\u4f60",
        "\\n",
        "x" * 19 + "…",
        "größer",
        "$a$ $b$",
    ]
    # Dollar signs are tokens, not mathematics.
    assert not figure.axes[0].get_yticklabels()[4].get_parse_math()
    assert not figure.texts[0].get_parse_math()


@pytest.mark.parametrize(
    "shape, rows, columns, message",
    [
        ((2, 3, 4), 3, 3, r"\[heads, 3, 3\].*Received: shape \[2, 3, 4\]"),
        ((3, 4), 3, 4, r"Received: shape \[3, 4\]"),
        ((0, 3, 4), 3, 4, r"at least one head"),
        ((1, 81, 4), 81, 4, r"at most 80 tokens.*81 rows and 4 columns"),
    ],
)
def test_weights_that_cannot_be_drawn(shape, rows, columns, message):
    with pytest.raises(InputError, match=message):
        attention_figure(np.ones(shape), tokens(rows), tokens(columns), "")


@pytest.mark.parametrize(
    "name, start", [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?")]
)
def test_the_suffix_chooses_the_format(tmp_path, name, start):
    figure = attention_figure(softmax_weights(1, 2, 2), "ab", "cd", "")
    save_figure(figure, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_curves_of_a_training():
    rows = [
        {"step": 10.0, "nll": 3.0, "val_nll": 4.0, "val_bleu": 1.0},
        {"step": 20.0, "nll": 2.0, "val_nll": 3.5, "val_bleu": 5.0},
    ]
    figure = training_figure(rows, "a run")
    losses, bleu = figure.axes
    drawn = [line.get_xydata().tolist() for line in losses.lines]
    assert drawn == [[[10, 3], [20, 2]], [[10, 4], [20, 3.5]]]
    (line,) = bleu.lines
    assert line.get_xydata().tolist() == [[10, 1], [20, 5]]
    assert bleu.get_ylabel() == "BLEU"


def test_curves_without_validation():
    (axes,) = training_figure([{"step": 10.0, "nll": 3.0}], "a run").axes
    assert [text.get_text() for text in axes.get_legend().texts] == ["training"]
    with pytest.raises(InputError, match="empty log"):
        training_figure([], "a run")


def test_a_png_holds_the_picture(tmp_path):
    from matplotlib.image import imread

    weights = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    figure = attention_figure(weights, "ab", "cd", "diagonal")
    path = tmp_path / "diagonal.png"
    save_figure(figure, str(path))

    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    expected = figure.get_size_inches() * figure.dpi
    np.testing.assert_allclose([width, height], expected, atol=1)

    pixels = imread(path)[..., :3].mean(axis=-1)
    box = figure.axes[0].get_position()
    drawn = [
        [
            pixels[
                int(height * (1 - box.y1 + box.height * (row + 0.5) / 2)),
                int(width * (box.x0 + box.width * (column + 0.5) / 2)),
            ]
            for column in range(2)
        ]
        for row in range(2)
    ]
    np.testing.assert_array_equal(np.array(drawn) < 0.5, np.eye(2))


def test_a_file_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    figure = attention_figure(softmax_weights(1, 2, 2), "ab", "cd", "")
    path = tmp_path / "a.png"
    path.write_text("before")

    def fail(file, **_):
        file.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save_figure(figure, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.jpg", "a", "missing/a.png"])
def test_a_file_that_cannot_be_written(tmp_path, name):
    figure = attention_figure(softmax_weights(1, 2, 2), "ab", "cd", "")
    with pytest.raises(InputError, match="Received: "):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InputError, match=r"keras-transformer-nmt\[plot\]"):
        attention_figure(softmax_weights(1, 2, 2), "ab", "cd", "")
