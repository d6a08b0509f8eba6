"""Exports a `Translator` to a folder for CTranslate2, and verifies it.

CTranslate2's kernels are `[outputs, inputs]`, and projections of the same
input are fused: queries, keys and values of self-attention, keys and values of
cross-attention.
"""

import collections
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ctranslate2
import ml_dtypes
import numpy as np
from ctranslate2.specs import common_spec, model_spec, transformer_spec
from keras import layers, ops

from keras_transformer.convert.weight_table import weight_names
from keras_transformer.export import writing
from keras_transformer.inference.translator import Translator
from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.litert.shortlist import Shortlist
from keras_transformer.model import Transformer
from keras_transformer.support.files import atomic_folder
from keras_transformer.text import Tokenizer
from keras_transformer.weights import named_weights

# CTranslate2's default limit of source tokens.
POSITIONS = 1024


def save_ctranslate2(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    shortlist: Shortlist | None = None,
) -> Path:
    """Writes a folder that `ctranslate2.Translator` loads.

    The folder contains the model, the tokenizer files, metadata in
    `keras_transformer.json`, and a README. Requires the package ctranslate2:
    the extra `[ctranslate2]`.

    Args:
        translator: The translator to export. Its search is only recorded in
            the metadata.
        path: Folder to create.
        dtype: Dtype of the stored weights: float32, float16, bfloat16, int16
            or int8. The dtype of the computation is chosen when CTranslate2
            loads the folder (`compute_type`).
        shortlist: From `make_shortlist`, for `translate_batch(use_vmap=True)`.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, `dtype` is invalid, or CTranslate2 does
            not support the model: an ensemble, restricted attention, or d_v
            different from d_k.
        RuntimeError: If CTranslate2 gives different results.
    """
    tokenizer = translator.tokenizer

    def split(texts: Sequence[str]) -> list[list[str]]:
        ids = tokenizer.encode_sources(texts)
        return list(map(tokenizer.source.pieces, ids))

    problems = find_problems(translator)
    writing.check_model(translator, "ctranslate2", dtype, problems)
    with atomic_folder(path) as folder:
        tokenizer.save_files(folder)
        if shortlist is not None:
            mapping = _vocabulary_map(shortlist, tokenizer)
            (folder / "vmap.txt").write_text(mapping, "utf-8")
        metadata = write_model(translator, dtype, folder)
        writing.write_metadata(folder, translator, metadata)
        writing.write_readme(folder, "ctranslate2")
        written = open_written(translator, split, folder)
        writing.check_results(written, translator, "ctranslate2", dtype)
    return Path(path)


def find_problems(translator: Translator) -> Iterator[str]:
    """Yields the properties of a model that CTranslate2 does not support."""
    config = translator.model.config
    yield from writing.single_model_problems(translator)
    if config.d_k != config.d_v:
        yield f"d_k={config.d_k}, d_v={config.d_v}"


def open_written(
    translator: Translator,
    split: Callable[[Sequence[str]], list[list[str]]],
    folder: Path,
) -> SimpleNamespace:
    """Opens an export. `split` returns the pieces of sources, without ends."""
    # Every processor supports float32.
    loaded = ctranslate2.Translator(str(folder), compute_type="float32")
    target = translator.tokenizer.target

    def score(sources: list[str], targets: list[str]) -> list[SimpleNamespace]:
        target_pieces = list(map(target.pieces, target.encode(targets)))
        results = loaded.score_batch(split(sources), target_pieces)
        return [SimpleNamespace(log_prob=sum(x.log_probs)) for x in results]

    return SimpleNamespace(score=score)


def write_model(
    translator: Translator, dtype: str, folder: Path
) -> dict[str, Any]:
    """Writes CTranslate2's files, and returns metadata."""
    specification = _specification(translator)
    if dtype == "bfloat16":
        _store_in_bfloat16(specification)
    specification.validate()
    specification.optimize(dtype)
    folder.mkdir(exist_ok=True)
    specification.save(str(folder))
    return {"ctranslate2": ctranslate2.__version__, "dtype": dtype}


def _specification(translator: Translator) -> Any:
    """Returns the `TransformerSpec`, with weights in float32."""
    model = translator.model
    config = model.config
    activation = common_spec.Activation[config.activation.upper()]

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
    _set_weights(specification, model)
    encoder = specification.encoder
    encoder.embeddings[0].weight = _array(model.embedding.embeddings)
    decoder = specification.decoder
    decoder.embeddings.weight = _array(model.target_embedding.embeddings)
    decoder.projection.weight = _array(model.output_embedding.embeddings)
    factor = float(model.embedding.factor)
    encoder.scale_embeddings = decoder.scale_embeddings = factor
    _set_positions(encoder, model.source_positions, config.max_length)
    _set_positions(decoder, model.target_positions, config.max_length)

    source = translator.tokenizer.source
    target = translator.tokenizer.target
    pieces = target.pieces()
    specification.register_source_vocabulary(source.pieces())
    specification.register_target_vocabulary(pieces)
    settings = specification.config
    settings.unk_token = pieces[target.unk_id]
    settings.bos_token = settings.decoder_start_token = pieces[config.bos_id]
    settings.eos_token = pieces[config.eos_id]
    settings.add_source_eos = source.eos_id == config.eos_id
    settings.layer_norm_epsilon = config.layer_norm_epsilon
    return specification


def _set_weights(specification: Any, model: Transformer) -> None:
    """Sets all weights except the embeddings, which may be tied."""
    weights = named_weights(model)
    joined = collections.defaultdict(list)
    for name, theirs in weight_names(model.config, "ctranslate2").items():
        if not name.endswith("embeddings"):
            joined[theirs].append(_array(weights[name]))
    for theirs, values in joined.items():
        part, _, leaf = theirs.rpartition("/")
        value = np.concatenate(values, axis=-1).T.copy()
        setattr(model_spec.index_spec(specification, part), leaf, value)


def _set_positions(stack: Any, layer: layers.Layer, rows: int) -> None:
    # CTranslate2 fails beyond the table, so sinusoids cover its default limit.
    if type(layer) is SinusoidalPositionalEncoding:
        rows = max(rows, POSITIONS)
    stack.position_encodings.encodings = _array(layer.vectors(ops.arange(rows)))


def _array(values: Any) -> np.ndarray:
    return ops.convert_to_numpy(ops.cast(values, "float32"))


def _vocabulary_map(shortlist: Shortlist, tokenizer: Tokenizer) -> str:
    """Returns lines of a source piece, or none for all, and target pieces."""
    rows = {"": shortlist.always}
    targets = np.split(shortlist.targets, shortlist.starts[1:-1])
    rows |= zip(tokenizer.source.pieces(), targets, strict=True)
    return "".join(
        f"{piece}\t{' '.join(tokenizer.target.pieces(ids))}\n"
        for piece, ids in rows.items()
    )


def _store_in_bfloat16(specification: Any) -> None:
    """Converts weights; CTranslate2 itself would need PyTorch."""

    def convert(part: Any, name: str, value: Any) -> None:
        if isinstance(value, np.ndarray):
            value = value.astype(ml_dtypes.bfloat16)
            setattr(part, name.rpartition("/")[2], value)

    model_spec.visit_spec(specification, convert)
