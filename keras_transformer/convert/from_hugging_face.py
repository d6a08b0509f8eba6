"""Marian models of Hugging Face's transformers, such as OPUS-MT's.

A folder has config.json, generation_config.json, the weights in
model.safetensors or pytorch_model.bin, and the files of the tokenizer:
source.spm, target.spm, vocab.json, perhaps target_vocab.json, and
tokenizer_config.json or special_tokens_map.json. No id and no size has a
default here: those of transformers are not those of the published models.
"""

import functools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert import foreign_model, settings_file, weight_table
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.convert.vocabulary import SpecialTokens, make_tokenizer
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.text import Tokenizer

FILES = ("config.json",)

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER = "tokenizer_config.json"
# What `read` looks for: weights, of which the first are read, and the rest.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SETTINGS = (
    CONFIG,
    GENERATION,
    TOKENIZER,
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "target_vocab.json",
    "source.spm",
    "target.spm",
    *(f"{name}.index.json" for name in WEIGHTS),
)

# What configurations of 2020 may say, and the only value that transformers
# still computes.
_FIXED = {
    "add_final_layer_norm": False,
    "normalize_before": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}
_ACTIVATIONS = ("relu", "swish", "silu", "gelu")  # silu is swish
# Settings of the search in transformers that nothing here follows, with the
# values that change nothing.
_SEARCH_DEFAULTS = {
    "do_sample": False,
    "forced_bos_token_id": None,
    "suppress_tokens": None,
    "top_k": 50,
    "diversity_penalty": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1,
    "encoder_repetition_penalty": 1,
    "guidance_scale": 1,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "temperature": 1,
    "top_p": 1,
    "typical_p": 1,
}
# `BeamSearch.stop` for each value of early_stopping.
_STOP = {False: "heuristic", True: "finished", "never": "exact"}
# Fields that are read, or do not change translations.
_KNOWN = re.compile(
    "(bad_words_ids|early_stopping|(pad|bos|eos|decoder_start)_token_id|length_penalty"
    "|max_length|max_new_tokens|no_repeat_ngram_size|num_beams"
    "|renormalize_logits|use_cache"
    "|transformers_version|.*assistant.*|.*_lookbehind|disable_compile)$"
    "|_|output_|return_dict|cache_"
)
# The matrices that embed sources, embed targets and give the logits, and the
# name of one that does the first two.
_EMBEDDINGS = (
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_SHARED = "model.shared.weight"
# Tables of the sinusoids, which are computed.
_POSITIONS = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)


class _Settings(NamedTuple):
    """The JSON files of a folder."""

    config: SettingsFile
    search: SettingsFile  # config.json if there is no generation_config.json
    tokenizer: SettingsFile
    added_tokens: dict[str, Any]


def read(folder: Path) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    settings = read_settings(folder)
    vocabulary = _read_vocabulary(folder, settings)
    file = _find_weights(folder)
    tensors = read_tensors(file)
    config = _read_config(settings.config, vocabulary, file)
    search, never, notes = _read_search(settings, config)
    names, duplicates = _find_names(config, tensors, file)
    return ForeignModel(
        system="Marian, in Hugging Face's files",
        config=config,
        vocabulary=vocabulary,
        search=search,
        languages=(
            settings.tokenizer.get("source_lang", str, None),
            settings.tokenizer.get("target_lang", str, None),
        ),
        file=file,
        tensors=tensors,
        names=names,
        convert=functools.partial(_convert, never),
        unused=[*duplicates, *_POSITIONS],
        notes=notes,
    )


def read_settings(folder: Path) -> _Settings:
    """Returns the JSON files of a folder, if a Marian model is in it."""
    config = _read_fields(folder, CONFIG)
    if config.values.get("model_type") != "marian":
        config.refuse("model_type", "'marian', as its translation models have")
    config.check("architectures", ["MarianMTModel"])
    for field, value in _FIXED.items():
        config.check(field, value)
    generation = _read_fields(folder, GENERATION)
    return _Settings(
        config,
        generation if os.path.lexists(folder / GENERATION) else config,
        _read_fields(folder, "special_tokens_map.json", TOKENIZER),
        _read_optional(folder, "added_tokens.json"),
    )


def _read_fields(folder: Path, *names: str) -> SettingsFile:
    """Returns the fields of files without nulls; the last file counts."""
    values = {}
    for name in names:
        values |= _read_optional(folder, name)
    return SettingsFile(folder / names[-1], values).without_nulls()


def _read_optional(folder: Path, name: str) -> dict[str, Any]:
    exists = name == CONFIG or (folder / name).exists()
    return settings_file.read_json(folder, name) if exists else {}


def _read_config(
    config: SettingsFile, vocabulary: Tokenizer, file: Path
) -> TransformerConfig:
    activation = config.get("activation_function", str)
    config.check("activation_function", *_ACTIVATIONS)
    is_shared = config.get("share_encoder_decoder_embeddings", bool, True)
    is_tied = config.get("tie_word_embeddings", bool, True)
    source_size = size = config.get("vocab_size", int)
    if not is_shared:
        size = config.get("decoder_vocab_size", int, size)
    pieces = vocabulary.source.vocab_size, vocabulary.vocab_size
    if pieces != (source_size, size):
        raise InputError(
            f"The vocabularies in {file.parent} must have a piece for each row "
            f"of the embeddings, as {CONFIG} says. Received: {pieces[0]:,} and "
            f"{pieces[1]:,} pieces, vocab_size={source_size}, "
            f"decoder_vocab_size={size}"
        )
    return foreign_model.imported_config(
        config.name,
        vocabulary,
        num_layers=config.get("encoder_layers", int),
        decoder_layers=config.get("decoder_layers", int),
        d_model=config.get("d_model", int),
        d_ff=config.get("encoder_ffn_dim", int),
        decoder_d_ff=config.get("decoder_ffn_dim", int),
        num_heads=config.get("encoder_attention_heads", int),
        decoder_heads=config.get("decoder_attention_heads", int),
        dropout=config.get("dropout", float),
        max_length=config.get("max_position_embeddings", int),
        activation=activation.replace("silu", "swish"),
        layer_norm_epsilon=1e-5,
        attention_bias=True,
        output_bias=True,
        tied_embeddings=weight_table.TIED_EMBEDDINGS[is_shared, is_tied],
        embedding_scale=None if config.get("scale_embedding", bool) else 1.0,
        position_layout="halves",
    )


# === Vocabulary ===


def _read_vocabulary(folder: Path, settings: _Settings) -> Tokenizer:
    target_table = table = settings_file.read_json(folder, "vocab.json")
    _add_tokens(settings, table)
    if settings.tokenizer.get("separate_vocabs", bool, False):
        target_table = settings_file.read_json(folder, "target_vocab.json")
    special = _special_tokens(folder, settings, table)
    source = settings_file.read_bytes(folder, "source.spm")
    target = settings_file.read_bytes(folder, "target.spm")
    with name_file(f"The tokenizer in {folder}"):
        return make_tokenizer(
            (source, table, special), (target, target_table, special)
        )


def _add_tokens(settings: _Settings, table: dict[str, int]) -> None:
    """Adds the pieces that were added later, beyond the table."""
    decoder = settings.tokenizer.get("added_tokens_decoder", dict, {})
    tokens = {int(number): _text(token) for number, token in decoder.items()}
    for piece, i in settings.added_tokens.items():
        tokens.setdefault(i, piece)
    for i in sorted(tokens):
        if i >= len(table):
            table.setdefault(tokens[i], i)


def _special_tokens(
    folder: Path, settings: _Settings, table: Mapping[str, int]
) -> SpecialTokens:
    """Returns the pieces of the ids in config.json, compared with names."""
    pieces = {i: piece for piece, i in table.items()}
    special = {}
    for name in ("pad", "eos", "bos"):
        role = "decoder_start_token" if name == "bos" else f"{name}_token"
        field = f"{role}_id"
        i = settings.config.get(field, int)
        if i not in pieces:
            settings.config.refuse(field, "an id of vocab.json")
        settings.search.check(field, i)
        special[name] = pieces[i]
        text = _text(settings.tokenizer.values.get(role))
        if text not in (None, pieces[i]):
            raise InputError(
                f"{folder} must have the same special tokens in all files. "
                f"Received: {role}={text!r} of the tokenizer, {field}={i} in "
                f"config.json, which is {pieces[i]!r} in vocab.json"
            )
    unknown = _text(settings.tokenizer.values.get("unk_token")) or "<unk>"
    return SpecialTokens(unk=unknown, **special)


def _text(token: Any) -> Any:
    """A token may be an object with its text and how to find it."""
    return token.get("content") if isinstance(token, dict) else token


# === Search ===


def _read_search(
    settings: _Settings, config: TransformerConfig
) -> tuple[BeamSearch, list[int], list[str]]:
    """Returns the search, ids that are never written, and what is ignored."""
    fields = settings.search
    never, notes = [config.pad_id], []
    for ids in fields.get("bad_words_ids", list, []):
        if ids == [config.eos_id]:
            continue  # `generate` leaves it out, too
        if len(ids) == 1:
            never += ids
        else:
            notes.append(f"bad_words_ids={ids}")
    fields.check("early_stopping", *_STOP)
    early_stopping = fields.values.get("early_stopping", False)
    defaults = _SEARCH_DEFAULTS | {"forced_eos_token_id": config.eos_id}
    for field, value in fields.values.items():
        if field in defaults:
            is_followed = value in ([], defaults[field])
        else:
            # False and 0 ask for nothing, whatever the field is.
            is_known = fields is settings.config or _KNOWN.match(field)
            is_followed = is_known or not value
        if not is_followed:
            notes.append(f"{field}={value}")
    # transformers counts the start token.
    max_length = fields.get("max_length", int, config.max_length) - 1
    values = dict(
        beam_size=fields.get("num_beams", int, 1),
        alpha=fields.get("length_penalty", float, 1.0),
        length_penalty="power",
        extra_length=fields.get("max_new_tokens", int, max_length),
        length_factor=0.0,
        no_repeat_ngram=fields.get("no_repeat_ngram_size", int, 0),
        stop=_STOP[early_stopping],
    )
    with name_file(fields.name):
        return BeamSearch(**values), never, notes


# === Weights ===


def _find_weights(folder: Path) -> Path:
    files = {path.name for path in folder.iterdir()}
    for name in WEIGHTS:
        if name in files:
            return folder / name
    received = "none"
    if files.intersection(f"{name}.index.json" for name in WEIGHTS):
        received = (
            "weights in several files. Save them in one, with transformers: "
            "model.save_pretrained(folder, max_shard_size='100GB')"
        )
    raise InputError(
        f"{folder} must have {' or '.join(WEIGHTS)}. Received: {received}"
    )


def _find_names(
    config: TransformerConfig, tensors: Mapping[str, np.ndarray], file: Path
) -> tuple[dict[str, str], list[str]]:
    """Returns the names of weights by ours, and further names of the same."""
    names, duplicates = weight_table.weight_names(config, "hugging_face"), []
    matrices = weight_table.MATRICES[config.tied_embeddings]
    for matrix in dict.fromkeys(matrices):
        pairs = zip(_EMBEDDINGS, matrices, strict=True)
        aliases = [name for name, y in pairs if y == matrix]
        if matrices[:2] == (matrix, matrix):
            aliases.insert(0, _SHARED)
        first, *others = [x for x in aliases if x in tensors] or aliases[:1]
        for name in others:
            if not np.array_equal(tensors[first], tensors[name]):
                raise InputError(
                    f"{file} must have the same values where config.json says "
                    "that embeddings are one matrix. Received: different "
                    f"{first} and {name}"
                )
        names[f"{matrix}/embeddings"] = first
        duplicates += others
    return names, duplicates


def _convert(never: Sequence[int], name: str, value: np.ndarray) -> np.ndarray:
    if name.endswith("kernel"):
        return value.T
    if name.endswith("embedding/bias"):  # [1, V]
        value = value.reshape(-1).copy()
        value[[i for i in never if i < len(value)]] = foreign_model.NEVER
    return value
