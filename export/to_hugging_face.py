"""Exports a `Translator` to a folder for Hugging Face, and verifies it.

The model becomes a Marian model. Marian puts all sines of the positions before
all cosines, so interleaved models have their dimensions permuted. Marian also
has all biases; missing ones become 0.
"""

import dataclasses
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from keras.ops import convert_to_numpy as to_numpy
from safetensors.numpy import save_file

from keras_transformer import convert
from keras_transformer.config import TransformerConfig
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.decoding.settings import BeamSearch, converted
from keras_transformer.export import writing
from keras_transformer.inference.translator import Translator
from keras_transformer.model import Transformer
from keras_transformer.support.files import atomic_folder, write_json
from keras_transformer.text import Tokenizer
from keras_transformer.weights import named_weights

_MIN_POSITIONS = 512  # transformers fails on longer texts
_REQUIRED = dict(
    norm_first=False,
    positional_encoding="sinusoidal",
    position_endpoint=False,
    position_offset=0,
)
_CARD = """---
library_name: transformers
pipeline_tag: translation
tags: [marian, keras-transformer]
---

"""


def save_huggingface(
    translator: Translator, path: str | os.PathLike, dtype: str = "float32"
) -> Path:
    """Writes a folder that `transformers.MarianMTModel` loads.

    The folder contains the model, its tokenizer for `MarianTokenizer`, the
    search settings for `generate`, metadata in `keras_transformer.json`, and a
    README. Requires neither transformers nor PyTorch.

    Args:
        translator: The translator to export. `generate` gets its search, with
            a length penalty that is a power of the length.
        path: Folder to create.
        dtype: Dtype of the stored weights: float32, float16 or bfloat16.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists, `dtype` is invalid, or Marian does not
            support the model.
        RuntimeError: If `keras_transformer.convert` reads a different model.
    """
    problems = _problems(translator)
    writing.check_model(translator, "huggingface", dtype, problems)
    with atomic_folder(path) as folder:
        files = _tokenizer_files(translator)
        files["config.json"] = _config(translator.model.config, dtype)
        files["generation_config.json"] = _generation(translator)
        for name, values in files.items():
            write_json(folder / name, values)
        tokenizer = translator.tokenizer
        (folder / "source.spm").write_bytes(tokenizer.source.model)
        (folder / "target.spm").write_bytes(tokenizer.target.model)
        tensors = _tensors(translator.model, dtype)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        writing.write_metadata(folder, translator, {"dtype": dtype})
        writing.write_readme(folder, "huggingface", _CARD)
        written = _open_written(translator, folder)
        writing.check_results(written, translator, "huggingface", dtype)
    return Path(path)


def _problems(translator: Translator) -> Iterator[str]:
    """Yields the properties of a model that Marian does not support."""
    config = translator.model.config
    yield from writing.single_model_problems(translator)
    names = [x for x, y in _REQUIRED.items() if getattr(config, x) != y]
    widths = {config.num_heads * config.d_k, config.num_heads * config.d_v}
    if config.d_model % 2 or widths != {config.d_model}:
        names += ["d_model", "num_heads", "d_k", "d_v"]
    for name in names:
        yield f"{name}={getattr(config, name)!r}"
    if config.layer_norm_epsilon > 1e-4:
        yield f"layer_norm_epsilon={config.layer_norm_epsilon} (at most 1e-4)"
    tied, scale = config.tied_embeddings, config.embedding_scale
    scales = (None, 1.0, config.d_model**0.5)
    if scale not in scales and tied in ("all", "target"):
        yield f"embedding_scale={scale} with tied_embeddings={tied!r}"
    if translator.tokenizer.source_eos_id != translator.tokenizer.eos_id:
        yield "sources without the end token"


def _config(config: TransformerConfig, dtype: str) -> dict[str, Any]:
    """Returns the content of config.json."""
    scale = config.embedding_scale
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "dtype": dtype,
        "vocab_size": config.source_vocab_size or config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.encoder.num_layers,
        "encoder_attention_heads": config.encoder.num_heads,
        "encoder_ffn_dim": config.encoder.d_ff,
        "decoder_layers": config.decoder.num_layers,
        "decoder_attention_heads": config.decoder.num_heads,
        "decoder_ffn_dim": config.decoder.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "max_position_embeddings": max(config.max_length, _MIN_POSITIONS),
        "scale_embedding": scale in (None, config.d_model**0.5),
        # Marian shares source and target only if the output is shared too.
        "share_encoder_decoder_embeddings": config.tied_embeddings == "all",
        "tie_word_embeddings": config.tied_embeddings in ("all", "target"),
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
    config = translator.model.config
    banned_ids = translator.engine.special_ids.banned_ids
    search = converted(translator.search, BeamSearch)
    # transformers has a single limit: use the limit of the longest source.
    limit = int(search.length_factor * translator.max_length)
    limit = min(max(limit + search.extra_length, 1), translator.max_length)
    alpha = search.alpha
    early_stopping = search.stop == "finished"
    if search.length_penalty == "wu":
        # At usual lengths a power with two thirds of alpha ranks alike. Its
        # exact bound is too loose to stop a search early.
        alpha = round(alpha * 2 / 3, 2)
    elif search.stop == "exact":
        early_stopping = "never"
    return {
        **_special_ids(config),
        "bad_words_ids": [[i] for i in banned_ids],
        "max_length": limit + 1,  # counts the start token
        "num_beams": search.beam_size,
        "no_repeat_ngram_size": search.no_repeat_ngram,
        "length_penalty": alpha,
        "early_stopping": early_stopping,
    }


def _tokenizer_files(translator: Translator) -> dict[str, dict[str, Any]]:
    tokenizer = translator.tokenizer
    source, target = tokenizer.source.pieces(), tokenizer.target.pieces()
    special = {
        "pad_token": target[tokenizer.pad_id],
        "unk_token": target[tokenizer.unk_id],
        "eos_token": target[tokenizer.eos_id],
    }
    if tokenizer.bos_id not in (tokenizer.pad_id, tokenizer.eos_id):
        special["bos_token"] = target[tokenizer.bos_id]
    source_language, target_language = translator.languages
    files = {"vocab.json": _table(source), "special_tokens_map.json": special}
    files["tokenizer_config.json"] = special | {
        "tokenizer_class": "MarianTokenizer",
        "model_max_length": translator.max_length,
        "separate_vocabs": source != target,
        "source_lang": source_language,
        "target_lang": target_language,
        "clean_up_tokenization_spaces": False,
    }
    if source != target:
        files["target_vocab.json"] = _table(target)
    return files


def _table(pieces: list[str]) -> dict[str, int]:
    # MarianTokenizer removes language tokens before SentencePiece splits.
    return {re.sub("^▁(>>.*<<)$", r"\1", x): i for i, x in enumerate(pieces)}


def _tensors(model: Transformer, dtype: str) -> dict[str, np.ndarray]:
    """Returns all weights with Marian's names and layout."""
    weights = named_weights(model)
    config = model.config
    if config.tied_embeddings == "inputs":
        config = dataclasses.replace(config, tied_embeddings="none")
        weights["target_embedding/embeddings"] = weights["embedding/embeddings"]
    full = dataclasses.replace(config, attention_bias=True, output_bias=True)
    scales = (None, config.d_model**0.5)  # which transformers applies
    scale = 1.0 if config.embedding_scale in scales else config.embedding_scale
    order = np.arange(config.d_model)
    if config.position_layout == "interleaved":
        order = np.concatenate([order[::2], order[1::2]])
    tensors = {}
    for name, theirs in weight_names(full, "hugging_face").items():
        *_, part, leaf = name.split("/")
        is_output = theirs == "final_logits_bias"
        zeros = np.zeros(config.vocab_size if is_output else config.d_model)
        value = to_numpy(weights.get(name, zeros)).astype("float32")
        if part in ("output", "outer", "norm") or leaf == "embeddings":
            value = value[..., order]  # outputs of width d_model
        elif leaf == "kernel":
            value = value[order]
        if leaf == "embeddings" and part != "output_embedding":
            value = value * np.float32(scale)
        if config.tied_embeddings == "all" and leaf == "embeddings":
            theirs = "model.shared.weight"
        # Kernels are [outputs, inputs] in PyTorch.
        value = value.T if leaf == "kernel" else value
        value = value[None] if is_output else value
        # safetensors ignores strides.
        tensors[theirs] = np.ascontiguousarray(value, dtype)
    return tensors


def _open_written(translator: Translator, folder: Path) -> Translator:
    """Opens an export with the translator's search."""
    read = convert.read(folder, "huggingface")
    config = dataclasses.replace(read.config, max_length=translator.max_length)
    model = dataclasses.replace(read, config=config).load_model()
    # The import gives banned tokens a bias that forbids them.
    banned = list(translator.engine.special_ids.banned_ids)
    bias = model.output_embedding.bias
    original = translator.model.output_embedding.bias
    values = to_numpy(bias).copy()
    values[banned] = 0 if original is None else to_numpy(original)[banned]
    bias.assign(values)
    tokenizer = read.tokenizer
    # In transformers, users write the language token.
    tags = translator.tokenizer.default_tags
    tokenizer = Tokenizer(tokenizer.source, tokenizer.target, default_tags=tags)
    return Translator(model, tokenizer, translator.search)
