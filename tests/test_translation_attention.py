"""Attention behind a translation: what `attention_of` hands to a picture."""

import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.translation_attention import attention_of

SOURCE = "The red dog sleeps."
TITLES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Attention of the decoder to the source",
}


@pytest.mark.parametrize("kind", TITLES)
def test_weights_of_each_kind(translator, kind):
    weights, attending, attended, title = attention_of(translator, SOURCE, kind)
    heads = translator.model.config.num_heads
    assert weights.shape == (heads, len(attending), len(attended))
    assert (weights >= 0.0).all()
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-5)
    source = ["The", "red", "dog", "sleeps.", "</s>"]
    target = ["<s>", "Hund", "schläft,", "der", "rote."]
    assert words(attending) == (source if kind == "encoder" else target)
    assert words(attended) == (target if kind == "decoder" else source)
    assert title == f"{TITLES[kind]}, layer 1"
    # The decoder does not see what follows; the others see everything.
    future = np.triu(weights[0], k=1)
    assert (future == 0.0).all() == (kind == "decoder")


def words(pieces):
    """Pieces joined to words, the special tokens apart."""
    text = "".join(
        f" {piece} " if piece in ("<s>", "</s>") else piece for piece in pieces
    )
    return text.replace("▁", " ").split()


def test_the_last_layer_is_the_default(translator):
    default = attention_of(translator, "dog", "cross")
    named = attention_of(translator, "dog", "cross", layer=1)
    np.testing.assert_array_equal(default[0], named[0])
    assert default[1:] == named[1:]


@pytest.mark.parametrize("layer", [-1, 0, 2])
def test_no_such_layer(translator, layer):
    with pytest.raises(InputError, match=f"layers 1 to 1. Received: .*{layer}"):
        attention_of(translator, SOURCE, "encoder", layer)
