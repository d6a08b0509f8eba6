"""The diagram of an architecture."""

from matplotlib.patches import Rectangle

from keras_transformer.config import TransformerConfig
from keras_transformer.showing.plotting import architecture_figure


def texts(**changes):
    config = TransformerConfig.from_preset("base", **changes)
    figure = architecture_figure(config)
    return figure, [text.get_text() for text in figure.axes[0].texts]


def test_the_sizes_of_base():
    figure, found = texts()
    assert figure.get_suptitle() == "63,045,632 parameters"
    assert found.count("6 x") == 2
    assert found.count("feed-forward, 512 to 2048 to 512") == 2
    assert found.count("add and normalize") == 5
    assert "masked self-attention\n8 heads, d_k 64, d_v 64" in found
    assert found.count("embedding, 37,000 x 512\nsinusoidal positions") == 2


def test_other_architectures():
    _, found = texts(
        num_layers=2,
        num_heads=4,
        d_k=8,
        attention_window=16,
        positional_encoding="learned",
    )
    assert found.count("2 x") == 2
    assert "self-attention, window 16\n4 heads, d_k 8, d_v 128" in found
    # The attention to the encoder has no window.
    assert any(
        text.startswith("attention to the encoder\n4 heads") for text in found
    )
    assert found.count("embedding, 37,000 x 512\nlearned positions") == 2


def test_no_text_leaves_its_box():
    figure, _ = texts(attention_window=1000, vocab_size=250_000)
    figure.canvas.draw()
    axes = figure.axes[0]
    boxes = [
        patch.get_window_extent()
        for patch in axes.patches
        if isinstance(patch, Rectangle)
    ]
    for text in axes.texts:
        extent = text.get_window_extent()
        inside = [
            box
            for box in boxes
            if box.x0 <= extent.x0
            and extent.x1 <= box.x1
            and box.y0 <= extent.y0
            and extent.y1 <= box.y1
        ]
        assert inside or text.get_text().endswith(" x") or not text.get_text()
