"""Marian models of Hugging Face's transformers, such as OPUS-MT's.

A folder has config.json, generation_config.json, the weights in
model.safetensors or pytorch_model.bin, and the files of the tokenizer:
source.spm, target.spm, vocab.json, perhaps target_vocab.json, and
tokenizer_config.json or special_tokens_map.json. No id and no size has a
default here: those of transformers are not those of the published models.
"""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert.foreign_model import NEVER, ForeignModel
from keras_transformer.convert.hugging_face_settings import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    Settings,
)
from keras_transformer.convert.tensor_files import (
    checked,
    inside,
    read_object,
    read_tensors,
)
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.text.lookup_vocabulary import (
    LookupVocabulary,
    SpecialTokens,
)

MARKS = (CONFIG,)

_ACTIVATIONS = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
}
# How a search may differ from ours, and what changes nothing.
_DEFAULTS = {
    "do_sample": False,
    "diversity_penalty": 0,
    "early_stopping": False,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "forced_bos_token_id": None,
    "guidance_scale": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "num_return_sequences": 1,
    "repetition_penalty": 1,
    "suppress_tokens": None,
    "temperature": 1,
    "top_k": 50,
    "top_p": 1,
    "typical_p": 1,
}
# Fields that are read, or say nothing of translations.
_UNDERSTOOD = re.compile(
    "(bad_words_ids|(pad|bos|eos|decoder_start)_token_id|length_penalty"
    "|max_length|max_new_tokens|num_beams|renormalize_logits|use_cache"
    "|transformers_version|.*assistant.*|.*_lookbehind|disable_compile)$"
    "|_|output_|return_dict|cache_"
)
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_SHARED, _SOURCE, _TARGET, _OUTPUT = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
# Tables of the sinusoids, which are computed.
_POSITIONS = [
    f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")
]
# Names that one matrix may have, by `tied_embeddings`.
_ALIASES = {
    "all": [(_SHARED, _SOURCE, _TARGET, _OUTPUT)],
    "inputs": [(_SHARED, _SOURCE, _TARGET), (_OUTPUT,)],
    "target": [(_SOURCE,), (_TARGET, _OUTPUT)],
    "none": [(_SOURCE,), (_TARGET,), (_OUTPUT,)],
}


def read(folder: Path, target_language: str | None) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    settings = Settings(folder)
    vocabulary, languages = _read_vocabulary(settings, target_language)
    config = _architecture(settings, vocabulary)
    search, never, notes = _read_search(settings, config)
    file = _find_weights(folder)
    tensors = read_tensors(file)
    names, aliases = _find_names(config, tensors, file)
    return ForeignModel(
        system="Marian, in Hugging Face's files",
        config=config,
        vocabulary=vocabulary,
        search=search,
        languages=languages,
        file=file,
        tensors=tensors,
        names=names,
        convert=_converter(never),
        unused=[*aliases, *_POSITIONS],
        notes=notes,
    )


def _architecture(
    settings: Settings, vocabulary: LookupVocabulary
) -> TransformerConfig:
    get = settings.get
    function = get("activation_function", str)
    if function not in _ACTIVATIONS:
        expected = f"one of {', '.join(_ACTIVATIONS)}"
        settings.refuse("activation_function", expected)
    shares = get("share_encoder_decoder_embeddings", bool, True)
    ties = get("tie_word_embeddings", bool, True)
    tied = {
        (True, True): "all",
        (True, False): "inputs",
        (False, True): "target",
        (False, False): "none",
    }[shares, ties]
    source_size = size = get("vocab_size", int)
    if not shares:
        size = get("decoder_vocab_size", int, size)
    for name, side, rows in (
        ("vocab_size", vocabulary.source, source_size),
        ("decoder_vocab_size", vocabulary, size),
    ):
        if side.vocab_size != rows:
            raise InputError(
                f"The vocabulary in {settings.folder} must have a piece for "
                "each row of the embedding, which config.json says. Received: "
                f"{side.vocab_size:,} pieces, {name}={rows:,}"
            )

    def of_decoder(name: str) -> int | None:
        """The decoder's value, unless it is the encoder's."""
        value = get(f"decoder_{name}", int)
        return None if value == get(f"encoder_{name}", int) else value

    return checked(
        settings.folder / CONFIG,
        TransformerConfig,
        vocab_size=size,
        source_vocab_size=None if source_size == size else source_size,
        num_layers=get("encoder_layers", int),
        decoder_layers=of_decoder("layers"),
        d_model=get("d_model", int),
        d_ff=get("encoder_ffn_dim", int),
        decoder_d_ff=of_decoder("ffn_dim"),
        num_heads=get("encoder_attention_heads", int),
        decoder_heads=of_decoder("attention_heads"),
        dropout=get("dropout", float),
        max_length=get("max_position_embeddings", int),
        pad_id=vocabulary.pad_id,
        bos_id=vocabulary.bos_id,
        eos_id=vocabulary.eos_id,
        activation=_ACTIVATIONS[function],
        layer_norm_epsilon=1e-5,
        attention_bias=True,
        output_bias=True,
        tied_embeddings=tied,
        embedding_scale=None if get("scale_embedding", bool) else 1.0,
        position_layout="halves",
    )


# === Vocabulary ===


def _read_vocabulary(
    settings: Settings, target_language: str | None
) -> tuple[LookupVocabulary, tuple[str | None, str | None]]:
    folder = settings.folder
    target_table = table = _read_table(folder, "vocab.json")
    _add_tokens(settings, table)
    if settings.get("separate_vocabs", bool, False, TOKENIZER):
        target_table = _read_table(folder, "target_vocab.json")
    special = _special_tokens(settings, table)
    source = inside(folder, "source.spm").read_bytes(), table
    target = inside(folder, "target.spm").read_bytes(), target_table
    try:
        first = LookupVocabulary(*source, special=special)
        vocabulary = LookupVocabulary(*target, first, special)
        if target_language is not None:
            vocabulary = vocabulary.translating_to(target_language)
    except InputError as error:
        raise InputError(
            f"The tokenizer in {folder} cannot be used. {error}"
        ) from error
    source_lang, target_lang = (
        settings.get(f"{side}_lang", str, None, TOKENIZER)
        for side in ("source", "target")
    )
    if target_language is not None:
        target_lang = target_language.strip("<>")
    return vocabulary, (source_lang, target_lang)


def _add_tokens(settings: Settings, table: dict[str, int]) -> None:
    """Adds the pieces that were added later, beyond the table."""
    name = "added_tokens_decoder"
    added = {
        (int(i) if i.isdecimal() else i): _text(token)
        for i, token in settings.get(name, dict, {}, TOKENIZER).items()
    }
    if any(type(x) is not int for x in added) or not all(
        isinstance(piece, str) for piece in added.values()
    ):
        settings.refuse(name, "tokens with text by ids", TOKENIZER)
    for piece, i in settings.added.items():
        if type(i) is not int:
            raise InputError(
                f"{settings.folder / 'added_tokens.json'} must have ids by "
                f"token. Received: {piece}={i!r}"
            )
        added.setdefault(i, piece)
    for i in sorted(added):
        if i >= len(table):
            table.setdefault(added[i], i)


def _read_table(folder: Path, name: str) -> dict[str, int]:
    table = read_object(folder, name)
    ids = list(table.values())
    if any(type(i) is not int for i in ids) or {*ids} != {*range(len(ids))}:
        raise InputError(
            f"{folder / name} must have the ids from 0 on, each once. "
            f"Received: {len(ids):,} pieces with other ids"
        )
    return table


def _special_tokens(
    settings: Settings, table: Mapping[str, int]
) -> SpecialTokens:
    """Returns the pieces of the ids in config.json, compared with names."""
    pieces = {i: piece for piece, i in table.items()}
    found = {}
    for role in ("pad", "eos", "decoder_start"):
        name = f"{role}_token_id"
        i = settings.get(name, int)
        if i not in pieces:
            settings.refuse(name, "an id of vocab.json")
        if settings.generation.get(name) not in (None, i):
            settings.refuse(name, f"{i}, as in {CONFIG}", GENERATION)
        found[f"{role}_token"] = pieces[i]
        said = _text(settings.tokenizer.get(f"{role}_token"))
        if said not in (None, pieces[i]):
            raise InputError(
                f"{settings.folder} must have the same special tokens in all "
                f"files. Received: {role}_token={said!r} of the tokenizer, "
                f"{name}={i} in config.json, which is {pieces[i]!r} in "
                "vocab.json"
            )
    unknown = _text(settings.tokenizer.get("unk_token")) or "<unk>"
    if not isinstance(unknown, str):
        settings.refuse("unk_token", "a text", TOKENIZER)
    return SpecialTokens(
        **found, unk_token=unknown, source_eos_token=found["eos_token"]
    )


def _text(token: Any) -> str | None:
    """A token may be an object with its text and how to find it."""
    return token.get("content") if isinstance(token, dict) else token


# === Search ===


def _read_search(
    settings: Settings, config: TransformerConfig
) -> tuple[BeamSearch, list[int], list[str]]:
    """Returns the search, ids that are never written, and what is ignored."""
    file = settings.search_file

    def get(name: str, kind: type, default: Any) -> Any:
        return settings.get(name, kind, default, file)

    never, notes = [config.pad_id], []
    for ids in get("bad_words_ids", list, []):
        if not isinstance(ids, list) or not all(
            type(i) is int and 0 <= i < config.vocab_size for i in ids
        ):
            settings.refuse("bad_words_ids", "lists of ids in a list", file)
        if len(ids) == 1:
            never += ids
        else:
            notes.append(f"bad_words_ids={ids}")
    defaults = _DEFAULTS | {"forced_eos_token_id": config.eos_id}
    values = settings.config if file == CONFIG else settings.generation
    for name, value in values.items():
        if name not in defaults:
            # Of a field that nobody knows, false and 0 are no request.
            is_noted = file == GENERATION and bool(value)
            is_noted = is_noted and not _UNDERSTOOD.match(name)
        else:
            is_noted = value not in (None, [], defaults[name])
        if is_noted:
            notes.append(f"{name}={value}")
    # Of transformers the first input counts, too.
    longest = get("max_length", int, config.max_length) - 1
    search = checked(
        settings.folder / file,
        BeamSearch,
        beam_size=get("num_beams", int, 1),
        alpha=get("length_penalty", float, 1.0),
        length_penalty="power",
        extra_length=get("max_new_tokens", int, longest),
        length_factor=0.0,
    )
    return search, never, notes


# === Weights ===


def _find_weights(folder: Path) -> Path:
    there = {path.name for path in folder.iterdir()}
    for name in _WEIGHTS:
        if name in there:
            return inside(folder, name)
    parts = there.intersection(f"{name}.index.json" for name in _WEIGHTS)
    raise InputError(
        f"{folder} must have {' or '.join(_WEIGHTS)}. Received: "
        + ("weights in several files" if parts else "none")
        + ". Save them in one, with transformers: "
        "model.save_pretrained(folder, max_shard_size='100GB')" * bool(parts)
    )


def _find_names(
    config: TransformerConfig, tensors: Mapping[str, np.ndarray], file: Path
) -> tuple[dict[str, str], list[str]]:
    """Returns the names of weights by ours, and further names of the same."""
    names, aliases = weight_names(config, "hugging_face"), []
    for group in _ALIASES[config.tied_embeddings]:
        found = [name for name in group if name in tensors]
        for other in found[1:]:
            if not np.array_equal(tensors[found[0]], tensors[other]):
                raise InputError(
                    f"{file} must have the same values where config.json says "
                    "that embeddings are one matrix. Received: different "
                    f"{found[0]} and {other}"
                )
        aliases += found[1:]
        if found:
            (ours,) = (name for name in names if names[name] in group)
            names[ours] = found[0]
    return names, aliases


def _converter(
    never: Collection[int],
) -> Callable[[str, np.ndarray], np.ndarray]:
    def convert(name: str, value: np.ndarray) -> np.ndarray:
        if name.endswith("kernel"):
            return value.T
        if name.endswith("embedding/bias"):  # [1, V]
            value = value.reshape(-1).copy()
            value[[i for i in never if i < len(value)]] = NEVER
        return value

    return convert
