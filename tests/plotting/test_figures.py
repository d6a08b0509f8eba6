import re
import sys
import types

import numpy as np
import pytest

from keras_transformer.plotting.figures import (
    attention_figure,
    new_figure,
    save_figure,
    training_figure,
    translation_figure,
)
from keras_transformer.support.errors import InputError

pytest.importorskip("matplotlib")


@pytest.fixture
def figure():
    return new_figure(1, 1, "a")


@pytest.mark.parametrize(
    "name, start", [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?")]
)
def test_the_suffix_chooses_the_format(figure, tmp_path, name, start):
    save_figure(figure, tmp_path / name, "a title", "a description")
    found = (tmp_path / name).read_bytes()
    assert found.startswith(start)
    assert b"a title" in found and b"a description" in found
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.jpg", "a", "missing/a.png"])
def test_an_invalid_file_name(figure, tmp_path, name):
    with pytest.raises(InputError, match=re.escape(name)):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [])  # nothing else is found
    with pytest.raises(InputError, match=r"\.\[plot\]"):
        new_figure(1, 1, "a")


def test_training_curves():
    rows = [
        {"step": 10.0, "nll": 3.0, "val_nll": 4.0, "val_score": 1.0},
        {"step": 20.0, "nll": 2.0, "val_nll": 3.5, "val_score": 5.0},
    ]
    figure = training_figure(rows, "a run", "BLEU")
    losses, bleu = figure.axes
    drawn = [line.get_xydata().tolist() for line in losses.lines]
    assert drawn == [[[10, 3], [20, 2]], [[10, 4], [20, 3.5]]]
    (line,) = bleu.lines
    assert line.get_xydata().tolist() == [[10, 1], [20, 5]]
    assert bleu.get_ylabel() == "BLEU"


def test_curves_without_validation():
    (axes,) = training_figure([{"step": 10.0, "nll": 3.0}], "a run", "F1").axes
    assert [text.get_text() for text in axes.get_legend().texts] == ["training"]
    with pytest.raises(InputError, match="empty log"):
        training_figure([], "a run", "F1")


def softmax_scores(heads, rows, columns):
    logits = np.random.default_rng(0).normal(size=(heads, rows, columns))
    scores = np.exp(logits)
    return scores / scores.sum(axis=-1, keepdims=True)


def tokens(count):
    return [f"▁word{i}" if i % 2 else f"s{i}" for i in range(count)]


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_every_head_is_plotted_with_its_scores_and_tokens():
    scores = softmax_scores(3, 2, 4)
    rows, columns = ["▁Der", "Hund"], ["▁The", "▁dog", "_", "</s>"]
    figure = attention_figure(scores, rows, columns, "layer 1", ("to", "from"))

    *maps, bar = figure.axes
    assert [axes.get_title() for axes in maps] == ["head 1", "head 2", "head 3"]
    for axes, head_scores in zip(maps, scores, strict=True):
        (image,) = axes.images
        np.testing.assert_allclose(image.get_array(), head_scores, atol=1e-7)
        assert image.get_clim() == (0, 1)
        assert labels(axes.yaxis) == ["·Der", "Hund"]
        assert labels(axes.xaxis) == ["·The", "·dog", "_", "</s>"]
        # The first row is at the top, and a label stands at its row.
        assert axes.get_ylim() == (1.5, -0.5)
        assert list(axes.get_yticks()) == [0, 1]
    assert bar.get_ylabel() == "attention score"
    texts = [text.get_text() for text in figure.texts]
    assert texts == ["layer 1", "to", "from"]


@pytest.fixture
def attention():
    """Attention of two layers, two source and three target tokens."""
    return types.SimpleNamespace(
        source_tokens=["a", "b"],
        target_tokens=["<s>", "c", "d"],
        encoder=[softmax_scores(2, 2, 2), softmax_scores(1, 2, 2)],
        decoder=[softmax_scores(2, 3, 3), softmax_scores(1, 3, 3)],
        cross=[softmax_scores(2, 3, 2), softmax_scores(1, 3, 2)],
    )


@pytest.mark.parametrize(
    ("kind", "title", "rows", "columns"),
    [
        ("encoder", "Encoder self-attention", "source", "source"),
        ("decoder", "Decoder self-attention", "target", "target"),
        ("cross", "Encoder-decoder attention", "target", "source"),
    ],
)
def test_attention_of_a_translation(attention, kind, title, rows, columns):
    first = translation_figure(attention, kind, layer=1)
    last = translation_figure(attention, kind)
    assert (len(first.axes), len(last.axes)) == (3, 2)  # heads and color bar
    (image,) = last.axes[0].images
    expected = getattr(attention, kind)[1][0]
    np.testing.assert_allclose(image.get_array(), expected, atol=1e-7)
    tokens_of = {"source": ["a", "b"], "target": ["<s>", "c", "d"]}
    assert labels(last.axes[0].yaxis) == tokens_of[rows]
    assert labels(last.axes[0].xaxis) == tokens_of[columns]
    shown, row_name, column_name = (t.get_text() for t in last.texts)
    assert shown == f"{title}, layer 2"
    assert ("output position" in row_name) == (rows == "target")
    assert ("source position" in column_name) == (columns == "source")


@pytest.mark.parametrize(
    ("kind", "layer", "message"),
    [
        ("self", None, "kind must .*'self'"),
        ("cross", 0, "layer must .*0"),
        ("cross", 3, "layer must .*3"),
    ],
)
def test_an_unknown_kind_or_layer(attention, kind, layer, message):
    with pytest.raises(InputError, match=message):
        translation_figure(attention, kind, layer)


@pytest.mark.parametrize(
    "heads, rows, columns",
    [(1, 1, 1), (2, 80, 80), (5, 5, 40)],
)
def test_no_texts_overlap_or_leave_the_figure(heads, rows, columns):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = attention_figure(
        softmax_scores(heads, rows, columns),
        tokens(rows),
        tokens(columns),
        "a title that is longer than a small map is wide",
        ("output position, predicting the next token", "source position"),
    )
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()  # positions the label of the color bar
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
    # Boxes include line spacing, so that neighbors may touch by a pixel.
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


def test_what_the_font_lacks_is_plotted_as_its_code():
    rows = ["▁你", "\n", "x" * 30, "größer", "$a$ $b$"]
    figure = attention_figure(softmax_scores(1, 5, 1), rows, ["$"], "$1 $2")
    assert labels(figure.axes[0].yaxis) == [
        "·\\u4f60",
        "\\n",
        "x" * 19 + "…",
        "größer",
        "$a$ $b$",
    ]
    # Dollar signs are not parsed as mathematics.
    assert not figure.axes[0].get_yticklabels()[4].get_parse_math()
    assert not figure.texts[0].get_parse_math()


def test_too_many_tokens():
    with pytest.raises(InputError, match="81 rows and 4 columns"):
        attention_figure(np.ones((1, 81, 4)), tokens(81), tokens(4), "")
