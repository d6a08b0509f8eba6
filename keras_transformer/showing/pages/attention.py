"""The attention of a translation as a page for a browser."""

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.showing.pages.rendering import Page, render

if TYPE_CHECKING:
    from keras_transformer.inference.translator import TranslationAttention


def attention_page(attention: "TranslationAttention") -> Page:
    """Returns a page with the attention of all layers and heads.

    It shows each layer as lines between two columns of tokens, as the paper's
    Figures 3 to 5, and as a heat map for each head. Scores are shown with a
    precision of 1/255.

    Args:
        attention: From `Translator.attention`.

    Returns:
        The page; the template is `attention.html`.
    """
    data = {
        "source": attention.source,
        "target": attention.output,
        "source_tokens": attention.source_tokens,
        "target_tokens": attention.target_tokens,
        "source_words": attention.source_words,
        "target_words": attention.target_words,
        "num_layers": len(attention.encoder),
        "num_heads": len(attention.encoder[0]),
        "scores": {
            kind: _encoded(getattr(attention, kind))
            for kind in ("encoder", "decoder", "cross")
        },
    }
    return render("attention", f"Attention: {attention.source}", data)


def _encoded(layers: Sequence[np.ndarray]) -> str:
    """Returns scores as bytes in base64, 255 for 1."""
    scores = np.rint(255 * np.stack(layers)).astype(np.uint8)
    return base64.b64encode(scores.tobytes()).decode("ascii")
