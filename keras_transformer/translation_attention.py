"""The attention behind a translation, for pictures as in Figures 3 to 5."""

import numpy as np
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.translator import Translator


def attention_of(
    translator: Translator, text: str, kind: str, layer: int | None = None
) -> tuple[np.ndarray, list[str], list[str], str]:
    """Returns the attention of a layer while a text is translated.

    Args:
        translator: The model with its search.
        text: The source.
        kind: `"encoder"`, `"decoder"` or `"cross"`.
        layer: From 1. Default: the last.

    Returns:
        Weights `[heads, T, S]`, the T attending and the S attended tokens,
        and a title.

    Raises:
        InputError: If there is no such layer, or the text is too long.
    """
    config = translator.model.config
    layer = config.num_layers if layer is None else layer
    if not 1 <= layer <= config.num_layers:
        raise InputError(
            f"The model has layers 1 to {config.num_layers}. Received: "
            f"layer={layer}"
        )
    source, _, cut = translator.source_ids(tf.constant([text]))
    if cut[0]:
        raise InputError(
            f"The model reads {config.max_length - 1} tokens. Received: a "
            "longer sentence; use a shorter one."
        )
    result = translator.search_ids(source)
    best = result.ids[:, 0, : int(result.lengths[0, 0])]
    target = tf.concat([[[config.bos_id]], best[:, :-1]], axis=1)
    weights = translator.model.attention_weights(source, target)
    chosen = getattr(weights, kind)[layer - 1][0].numpy()
    pieces = translator.tokenizer.pieces
    attending = pieces(source[0]) if kind == "encoder" else pieces(target[0])
    attended = pieces(target[0]) if kind == "decoder" else pieces(source[0])
    names = {
        "encoder": "Encoder self-attention",
        "decoder": "Decoder self-attention",
        "cross": "Attention of the decoder to the source",
    }
    return chosen, attending, attended, f"{names[kind]}, layer {layer}"
