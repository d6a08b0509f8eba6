"""Writes a `Translator` as a folder for Hugging Face, and verifies it.

The folder is that of a Marian model, which has all sines of the positions
before all cosines, and all biases. The other layout of positions is a
permutation of the model's dimensions; a bias that a model lacks is 0.
"""

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from keras_transformer import convert
from keras_transformer.config import TransformerConfig
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export import writing
from keras_transformer.export.dtypes import check_dtype
from keras_transformer.export.expressible import check_expressible
from keras_transformer.export.verification import check_scores
from keras_transformer.inference.records import Score
from keras_transformer.inference.translator import Translator
from keras_transformer.model import Transformer
from keras_transformer.support.files import write_json
from keras_transformer.text import Vocabulary
from keras_transformer.weights import named_weights

_EPSILON = 1e-5  # of every Marian model there
# So many, or what the model takes if that is more: beyond them there is an
# error, and `pipeline` does not cut texts.
_POSITIONS = 512
_LANGUAGES = """A source begins with the language of its translation:
{}.
"""
_MODEL = ("output", "outer", "norm")  # parts that give the model's dimension


def save_huggingface(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a folder that `transformers.MarianMTModel` loads.

    It has the model, its tokenizer for `MarianTokenizer`, the search for
    `generate`, `keras_transformer.json` with metadata, and a README. Neither
    transformers nor PyTorch is needed.

    Before the folder is moved to `path`, `keras_transformer.convert` reads it:
    its log-probabilities of given texts must be those of the model, to 0.001
    per token with float32, 0.02 with float16 and 0.2 with bfloat16. If the
    model computes in another dtype, the wider one counts.

    Args:
        translator: What to save. Its search becomes that of `generate`, whose
            length penalty is a power of the length.
        path: Folder to create.
        dtype: What weights are stored in: float32, float16 or bfloat16.
        metadata: What to add to the metadata: values that JSON can hold.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, weights are not finite, `dtype` or names
            of metadata are invalid, or Marian cannot compute what the model
            does: several models (an ensemble), restricted attention,
            pre-norm, learned positions, `position_endpoint`,
            `position_offset`, d_k or d_v other than d_model / num_heads, an
            odd d_model, an epsilon above 1e-5, a factor of its own on
            embeddings that are tied to the output, sources without an end
            token, and layers that are subclasses, quantized or have LoRA.
        RuntimeError: If the folder is another model.
    """
    check_dtype("huggingface", dtype)
    model, vocabulary = translator.model, translator.tokenizer
    check_expressible(
        translator,
        "Marian of Hugging Face",
        "in an architecture like the paper's",
        _problems(model.config, vocabulary),
    )

    def write(folder: Path) -> dict[str, Any]:
        files = {
            "config.json": _config(model.config, dtype),
            "generation_config.json": _generation(translator),
            **_tokenizer_files(translator),
        }
        for name, values in files.items():
            write_json(folder / name, values)
        (folder / "source.spm").write_bytes(vocabulary.source.model)
        (folder / "target.spm").write_bytes(vocabulary.target.model)
        _write_tensors(folder / "model.safetensors", _tensors(model), dtype)
        return {}

    return writing.write_export(
        translator,
        path,
        write,
        lambda folder: _verify(folder, translator, dtype),
        {"dtype": dtype},
        metadata,
        ("huggingface.md", _readme_values(translator)),
    )


def _problems(
    config: TransformerConfig, vocabulary: Vocabulary
) -> Iterator[str]:
    """Yields what Marian cannot express."""
    if config.norm_first:
        yield "norm_first=True"
    if config.positional_encoding != "sinusoidal":
        yield f"positional_encoding={config.positional_encoding!r}"
    if config.position_endpoint:
        yield "position_endpoint=True"
    if config.position_offset:
        yield f"position_offset={config.position_offset}"
    widths = {config.num_heads * config.d_k, config.num_heads * config.d_v}
    if config.d_model % 2 or widths != {config.d_model}:
        yield (
            f"d_model={config.d_model}, num_heads={config.num_heads}, "
            f"d_k={config.d_k}, d_v={config.d_v}"
        )
    if config.layer_norm_epsilon > _EPSILON:
        yield f"layer_norm_epsilon={config.layer_norm_epsilon}"
    is_tied = config.tied_embeddings in ("all", "target")
    if is_tied and _added_factor(config) != 1:
        yield (
            f"embedding_scale={config.embedding_scale} with "
            f"tied_embeddings={config.tied_embeddings!r}"
        )
    if vocabulary.source_eos_id != config.eos_id:
        yield "sources without an end token"


def _added_factor(config: TransformerConfig) -> float:
    """Returns what embeddings are multiplied by, besides what Marian has."""
    scale = config.embedding_scale
    usual = scale in (None, 1.0, config.d_model**0.5)
    return 1.0 if usual else scale


# === The files ===


def _config(config: TransformerConfig, dtype: str) -> dict[str, Any]:
    """Returns the content of config.json."""
    tied = config.tied_embeddings
    is_scaled = config.embedding_scale in (None, config.d_model**0.5)
    sides = dict(encoder=config.encoder, decoder=config.decoder)
    sizes = {
        f"{side}_{name}": value
        for side, stack in sides.items()
        for name, value in (
            ("layers", stack.num_layers),
            ("attention_heads", stack.num_heads),
            ("ffn_dim", stack.d_ff),
            ("layerdrop", 0.0),
        )
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "dtype": dtype,
        "vocab_size": config.source_vocab_size or config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "d_model": config.d_model,
        **sizes,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "init_std": config.d_model**-0.5,
        "max_position_embeddings": max(config.max_length, _POSITIONS),
        "scale_embedding": is_scaled,
        # Marian ties sources and targets only together with the output.
        "share_encoder_decoder_embeddings": tied == "all",
        "tie_word_embeddings": tied in ("all", "target"),
        **_special_ids(config),
    }


def _special_ids(config: TransformerConfig) -> dict[str, int]:
    return {
        "pad_token_id": config.pad_id,
        "bos_token_id": config.bos_id,
        "eos_token_id": config.eos_id,
        "forced_eos_token_id": config.eos_id,
        "decoder_start_token_id": config.bos_id,
    }


def _generation(translator: Translator) -> dict[str, Any]:
    """Returns the content of generation_config.json."""
    pipeline = translator.pipeline
    search = converted(translator.search, BeamSearch)
    # Of the longest source.
    limit = int(search.length_factor * translator.max_length)
    limit = min(max(limit + search.extra_length, 1), translator.max_length)
    return {
        **_special_ids(pipeline.config),
        "bad_words_ids": [[i] for i in pipeline.special_ids.banned_ids],
        "max_length": limit + 1,  # counts the start token
        "num_beams": search.beam_size,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "length_penalty": writing.power_of_length(search),
        # With the power of the length that stands for Wu et al.'s penalty, the
        # exact bound is so loose that searches end at the maximum length.
        "early_stopping": "never"
        if search.stop == "exact" and search.length_penalty != "wu"
        else search.stop == "finished",
    }


def _tokenizer_files(translator: Translator) -> dict[str, dict[str, Any]]:
    vocabulary = translator.tokenizer
    sides = (vocabulary.source, vocabulary.target)
    source, target = (side.pieces(range(side.vocab_size)) for side in sides)
    special = {
        f"{name}_token": target[getattr(vocabulary, f"{name}_id")]
        for name in ("pad", "unk", "eos", "bos")
    }
    if special["bos_token"] in (special["pad_token"], special["eos_token"]):
        del special["bos_token"]
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": translator.max_length,
        "separate_vocabs": source != target,
        "clean_up_tokenization_spaces": False,
        "sp_model_kwargs": {},
    }
    # MarianTokenizer splits languages off before SentencePiece sees them.
    source, target = (
        [re.sub("^▁(>>.*<<)$", r"\1", piece) for piece in side]
        for side in (source, target)
    )
    for run, _ in translator.checkpoints:
        for side in ("source", "target"):
            settings[f"{side}_lang"] = run.recipe.get(side)
    tables = {"vocab.json": source}
    if source != target:
        tables["target_vocab.json"] = target
    files = {
        name: {piece: i for i, piece in enumerate(pieces)}
        for name, pieces in tables.items()
    }
    files["special_tokens_map.json"] = special
    files["tokenizer_config.json"] = special | settings
    return files


def _readme_values(translator: Translator) -> dict[str, Any]:
    search = converted(translator.search, BeamSearch)
    tokens = writing.language_tokens(translator.tokenizer)
    token = translator.tokenizer.language_token or "".join(tokens[:1])
    return dict(
        max_length=translator.max_length,
        formula=search.formula,
        length_penalty=writing.power_of_length(search),
        text=f"{token} I am a student.".lstrip(),
        languages=_LANGUAGES.format(", ".join(tokens)) if tokens else "",
    )


# === The weights ===


def _tensors(model: Transformer) -> dict[str, np.ndarray]:
    """Returns all weights by their names there, in their layout, float32."""
    weights, config = named_weights(model), model.config
    if config.tied_embeddings == "inputs":
        config = dataclasses.replace(config, tied_embeddings="none")
        weights["target_embedding/embeddings"] = weights["embedding/embeddings"]
    full = dataclasses.replace(config, attention_bias=True, output_bias=True)
    order = np.arange(config.d_model)
    if config.position_layout == "interleaved":
        order = np.concatenate([order[::2], order[1::2]])
    tensors = {}
    for name, theirs in weight_names(full, "hugging_face").items():
        *_, part, leaf = name.split("/")
        is_output = theirs == "final_logits_bias"
        if name in weights:
            value = ops.convert_to_numpy(ops.cast(weights[name], "float32"))
        else:
            size = config.vocab_size if is_output else config.d_model
            value = np.zeros(size, "float32")
        if part in _MODEL or leaf == "embeddings":
            value = value[..., order]
        elif leaf == "kernel":
            value = value[order]
        if leaf == "embeddings" and part != "output_embedding":
            value = value * np.float32(_added_factor(config))
        if config.tied_embeddings == "all" and leaf == "embeddings":
            theirs = "model.shared.weight"
        # Kernels are [outputs, inputs] there.
        value = value.T if leaf == "kernel" else value
        tensors[theirs] = value[None] if is_output else value
    return tensors


def _write_tensors(file: Path, tensors: dict, dtype: str) -> None:
    from safetensors.numpy import save_file

    # It writes the memory of an array, whatever its order.
    stored = {
        name: np.ascontiguousarray(value, tf.as_dtype(dtype).as_numpy_dtype)
        for name, value in tensors.items()
    }
    save_file(stored, file, {"format": "pt"})


def _verify(folder: Path, translator: Translator, dtype: str) -> None:
    """Raises RuntimeError unless the folder is read as the same model."""
    written = convert.load(folder, "huggingface")
    first = translator.tokenizer.language_token

    def score(sources: list[str], targets: list[str]) -> list[Score]:
        if first is not None:  # there, the user writes it
            sources = [f"{first} {source}" for source in sources]
        return written.score(sources, targets)

    # Banned tokens are read back with a bias that forbids them.
    banned = list(translator.pipeline.special_ids.banned_ids)
    bias, own = (x.model.output_embedding.bias for x in (written, translator))
    values = ops.convert_to_numpy(bias).copy()
    values[banned] = 0 if own is None else ops.convert_to_numpy(own)[banned]
    bias.assign(values)
    check_scores(score, translator, "huggingface", dtype)
