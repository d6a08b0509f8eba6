"""Vocabularies of OpenNMT-tf: lists of tokens, and SentencePiece models.

The section `data` of the settings names these files.
"""

from pathlib import Path

from keras_transformer.convert.settings_file import SettingsFile, find_file
from keras_transformer.convert.vocabulary import (
    SpecialTokens,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.files import read_yaml
from keras_transformer.text import Tokenizer
from keras_transformer.text.vocabulary import load_processor

# The ids 0, 1 and 2 of a vocabulary, and the last id, which no file contains.
_PAD, _START, _END, _UNKNOWN = "<blank>", "<s>", "</s>", "<unk>"

# Supported options of tokenizations. Sampling affects training only, and
# SentencePiece always has spacers.
_PLAIN = {"mode", "sp_model_path", "sp_nbest_size", "sp_alpha"}
_PLAIN |= {"spacer_annotate"}


def read_vocabulary(
    folder: Path, data: SettingsFile, ends_sources: bool
) -> Tokenizer:
    """Returns the tokenizer; sources get an end token if `ends_sources`.

    The settings may override `ends_sources`.
    """
    name = "sequence_controls"
    source_marks = data.get(_field(data, "source", name), dict, {})
    target_marks = data.get(_field(data, "target", name), dict, {})
    source_marks = source_marks or {"end": ends_sources}
    target_marks = target_marks or {"start": True, "end": True}
    has_both = target_marks.get("start") and target_marks.get("end")
    if source_marks.get("start") or not has_both:
        raise InputError(
            f"{data.name} must have {name} with start and end for targets, and "
            f"without start for sources. Received: source={source_marks}, "
            f"target={target_marks}"
        )
    special = SpecialTokens(pad=_PAD, unk=_UNKNOWN, bos=_START, eos=_END)
    reader = special if source_marks.get("end") else special._replace(eos=_PAD)
    with name_file(f"The vocabulary in {folder}"):
        model, table = _read_pieces(folder, data, "source")
        source = vocabulary_with_ids(model, table, reader)
        model, table = _read_pieces(folder, data, "target")
        target = vocabulary_with_ids(model, table, special)
        return make_tokenizer(source, target)


def _field(data: SettingsFile, side: str, name: str) -> str:
    """Returns the name of a side's field, or of the field for both sides."""
    field = f"{side}_{name}"
    return name if name in data.values and field not in data.values else field


def _read_pieces(
    folder: Path, data: SettingsFile, side: str
) -> tuple[bytes, dict[str, int]]:
    """Returns the SentencePiece model of a side, and its ids by piece."""
    name = data.get(_field(data, side, "vocabulary"), str)
    table = _read_table(find_file(folder, name))
    path = _model_path(folder, data, side)
    model = path.read_bytes()
    with name_file(path):
        processor = load_processor(model)
    known = sum(processor.PieceToId(x) != processor.unk_id() for x in table)
    # A model may contain half of a joint vocabulary.
    if known < len(table) / 4:
        raise InputError(
            f"{path} must contain the pieces in {name}. Received: {known} of "
            f"{len(table)} pieces"
        )
    return model, table


def _read_table(path: Path) -> dict[str, int]:
    """Returns ids by token from a file with one token per line."""
    # Not `splitlines`: a piece may contain other line ends.
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    tokens = [line.removesuffix("\r") for line in lines]
    return {token: i for i, token in enumerate([*tokens, _UNKNOWN])}


def _model_path(folder: Path, data: SettingsFile, side: str) -> Path:
    """Returns the path of the SentencePiece model of a side."""
    field = _field(data, side, "tokenization")
    tokenization = data.values.get(field)
    if tokenization is None:
        # The corpus was split before training.
        models = sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
        if len(models) == 1:
            return models[0]
        names = ", ".join(path.name for path in models)
        raise InputError(
            f"{data.name} must have {field!r}, or {folder} must contain one "
            f"file *.model or *.spm. Received: {names or 'none'}"
        )
    if isinstance(tokenization, str):
        file = find_file(folder, tokenization)
        tokenization = read_yaml(file.read_bytes(), file)
    tokenizer = "OpenNMTTokenizer"
    options = tokenization
    path = None
    if isinstance(options, dict) and "type" in options:
        tokenizer = options["type"]
        options = options.get("params")
    if isinstance(options, dict):
        used = {name for name, value in options.items() if value}
        if tokenizer == "SentencePieceTokenizer":
            path = options.get("model")
        elif options.get("mode") == "none" and used <= _PLAIN:
            path = options.get("sp_model_path")
    if not isinstance(path, str):
        raise InputError(
            f"{data.name} must have {field!r} with SentencePiece alone: a "
            "SentencePieceTokenizer with a model, or an OpenNMTTokenizer with "
            f"mode none and sp_model_path. Received: {tokenization!r:.300}"
        )
    return find_file(folder, path)
