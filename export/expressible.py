"""Checks that another system computes a model: its configuration says all."""

from collections.abc import Iterable, Iterator
from typing import Any

from keras.layers import Dense, LayerNormalization

from keras_transformer import layers
from keras_transformer.decoding.linear import is_plain_dense
from keras_transformer.decoding.parts import dense_layers
from keras_transformer.inference.translator import Translator
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError


def check_expressible(
    translator: Translator, system: str, needs: str, problems: Iterable[str]
) -> None:
    """Raises InputError unless another system computes what the model does.

    The message ends with what the system `needs`, besides one model that
    translates, without restricted attention; `problems` are what it cannot
    express.
    """
    config, problems = translator.model.config, list(problems)
    if config.attention_window is not None:
        problems.insert(0, f"attention_window={config.attention_window}")
    if len(translator.models) > 1:
        count = len(translator.models)
        problems.insert(0, f"{count} models: LiteRT has ensembles too")
    if problems:
        raise InputError(
            f"{system} runs one model that translates, without restricted "
            f"attention and {needs}. Export a SavedModel instead. Received: "
            + ", ".join(problems)
        )
    for part, expected in _parts(translator.model):
        is_own = type(part) is expected
        if is_own and (expected is not Dense or is_plain_dense(part)):
            continue
        received = type(part).__name__
        if not is_own and expected is not Dense:
            received += f" instead of {expected.__name__}"
        raise InputError(
            f"{system} computes only what the configuration says: no layers "
            "that are subclasses, are quantized or have LoRA. Export a "
            "SavedModel instead, or quantize with the `dtype` of this export. "
            f"Received: {part.path}, {received}"
        )


def _parts(model: Transformer) -> Iterator[tuple[Any, type]]:
    """Yields all that has weights, a part before its own parts; its class."""
    yield model, Transformer
    yield model.embedding, layers.TiedEmbedding
    yield model.target_embedding, layers.TiedEmbedding
    yield model.output_embedding, layers.TiedEmbedding
    for stack, of_stack, of_layer in (
        (model.encoder, layers.Encoder, layers.EncoderLayer),
        (model.decoder, layers.Decoder, layers.DecoderLayer),
    ):
        yield stack, of_stack
        if stack.final_norm is not None:
            yield stack.final_norm, LayerNormalization
        for layer in stack.layers:
            yield layer, of_layer
            attentions = [layer.self_attention]
            residuals = [layer.self_attention_norm, layer.feed_forward_norm]
            if of_layer is layers.DecoderLayer:
                attentions.append(layer.cross_attention)
                residuals.append(layer.cross_attention_norm)
            for attention in attentions:
                yield attention, layers.MultiHeadAttention
                yield from ((dense, Dense) for dense in dense_layers(attention))
            yield layer.feed_forward, layers.FeedForward
            yield layer.feed_forward.inner, Dense
            yield layer.feed_forward.outer, Dense
            for residual in residuals:
                yield residual, layers.Residual
                yield residual.norm, LayerNormalization
