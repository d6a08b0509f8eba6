"""What other systems compute: models that their configuration describes."""

from collections.abc import Iterable
from typing import Any

from keras.layers import Dense, LayerNormalization

from keras_transformer.decoding.linear import is_plain_dense
from keras_transformer.inference.translator import Translator
from keras_transformer.layers import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    TiedEmbedding,
)
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError

_LAYER = dict(
    self_attention=MultiHeadAttention,
    self_attention_norm=Residual,
    feed_forward=FeedForward,
    feed_forward_norm=Residual,
)
# The class of each part that has weights, by its attribute.
_PARTS = {
    Transformer: dict(
        embedding=TiedEmbedding,
        target_embedding=TiedEmbedding,
        output_embedding=TiedEmbedding,
        encoder=Encoder,
        decoder=Decoder,
    ),
    Encoder: dict(layers=EncoderLayer, final_norm=LayerNormalization),
    Decoder: dict(layers=DecoderLayer, final_norm=LayerNormalization),
    EncoderLayer: _LAYER,
    DecoderLayer: dict(
        _LAYER,
        cross_attention=MultiHeadAttention,
        cross_attention_norm=Residual,
    ),
    MultiHeadAttention: dict(
        query_projection=Dense,
        key_projection=Dense,
        value_projection=Dense,
        output_projection=Dense,
    ),
    FeedForward: dict(inner=Dense, outer=Dense),
    Residual: dict(norm=LayerNormalization),
}


def check_expressible(
    translator: Translator, system: str, needs: str, problems: Iterable[str]
) -> None:
    """Raises InputError unless another system computes what the model does.

    Args:
        translator: What to export.
        system: The name of the other system.
        needs: What it needs, besides one model that translates, without
            restricted attention: the end of a sentence.
        problems: What it cannot express: names and values.
    """
    found, config = list(problems), translator.model.config
    if config.attention_window is not None:
        found.insert(0, f"attention_window={config.attention_window}")
    if not translator.task.targets_are_text:
        found.insert(0, f"a model for {translator.task.name}")
    if len(translator.models) > 1:
        count = len(translator.models)
        found.insert(0, f"{count} models: LiteRT has ensembles too")
    if found:
        raise InputError(
            f"{system} runs one model that translates, without restricted "
            f"attention and {needs}. Export a SavedModel instead. Received: "
            + ", ".join(found)
        )
    _check(translator.model, Transformer, system)


def _check(part: Any, kind: type, system: str) -> None:
    """Raises InputError unless a part, and its parts, are the library's own."""
    if type(part) is not kind or (kind is Dense and not is_plain_dense(part)):
        what = type(part).__name__
        if kind not in (type(part), Dense):
            what += f" in place of {kind.__name__}"
        raise InputError(
            f"{system} computes only what the configuration says: no layers "
            "that are subclasses, are quantized or have LoRA. Export a "
            "SavedModel instead, or quantize with the `dtype` of this export. "
            f"Received: {part.path}, {what}"
        )
    for name, kind_of_child in _PARTS.get(kind, {}).items():
        children = getattr(part, name)
        if not isinstance(children, list):
            children = [] if children is None else [children]
        for child in children:
            _check(child, kind_of_child, system)
