"""Vocabularies of OpenNMT-tf: lists of tokens, and SentencePiece models.

The section `data` of the settings names them. Wherever they were, the folder
has files of the same names.
"""

from pathlib import Path, PurePath

from keras_transformer.convert import settings_file
from keras_transformer.convert.settings_file import SettingsFile
from keras_transformer.convert.vocabulary import SpecialTokens, make_tokenizer
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.text import Tokenizer
from keras_transformer.text.sentencepiece_model import load_processor

# The ids 0, 1 and 2 of a vocabulary, and the last one, which no file contains.
_PAD, _START, _END, _UNKNOWN = "<blank>", "<s>", "</s>", "<unk>"

# What tokenizations may say. Only training samples how texts are split, and
# pieces of SentencePiece have spacers anyway.
_PLAIN = {"mode", "sp_model_path", "sp_nbest_size", "sp_alpha"}
_PLAIN |= {"spacer_annotate"}


def read_vocabulary(
    folder: Path, data: SettingsFile, ends_sources: bool
) -> Tokenizer:
    """Returns the vocabularies.

    `ends_sources` is the default of whether sources have an end token.
    """
    name = "sequence_controls"
    source_marks = data.get(_field(data, "source", name), dict, {})
    target_marks = data.get(_field(data, "target", name), dict, {})
    source_marks = source_marks or {"end": ends_sources}
    target_marks = target_marks or {"start": True, "end": True}
    has_both = target_marks.get("start") and target_marks.get("end")
    if source_marks.get("start") or not has_both:
        raise InputError(
            f"{data.name} must have {name} that mark start and end of targets, "
            f"and no start of sources. Received: source={source_marks}, "
            f"target={target_marks}"
        )
    special = SpecialTokens(pad=_PAD, unk=_UNKNOWN, bos=_START, eos=_END)
    reader = special if source_marks.get("end") else special._replace(eos=_PAD)
    with name_file(f"The vocabulary in {folder}"):
        return make_tokenizer(
            (*_read_pieces(folder, data, "source"), reader),
            (*_read_pieces(folder, data, "target"), special),
        )


def _field(data: SettingsFile, side: str, name: str) -> str:
    """Returns the field of one side, or of both sides if that one is absent."""
    field = f"{side}_{name}"
    return name if name in data.values and field not in data.values else field


def _resolve(folder: Path, path: str) -> Path:
    return settings_file.find_file(folder, PurePath(path).name)


def _read_pieces(
    folder: Path, data: SettingsFile, side: str
) -> tuple[bytes, dict[str, int]]:
    """Returns the SentencePiece model of a side, and the ids of its pieces."""
    name = data.get(_field(data, side, "vocabulary"), str)
    table = _read_table(_resolve(folder, name))
    path = _model_path(folder, data, side)
    model = path.read_bytes()
    with name_file(path):
        processor = load_processor(model)
    known = sum(processor.PieceToId(x) != processor.unk_id() for x in table)
    # A model may know half of a joint vocabulary.
    if known < len(table) / 4:
        raise InputError(
            f"{path} must have the pieces in {name}. Received: a model with "
            f"{known} of these {len(table)} tokens"
        )
    return model, table


def _read_table(path: Path) -> dict[str, int]:
    """Returns the ids of a vocabulary, one token a line."""
    # A piece may contain other ends of lines.
    lines = path.read_bytes().decode().removesuffix("\n").split("\n")
    tokens = [*(line.removesuffix("\r") for line in lines), _UNKNOWN]
    return {token: i for i, token in enumerate(tokens)}


def _model_path(folder: Path, data: SettingsFile, side: str) -> Path:
    """Returns the path of the SentencePiece model of a side."""
    field = _field(data, side, "tokenization")
    tokenization = data.values.get(field)
    if tokenization is None:
        # Training read texts that were split before.
        models = sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
        if len(models) == 1:
            return models[0]
        names = ", ".join(path.name for path in models)
        raise InputError(
            f"{data.name} must have {field!r}, or the folder one file *.model "
            f"or *.spm. Received: {names or 'none'}"
        )
    if isinstance(tokenization, str):
        file = _resolve(folder, tokenization)
        tokenization = settings_file.read_yaml(file.read_bytes(), file)
    tokenizer, options, path = "OpenNMTTokenizer", tokenization, None
    if isinstance(options, dict) and "type" in options:
        tokenizer, options = options["type"], options.get("params")
    if isinstance(options, dict):
        used = {name for name, value in options.items() if value}
        if tokenizer == "SentencePieceTokenizer":
            path = options.get("model")
        elif options.get("mode") == "none" and used <= _PLAIN:
            path = options.get("sp_model_path")
    if not isinstance(path, str):
        raise InputError(
            f"{data.name} must have {field!r}: SentencePiece alone, which is a "
            "SentencePieceTokenizer with a model, or an OpenNMTTokenizer with "
            "mode none and sp_model_path. Moses, BPE, case_markup and joiners "
            "cannot run in a graph of TensorFlow. Received: "
            f"{tokenization!r:.300}"
        )
    return _resolve(folder, path)
