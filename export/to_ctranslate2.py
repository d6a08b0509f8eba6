"""Writes a `Translator` as a folder that CTranslate2 loads, and verifies it.

The kernels of a CTranslate2 model are `[outputs, inputs]`, and what reads the
same input is one matrix: queries, keys and values of self-attention, keys and
values of cross-attention.
"""

import collections
import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from keras import layers, ops

from keras_transformer.convert.weight_table import weight_names
from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export.dtypes import TOLERANCES
from keras_transformer.export.expressible import check_expressible
from keras_transformer.export.writing import (
    PROBES,
    check_weights,
    describe,
    language_tokens,
    power_of_length,
    refuse_taken,
    write_about,
)
from keras_transformer.inference.translator import Translator
from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.model import Transformer
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import atomic_folder, check_new
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text import Vocabulary
from keras_transformer.weights import named_weights

_TOLERANCES = TOLERANCES["ctranslate2"]
# CTranslate2 reads as many tokens of a source unless it is told otherwise.
_POSITIONS = 1024


def save_ctranslate2(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a folder that `ctranslate2.Translator` loads.

    It has the model, the files of the tokenizer, `keras_transformer.json`
    with metadata, and a README with the lines of Python that translate. The
    package ctranslate2 is needed: the extra `[ctranslate2]`.

    The folder is written beside `path`, loaded with CTranslate2, and moved to
    `path` only if its log-probabilities of given texts are those of the
    model: for each text to 0.001 per token, on average over its tokens, with
    float32; to 0.02 with float16, 0.2 with bfloat16, 0.05 with int16 and 0.3
    with int8. If the model computes in another dtype, the wider one counts.

    Args:
        translator: What to save. Its search is what the README proposes.
        path: Folder to create.
        dtype: What weights are stored in: float32, float16, bfloat16, int16
            or int8. What CTranslate2 computes in is chosen when it loads the
            folder (`compute_type`).
        metadata: What to add to the metadata: values that JSON can hold.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, weights are not finite, `dtype` or names
            of metadata are invalid, or CTranslate2 cannot compute what the
            model does: several models (an ensemble), parsing, restricted
            attention, d_v other than d_k, and layers that are subclasses,
            quantized or have LoRA.
        RuntimeError: If CTranslate2 computes something else.
    """
    with explain_missing_packages():
        import ctranslate2
    path = Path(path)
    check_new(path)
    check_values(one_of(*_TOLERANCES), dtype=dtype)
    check_weights(translator)
    about = {
        **describe(translator),
        "ctranslate2": ctranslate2.__version__,
        "dtype": dtype,
    }
    refuse_taken("metadata", metadata, about)
    specification = _specification(translator)
    if dtype == "bfloat16":
        _store_in_bfloat16(specification)
    specification.validate()
    specification.optimize(dtype)
    with atomic_folder(path) as partial:
        specification.save(str(partial))
        translator.tokenizer.save_files(partial)
        about |= metadata or {}
        write_about(partial, about, "ctranslate2.md", **_values(translator))
        _verify(partial, translator, dtype)
    return path


def _specification(translator: Translator) -> Any:
    """Returns the `TransformerSpec` with all weights in float32."""
    from ctranslate2.specs import common_spec, transformer_spec

    model, config = translator.model, translator.model.config
    problems = []
    if config.d_k != config.d_v:
        problems = [f"d_k={config.d_k}, d_v={config.d_v}"]
    check_expressible(translator, "CTranslate2", "with d_k = d_v", problems)
    activations = common_spec.Activation
    activation = dict(
        relu=activations.RELU, swish=activations.SWISH, gelu=activations.GELU
    )[config.activation]

    def stack(make: type, sizes: Any) -> Any:
        default = sizes.d_k * sizes.num_heads == config.d_model
        return make(
            sizes.num_layers,
            sizes.num_heads,
            pre_norm=config.norm_first,
            activation=activation,
            head_dim=None if default else sizes.d_k,
        )

    specification = transformer_spec.TransformerSpec(
        stack(transformer_spec.TransformerEncoderSpec, config.encoder),
        stack(transformer_spec.TransformerDecoderSpec, config.decoder),
    )
    encoder, decoder = specification.encoder, specification.decoder
    _set_weights(specification, model)
    encoder.embeddings[0].weight = _array(model.embedding.embeddings)
    decoder.embeddings.weight = _array(model.target_embedding.embeddings)
    decoder.projection.weight = _array(model.output_embedding.embeddings)
    for part in (encoder, decoder):
        part.scale_embeddings = float(model.embedding.factor)
    _set_positions(encoder, model.source_positions, config.max_length)
    _set_positions(decoder, model.target_positions, config.max_length)

    source, target = translator.tokenizer.source, translator.tokenizer.target
    specification.register_source_vocabulary(
        source.pieces(range(source.vocab_size))
    )
    pieces = target.pieces(range(target.vocab_size))
    specification.register_target_vocabulary(pieces)
    settings = specification.config
    settings.unk_token = pieces[target.unk_id]
    settings.bos_token = settings.decoder_start_token = pieces[config.bos_id]
    settings.eos_token = pieces[config.eos_id]
    settings.add_source_eos = source.source_eos_id == config.eos_id
    settings.layer_norm_epsilon = config.layer_norm_epsilon
    return specification


def _set_weights(specification: Any, model: Transformer) -> None:
    """Sets all weights but the embeddings, which may be tied."""
    weights, joined = named_weights(model), collections.defaultdict(list)
    for name, theirs in weight_names(model.config, "ctranslate2").items():
        if not name.endswith("embeddings"):
            joined[theirs].append(_array(weights[name]))
    for theirs, values in joined.items():
        *path, leaf = theirs.split("/")
        part = functools.reduce(_part, path, specification)
        # Vectors stay as they are.
        setattr(part, leaf, np.concatenate(values, axis=-1).T.copy())


def _part(specification: Any, name: str) -> Any:
    """Returns a part by its name; `layer_0` may be the first of `layer`."""
    if hasattr(specification, name):
        return getattr(specification, name)
    name, _, index = name.rpartition("_")
    return getattr(specification, name)[int(index)]


def _set_positions(stack: Any, layer: layers.Layer, max_length: int) -> None:
    # Beyond the table CTranslate2 raises an error. Sinusoids cover its default
    # limits too, for callers who do not pass those of the README.
    rows = max_length
    if type(layer) is SinusoidalPositionalEncoding:
        rows = max(rows, _POSITIONS)
    stack.position_encodings.encodings = _array(layer.vectors(ops.arange(rows)))


def _array(values: Any) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(values, "float32"))


def _store_in_bfloat16(specification: Any) -> None:
    """Converts weights, for which CTranslate2 would need PyTorch."""
    from ctranslate2.specs import model_spec

    def convert(part: Any, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = value.astype(tf.bfloat16.as_numpy_dtype)
            setattr(part, name.rpartition("/")[2], value)

    model_spec.visit_spec(specification, convert)


def _values(translator: Translator) -> dict[str, Any]:
    """Returns what the names in the README's template stand for."""
    search = converted(translator.search, BeamSearch)
    tokenizer, pipeline = translator.tokenizer, translator.pipeline
    banned = tokenizer.target.pieces(pipeline.special_ids["banned_ids"])
    has_table = "source.spm" in tokenizer.files()
    has_end = tokenizer.source_eos_id == tokenizer.eos_id
    return dict(
        source="source.spm" if has_table else "tokenizer.model",
        target="target.spm" if has_table else "tokenizer.model",
        add_language=_add_language(tokenizer),
        end="gets its end token from CTranslate2"
        if has_end
        else "has no end token",
        beam_size=search.beam_size,
        formula=search.formula,
        length_penalty=power_of_length(search),
        banned=[[piece] for piece in banned],
        max_length=pipeline.max_length,
        max_input_length=pipeline.max_length - (not has_end),
        max_decoding_length=pipeline.max_length - 1,
    )


def _add_language(vocabulary: Vocabulary) -> str:
    """Returns the line of the README's program that adds a language token."""
    tokens = language_tokens(vocabulary)
    if not tokens:
        return ""
    token = vocabulary.language_token or tokens[0]
    others = f"  # one of {len(tokens)} languages" if len(tokens) > 1 else ""
    return f'\npieces = [["{token}", *row] for row in pieces]{others}'


def _verify(folder: Path, translator: Translator, dtype: str) -> None:
    """Raises RuntimeError unless CTranslate2 scores tokens as the model does.

    The probes are sources, and targets too: whatever their probability, it
    must be the same.
    """
    import ctranslate2

    pipeline, tokenizer = translator.pipeline, translator.tokenizer
    texts = tf.constant([probe for probe in PROBES if probe])
    source, _, _ = pipeline.with_end(pipeline.source_ids(texts))
    target, lengths, _ = pipeline.labels_with_end(pipeline.target_ids(texts))
    expected = pipeline.token_log_probs(source, target).numpy()

    def pieces(ids: tf.Tensor, vocabulary: Any) -> list[list[str]]:
        """Returns pieces without the end token, which CTranslate2 adds."""
        added = vocabulary.pad_id, vocabulary.eos_id
        rows = [row[~np.isin(row, added)] for row in ids.numpy()]
        return [vocabulary.pieces(row) for row in rows]

    # Not every processor computes in every dtype.
    loaded = ctranslate2.Translator(str(folder), compute_type="float32")
    results = loaded.score_batch(
        pieces(source, tokenizer.source), pieces(target, tokenizer.target)
    )
    ours = translator.model.compute_dtype
    tolerance = max(_TOLERANCES[dtype], _TOLERANCES[ours])
    for row, length, result in zip(
        expected, lengths.numpy(), results, strict=True
    ):
        found = np.array(result.log_probs)
        if not np.mean(np.abs(found - row[:length])) <= tolerance:
            raise RuntimeError(
                "CTranslate2 must compute the log-probabilities of the model. "
                f"Expected: {row[:length]}. Received: {found}"
            )
