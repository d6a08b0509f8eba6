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

FILES = ("config.json",)
# The files that `read` uses; of the weights, the first that exists.
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


def read(folder: Path) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    settings = search_settings = read_settings(folder)
    if (folder / "generation_config.json").exists():
        search_settings = _read_fields(folder, "generation_config.json")
    tokenizer_settings = _read_fields(
        folder, "special_tokens_map.json", "tokenizer_config.json"
    )
    tokenizer = _read_tokenizer(folder, settings, tokenizer_settings)
    file = settings_file.find_file(folder, *WEIGHTS)
    tensors = read_tensors(file)
    tied, embeddings = _find_embeddings(settings, tensors)
    config = _read_config(settings, tokenizer, tied)
    search, never, notes = _read_search(search_settings, config)
    names = weight_table.weight_names(config, "hugging_face") | embeddings
    return ForeignModel(
        system="Hugging Face (Marian)",
        config=config,
        vocabulary=tokenizer,
        search=search,
        languages=(
            tokenizer_settings.get("source_lang", str, None),
            tokenizer_settings.get("target_lang", str, None),
        ),
        file=file,
        tensors=tensors,
        names=names,
        convert=functools.partial(_convert, never),
        unused=_UNUSED,
        notes=notes,
    )


def read_settings(folder: Path) -> SettingsFile:
    """Returns the config.json of a folder, which must be a Marian model's."""
    settings = _read_fields(folder, "config.json")
    if settings.values.get("model_type") != "marian":
        settings.reject("model_type", "'marian'")
    return settings


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
    return foreign_model.imported_config(
        config.name,
        tokenizer,
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


def _read_search(
    fields: SettingsFile, config: TransformerConfig
) -> tuple[BeamSearch, list[int], list[str]]:
    """Returns the search, banned ids, and notes on unsupported settings."""
    fields.check("pad_token_id", [config.pad_id])
    fields.check("eos_token_id", [config.eos_id])
    fields.check("decoder_start_token_id", [config.bos_id])
    never = [config.pad_id]
    notes = fields.notes(_SEARCH_DEFAULTS)
    for ids in fields.get("bad_words_ids", list, []):
        if len(ids) > 1:
            notes.append(f"bad_words_ids={ids}")
        elif ids != [config.eos_id]:  # `generate` ignores it too
            never += ids
    fields.check("early_stopping", list(_STOP))
    early_stopping = fields.values.get("early_stopping", False)
    # transformers counts the start token.
    max_length = fields.get("max_length", int, config.max_length) - 1
    search = fields.make(
        BeamSearch,
        beam_size=fields.get("num_beams", int, 1),
        alpha=fields.get("length_penalty", float, 1.0),
        length_penalty="power",
        extra_length=fields.get("max_new_tokens", int, max_length),
        length_factor=0.0,
        no_repeat_ngram=fields.get("no_repeat_ngram_size", int, 0),
        stop=_STOP[early_stopping],
    )
    return search, never, notes


def _find_embeddings(
    config: SettingsFile, tensors: Mapping[str, np.ndarray]
) -> tuple[str, dict[str, str]]:
    """Returns `tied_embeddings`, and the stored names of embeddings by ours.

    As in transformers 5, matrices that are stored with different values are
    different, although config.json ties them.
    """
    is_shared = config.get("share_encoder_decoder_embeddings", bool, True)
    is_tied = config.get("tie_word_embeddings", bool, True)
    tied = weight_table.TIED_EMBEDDINGS[is_shared, is_tied]
    source, target, output = weight_table.MATRICES[tied]
    # The first that is stored gives the values of tied ones that are not.
    matrices = {_OUTPUT: output, _TARGET: target, _SOURCE: source}
    if is_shared:
        matrices = {_SHARED: source} | matrices

    def find(name: str) -> str:
        equal = [x for x, y in matrices.items() if y == matrices[name]]
        return next((x for x in [name, *equal] if x in tensors), equal[0])

    def is_same(name: str, other: str) -> bool:
        return name == other or np.array_equal(tensors[name], tensors[other])

    source, target, output = map(find, (_SOURCE, _TARGET, _OUTPUT))
    tied = weight_table.TIED_EMBEDDINGS[
        is_shared and is_same(source, target),
        is_tied and is_same(target, output),
    ]
    names = [f"{matrix}/embeddings" for matrix in weight_table.MATRICES[tied]]
    return tied, dict(zip(names, [source, target, output], strict=True))


def _convert(never: Sequence[int], name: str, value: np.ndarray) -> np.ndarray:
    if name.endswith("kernel"):
        return value.T
    if name.endswith("embedding/bias"):  # [1, V]
        value = value.reshape(-1).copy()
        value[[i for i in never if i < len(value)]] = foreign_model.NEVER
    return value
