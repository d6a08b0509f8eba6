"""The architecture of a configuration, as the paper's Figure 1."""

from typing import TYPE_CHECKING, Any

from keras_transformer.config import TransformerConfig
from keras_transformer.showing.plotting.figures import FONT_POINTS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = {
    "embedding": "#f7d9d9",
    "attention": "#fbe3c0",
    "feed-forward": "#c9e6f2",
    "norm": "#f2f3c4",
    "linear": "#dddff0",
    "softmax": "#cfe8cd",
    "plain": "none",
}
_BOX = (0.37, 0.056)  # width and height, as shares of the figure
_GAP = 0.022


def architecture_figure(config: TransformerConfig) -> "Figure":
    """Draws the encoder and the decoder with their sizes.

    Args:
        config: The architecture.

    Returns:
        A figure that belongs to no window.

    Raises:
        InputError: If matplotlib is not installed.
    """
    figure = new_figure(8, 5.8, f"{config.num_parameters:,} parameters")
    axes = figure.subplots()
    axes.set(xlim=(0, 1), ylim=(0, 0.8))
    axes.axis("off")
    heads = f"{config.num_heads} heads, d_k {config.d_k}, d_v {config.d_v}"
    window = config.attention_window
    near = "" if window is None else f", window {window}"
    embedding = (
        f"embedding, {config.vocab_size:,} x {config.d_model}\n"
        f"{config.positional_encoding} positions"
    )
    feed_forward = (
        "feed-forward",
        f"feed-forward, {config.d_model} to {config.d_ff} to {config.d_model}",
    )
    cross_attention = ("attention", f"attention to the encoder\n{heads}")
    norm = ("norm", "add and normalize")
    encoder = [
        ("attention", f"self-attention{near}\n{heads}"),
        norm,
        feed_forward,
        norm,
    ]
    decoder = [
        ("attention", f"masked self-attention{near}\n{heads}"),
        norm,
        cross_attention,
        norm,
        feed_forward,
        norm,
    ]
    left, right = 0.05, 0.59
    _, top = _column(axes, left, "source", embedding, encoder, config)
    boxes, end = _column(axes, right, "target", embedding, decoder, config)
    logits = _box(
        axes, right, end, "linear", f"logits, {config.vocab_size:,} (tied)"
    )
    probabilities = _box(
        axes, right, logits + _GAP, "softmax", "softmax: next token"
    )
    _arrow(axes, right, end - _GAP, end)
    _arrow(axes, right, logits, logits + _GAP)
    _arrow(axes, right, probabilities, probabilities + 2 * _GAP)
    # The encoder's output goes to every decoder layer.
    x, y = left + _BOX[0] / 2, top - _GAP
    into = boxes[decoder.index(cross_attention)] + _BOX[1] / 2
    axes.plot([x, x, 0.5, 0.5], [y, y + _GAP, y + _GAP, into], color="0.4")
    axes.annotate(
        "", (right, into), (0.5, into), arrowprops={"arrowstyle": "->"}
    )
    return figure


def _column(
    axes: Any,
    x: float,
    name: str,
    embedding: str,
    layer: list[tuple[str, str]],
    config: TransformerConfig,
) -> tuple[list[float], float]:
    """Draws a stack; returns the bottoms of its boxes, and its top."""
    from matplotlib.patches import FancyBboxPatch

    y = _box(
        axes,
        x,
        0.02,
        "plain",
        f"{name} tokens, shifted" if (name == "target") else f"{name} tokens",
    )
    _arrow(axes, x, y, y + _GAP)
    y = _box(axes, x, y + _GAP, "embedding", embedding)
    _arrow(axes, x, y, y + 2 * _GAP)
    y += 2 * _GAP
    start, bottoms = y, []
    for i, (kind, text) in enumerate(layer):
        bottoms.append(y)
        top = _box(axes, x, y, kind, text)
        # A normalization lies on its sub-layer.
        gap = 0 if i % 2 == 0 else _GAP
        if gap:
            _arrow(axes, x, top, top + gap)
        y = top + gap
    pad = 0.012
    axes.add_patch(
        FancyBboxPatch(
            (x - pad, start - pad),
            _BOX[0] + 2 * pad,
            y - _GAP - start + 2 * pad,
            boxstyle="round,pad=0.008",
            fill=False,
            edgecolor="0.6",
        )
    )
    axes.text(
        x - 0.03,
        (start + y) / 2,
        f"{config.num_layers} x",
        fontsize=FONT_POINTS + 2,
        horizontalalignment="right",
        verticalalignment="center",
    )
    return bottoms, y + _GAP


def _box(axes: Any, x: float, y: float, kind: str, text: str) -> float:
    """Draws a box, and returns its top."""
    from matplotlib.patches import Rectangle

    width, height = _BOX
    axes.add_patch(
        Rectangle(
            (x, y),
            width,
            height,
            facecolor=_COLORS[kind],
            edgecolor="none" if kind == "plain" else "0.4",
        )
    )
    axes.text(
        x + width / 2,
        y + height / 2,
        text,
        fontsize=FONT_POINTS,
        horizontalalignment="center",
        verticalalignment="center",
    )
    return y + height


def _arrow(axes: Any, x: float, start: float, end: float) -> None:
    middle = x + _BOX[0] / 2
    axes.annotate(
        "", (middle, end), (middle, start), arrowprops={"arrowstyle": "->"}
    )
