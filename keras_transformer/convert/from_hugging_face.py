"""Marian models of Hugging Face's transformers, such as OPUS-MT's.

Ids and sizes have no defaults here, since the defaults of transformers do not
match the published models.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert import foreign_model, settings_file, weight_table
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import name_file
from keras_transformer.text import Tokenizer

# The files that are read; of the weights, the first that exists.
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SETTINGS = """
config.json generation_config.json tokenizer_config.json added_tokens.json
special_tokens_map.json vocab.json target_vocab.json source.spm target.spm
""".split()

_ACTIVATIONS = ("relu", "swish", "silu", "gelu")  # silu is swish
# Unsupported search settings of transformers, with their neutral values.
_SEARCH_DEFAULTS = {
    "do_sample": False,
    "forced_bos_token_id": None,
    "suppress_tokens": None,
    "sequence_bias": None,
    "num_beam_groups": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "encoder_no_repeat_ngram_size": 0,
    "repetition_penalty": 1,
    "encoder_repetition_penalty": 1,
}
# `BeamSearch.stop` for each value of early_stopping.
_STOP = {False: "heuristic", True: "finished", "never": "exact"}
# The source embedding, the target embedding and the output matrix, and the name
# of a matrix that is both embeddings.
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_OUTPUT = "lm_head.weight"
_SHARED = "model.shared.weight"
# Further names of tied matrices, and sinusoids, which are computed instead.
_UNUSED = [_SOURCE, _TARGET, _OUTPUT, _SHARED]
_UNUSED += [f"model.{x}.embed_positions.weight" for x in ("encoder", "decoder")]


def read_hugging_face(folder: Path) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    check_is_marian(folder)
    settings = search_settings = _read_fields(folder, "config.json")
    if (folder / "generation_config.json").exists():
        search_settings = _read_fields(folder, "generation_config.json")
    tokenizer_settings = _read_fields(
        folder, "special_tokens_map.json", "tokenizer_config.json"
    )
    tokenizer = _read_tokenizer(folder, settings, tokenizer_settings)
    file = settings_file.find_file(folder, *WEIGHTS)
    tensors = read_tensors(file)
    embeddings = _find_embeddings(settings, tensors)
    source, target, output = embeddings
    tied = weight_table.TIED_EMBEDDINGS[source == target, target == output]
    config = _read_config(settings, tokenizer, tied)
    names = weight_table.weight_names(config, "hugging_face")
    matrices = weight_table.MATRICES[tied]
    for matrix, stored_name in zip(matrices, embeddings, strict=True):
        names[f"{matrix}/embeddings"] = stored_name
    words = search_settings.get("bad_words_ids", list, [])
    banned_ids = _banned_ids(words, config)
    notes = search_settings.notes(_SEARCH_DEFAULTS)
    notes += [f"bad_words_ids={ids}" for ids in words if len(ids) > 1]
    return ForeignModel(
        system="Hugging Face (Marian)",
        config=config,
        tokenizer=tokenizer,
        search=_read_search(search_settings, config),
        languages=(
            tokenizer_settings.get("source_lang", str, None),
            tokenizer_settings.get("target_lang", str, None),
        ),
        file=file,
        tensors=tensors,
        names=names,
        convert=functools.partial(_convert, banned_ids),
        unused=_UNUSED,
        notes=notes,
    )


def check_is_marian(folder: Path) -> None:
    """Raises InputError unless a folder's config.json is of a Marian model."""
    settings = _read_fields(folder, "config.json")
    if settings.values.get("model_type") != "marian":
        settings.reject("model_type", "'marian'")


def _read_fields(folder: Path, *names: str) -> SettingsFile:
    """Returns the fields of the files that exist; later files win."""
    values = {}
    for name in names:
        if (folder / name).exists():
            values |= settings_file.read_json(folder, name)
    return SettingsFile(folder / names[-1], values)


def _read_config(
    config: SettingsFile, tokenizer: Tokenizer, tied_embeddings: str
) -> TransformerConfig:
    activation = config.get("activation_function", str)
    config.check("activation_function", _ACTIVATIONS)
    return config.make(
        TransformerConfig,
        **tokenizer.config_values(),
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
        tied_embeddings=tied_embeddings,
        embedding_scale=None if config.get("scale_embedding", bool) else 1.0,
        position_layout="halves",
    )


def _read_tokenizer(
    folder: Path, settings: SettingsFile, tokenizer_settings: SettingsFile
) -> Tokenizer:
    target_table = table = settings_file.read_json(folder, "vocab.json")
    # Added tokens that are not in the table.
    tokens = _read_fields(folder, "added_tokens.json").values
    tokens = {i: piece for piece, i in tokens.items()}
    objects = tokenizer_settings.get("added_tokens_decoder", dict, {})
    tokens |= {int(i): _text(token) for i, token in objects.items()}
    for i in sorted(tokens):
        if i >= len(table):
            table.setdefault(tokens[i], i)
    if tokenizer_settings.get("separate_vocabs", bool, False):
        target_table = settings_file.read_json(folder, "target_vocab.json")
    unknown = _text(tokenizer_settings.values.get("unk_token")) or "<unk>"
    special = _special_pieces(settings, table, unknown)
    source = settings_file.find_file(folder, "source.spm").read_bytes()
    target = settings_file.find_file(folder, "target.spm").read_bytes()
    with name_file(f"The tokenizer in {folder}"):
        return make_tokenizer(
            source=vocabulary_with_ids(source, table, special),
            target=vocabulary_with_ids(target, target_table, special),
        )


def _special_pieces(
    settings: SettingsFile, table: Mapping[str, int], unknown: str
) -> SpecialPieces:
    """Returns the pieces with the special ids in config.json."""
    pieces = {i: piece for piece, i in table.items()}
    special = {}
    for name, role in dict(pad="pad", eos="eos", bos="decoder_start").items():
        field = f"{role}_token_id"
        i = settings.get(field, int)
        if i not in pieces:
            settings.reject(field, "an id of vocab.json")
        special[name] = pieces[i]
    return SpecialPieces(unk=unknown, **special)


def _text(token: Any) -> Any:
    """Returns the text of a token, which may be an object."""
    return token.get("content") if isinstance(token, dict) else token


def _read_search(fields: SettingsFile, config: TransformerConfig) -> BeamSearch:
    fields.check("pad_token_id", [config.pad_id])
    fields.check("eos_token_id", [config.eos_id])
    fields.check("decoder_start_token_id", [config.bos_id])
    fields.check("early_stopping", list(_STOP))
    early_stopping = fields.values.get("early_stopping", False)
    # transformers counts the start token.
    max_length = fields.get("max_length", int, config.max_length) - 1
    return fields.make(
        BeamSearch,
        beam_size=fields.get("num_beams", int, 1),
        alpha=fields.get("length_penalty", float, 1.0),
        length_penalty="power",
        extra_length=fields.get("max_new_tokens", int, max_length),
        length_factor=0.0,
        no_repeat_ngram=fields.get("no_repeat_ngram_size", int, 0),
        stop=_STOP[early_stopping],
    )


def _banned_ids(
    words: Sequence[Sequence[int]], config: TransformerConfig
) -> list[int]:
    """Returns padding, and banned words of one token."""
    banned_ids = [config.pad_id]
    for ids in words:
        if len(ids) == 1 and ids != [config.eos_id]:  # as in `generate`
            banned_ids += ids
    return banned_ids


def _find_embeddings(
    config: SettingsFile, tensors: Mapping[str, np.ndarray]
) -> list[str]:
    """Returns the stored names of both embeddings and the output matrix.

    Tied matrices have the same name. As in transformers 5, matrices that are
    stored with different values are different, although config.json ties them.
    """
    is_shared = config.get("share_encoder_decoder_embeddings", bool, True)
    is_tied = config.get("tie_word_embeddings", bool, True)
    tied = weight_table.TIED_EMBEDDINGS[is_shared, is_tied]
    source, target, output = weight_table.MATRICES[tied]
    # The first that is stored gives the values of tied ones that are not.
    matrices = {_OUTPUT: output, _TARGET: target, _SOURCE: source}
    if is_shared:
        matrices = {_SHARED: source} | matrices
    names = []
    for name in (_SOURCE, _TARGET, _OUTPUT):
        group = [x for x, y in matrices.items() if y == matrices[name]]
        stored = [x for x in group if x in tensors] or group
        if name not in stored:
            name = stored[0]
        equal = (
            x
            for x in stored
            if x == name or np.array_equal(tensors[x], tensors[name])
        )
        names.append(next(equal))
    return names


def _convert(
    banned_ids: Sequence[int], name: str, value: np.ndarray
) -> np.ndarray:
    if name.endswith("kernel"):
        return value.T
    if name.endswith("embedding/bias"):  # [1, V]
        value = value.reshape(-1).copy()
        value[[i for i in banned_ids if i < len(value)]] = foreign_model.NEVER
    return value
