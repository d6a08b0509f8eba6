"""Writes a `Translator` as a folder that CTranslate2 loads, and verifies it.

The kernels of a CTranslate2 model are `[outputs, inputs]`, and what reads the
same input is one matrix: queries, keys and values of self-attention, keys and
values of cross-attention.
"""

import collections
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from keras import layers, ops

from keras_transformer.convert.weight_table import weight_names
from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export import writing
from keras_transformer.export.dtypes import check_dtype
from keras_transformer.export.expressible import check_expressible
from keras_transformer.export.verification import check_scores
from keras_transformer.inference.records import Score
from keras_transformer.inference.translator import Translator
from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.model import Transformer
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text import Vocabulary
from keras_transformer.weights import named_weights

# CTranslate2 reads as many tokens of a source unless it is told otherwise.
POSITIONS = 1024


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

    Before the folder is moved to `path`, CTranslate2 loads it: its
    log-probabilities of given texts must be those of the model, to 0.001 per
    token with float32, 0.02 with float16, 0.2 with bfloat16, 0.05 with int16
    and 0.3 with int8. If the model computes in another dtype, the wider one
    counts.

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
            model does: several models (an ensemble), restricted
            attention, d_v other than d_k, and layers that are subclasses,
            quantized or have LoRA.
        RuntimeError: If CTranslate2 computes something else.
    """
    with explain_missing_packages():
        import ctranslate2
    check_dtype("ctranslate2", dtype)
    check_supported(translator)
    tokenizer = translator.tokenizer

    def write(folder: Path) -> dict[str, Any]:
        write_model(translator, dtype, folder)
        tokenizer.save_files(folder)
        return {}

    def verify(folder: Path) -> None:
        check_model(folder, translator, dtype, split(tokenizer))

    described = {"ctranslate2": ctranslate2.__version__, "dtype": dtype}
    readme = "ctranslate2.md", _readme_values(translator)
    return writing.write_export(
        translator, path, write, verify, described, metadata, readme
    )


def check_supported(translator: Translator) -> None:
    """Raises InputError unless CTranslate2 computes what the model does."""
    config = translator.model.config
    problems = []
    if config.d_k != config.d_v:
        problems = [f"d_k={config.d_k}, d_v={config.d_v}"]
    check_expressible(translator, "CTranslate2", "with d_k = d_v", problems)


def _readme_values(translator: Translator) -> dict[str, Any]:
    search = converted(translator.search, BeamSearch)
    tokenizer, pipeline = translator.tokenizer, translator.pipeline
    banned = tokenizer.target.pieces(pipeline.special_ids.banned_ids)
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
        no_repeat_ngram=search.no_repeat_ngram,
        # A search stops when so many times K hypotheses are finished.
        patience=1 if search.stop == "finished" else 2,
        formula=search.formula,
        length_penalty=writing.power_of_length(search),
        banned=[[piece] for piece in banned],
        max_length=pipeline.max_length,
        max_input_length=pipeline.max_length - (not has_end),
        num_ends=int(has_end),
        length_factor=f"{search.length_factor:g}",
        extra_length=min(search.extra_length, pipeline.max_length),
    )


def _add_language(vocabulary: Vocabulary) -> str:
    """Returns the line of the README's program that adds a language token."""
    tokens = writing.language_tokens(vocabulary)
    token = vocabulary.language_token or "".join(tokens[:1])
    if not token:
        return ""
    first = vocabulary.source.pieces(vocabulary.source.encode([token])[0])
    first = json.dumps(first, ensure_ascii=False)[1:-1]
    others = f"  # one of {len(tokens)} languages" if len(tokens) > 1 else ""
    # An empty text stays empty.
    rows = f"[[{first}, *row] if row else [] for row in pieces]"
    return f"\npieces = {rows}{others}"


# === Verification ===

SplitTexts = Callable[[Sequence[str]], list[list[str]]]  # texts to pieces


def split(vocabulary: Vocabulary) -> SplitTexts:
    """Returns the function that splits sources as a vocabulary does."""
    pieces, encode = vocabulary.source.pieces, vocabulary.encode_sources
    return lambda texts: list(map(pieces, encode(texts)))


def check_model(
    folder: Path, translator: Translator, dtype: str, split_sources: SplitTexts
) -> None:
    """Raises RuntimeError unless CTranslate2 loads the translator's model.

    It adds end tokens to what `split_sources` returns.
    """
    import ctranslate2

    # Not every processor computes in every dtype.
    loaded = ctranslate2.Translator(str(folder), compute_type="float32")
    target = translator.tokenizer.target

    def score(sources: list[str], targets: list[str]) -> list[Score]:
        target_pieces = list(map(target.pieces, target.encode(targets)))
        results = loaded.score_batch(split_sources(sources), target_pieces)
        log_probs = [result.log_probs for result in results]
        return [
            Score(sum(x), sum(x), math.exp(-sum(x) / len(x)), len(x))
            for x in log_probs
        ]

    check_scores(score, translator, "ctranslate2", dtype)


# === The model ===


def write_model(translator: Translator, dtype: str, folder: Path) -> None:
    """Writes the files that CTranslate2 loads."""
    specification = _specification(translator)
    if dtype == "bfloat16":
        _store_in_bfloat16(specification)
    specification.validate()
    specification.optimize(dtype)
    specification.save(str(folder))


def _specification(translator: Translator) -> Any:
    """Returns the `TransformerSpec` with all weights in float32."""
    from ctranslate2.specs import common_spec, transformer_spec

    model, config = translator.model, translator.model.config
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
    pieces = source.pieces(range(source.vocab_size))
    specification.register_source_vocabulary(pieces)
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
    from ctranslate2.specs import model_spec

    weights, joined = named_weights(model), collections.defaultdict(list)
    for name, theirs in weight_names(model.config, "ctranslate2").items():
        if not name.endswith("embeddings"):
            joined[theirs].append(_array(weights[name]))
    for theirs, values in joined.items():
        part, _, leaf = theirs.rpartition("/")
        # Vectors stay as they are.
        value = np.concatenate(values, axis=-1).T.copy()
        setattr(model_spec.index_spec(specification, part), leaf, value)


def _set_positions(stack: Any, layer: layers.Layer, max_length: int) -> None:
    # Beyond the table CTranslate2 raises an error. Sinusoids cover its default
    # limits too, for callers who do not pass those of the README.
    rows = max_length
    if type(layer) is SinusoidalPositionalEncoding:
        rows = max(rows, POSITIONS)
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
