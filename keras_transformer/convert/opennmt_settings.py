"""The settings that OpenNMT-tf trained a model with: texts and search.

They are in a YAML file, which names vocabularies and SentencePiece models.
Wherever these were, the folder has files of the same names.
"""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from keras_transformer.config import TransformerConfig
from keras_transformer.convert.tensor_files import inside, read_yaml
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.text.lookup_vocabulary import (
    LookupVocabulary,
    SpecialTokens,
)
from keras_transformer.text.vocabulary import load_processor

# The first lines of a vocabulary, and so the ids 0, 1 and 2.
PAD, START, END = FIRST = ("<blank>", "<s>", "</s>")
_UNKNOWN = "<unk>"

# What tokenizations may say. Only training samples how texts are split, and
# pieces of SentencePiece have spacers anyway.
_PLAIN = {"mode", "sp_model_path", "sp_nbest_size", "sp_alpha"}
_PLAIN |= {"spacer_annotate"}


class Settings(NamedTuple):
    """The sections of the settings that are about texts and the search."""

    folder: Path
    file: Path
    data: Mapping[str, Any]
    params: Mapping[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "Settings":
        paths = sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")])
        files = {path: read_yaml(inside(folder, path.name)) for path in paths}
        found = [
            (path, values["data"], values.get("params") or {})
            for path, values in files.items()
            if isinstance(values, dict) and "data" in values
        ]
        if len(found) == 1 and all(isinstance(x, dict) for x in found[0][1:]):
            return cls(folder, *found[0])
        names = ", ".join(path.name for path in paths)
        raise InputError(
            f"{folder} must have one YAML file with the settings that trained "
            "the model: a mapping `data` with source_vocabulary, "
            "target_vocabulary, source_tokenization and target_tokenization, "
            f"and maybe one `params`. Received: {names or 'no YAML file'}"
        )

    def of(self, side: str, name: str) -> Any:
        """Returns what `data` says of one side, or of both."""
        own = self.data.get(f"{side}_{name}")
        return self.data.get(name) if own is None else own

    def named(self, path: str) -> Path:
        return inside(self.folder, PurePath(path).name)

    def error(self, field: str, expected: str, received: Any) -> InputError:
        return InputError(
            f"{self.file}: {field} must {expected}. Received: {received!r:.300}"
        )


def read_search(settings: Settings) -> BeamSearch:
    """Returns the search of the files; by default that of `--auto_config`."""
    params = settings.params
    for name in ("coverage_penalty", "minimum_decoding_length"):
        if params.get(name):
            expected = "be 0 or removed: there is none here"
            raise settings.error(f"params.{name}", expected, params[name])
    try:
        return BeamSearch(
            beam_size=params.get("beam_width", 4),
            alpha=params.get("length_penalty", 0),
            length_factor=0,
            extra_length=params.get("maximum_decoding_length", 250),
        )
    except InputError as error:
        expected = "have a beam_width, a length_penalty and a "
        expected += "maximum_decoding_length that BeamSearch takes"
        raise settings.error("params", expected, str(error)) from error


def read_vocabulary(
    settings: Settings, config: TransformerConfig, ends_sources: bool
) -> LookupVocabulary:
    """Returns the vocabularies, which must fit the embeddings.

    Args:
        settings: The settings.
        config: The architecture.
        ends_sources: Whether sources have an end token, unless the settings
            say it.
    """
    marks = {
        "source": settings.of("source", "sequence_controls"),
        "target": settings.of("target", "sequence_controls"),
    }
    try:
        ends = marks["source"] or {"end": ends_sources}
        special = SpecialTokens(
            PAD, _UNKNOWN, END, START, END if ends.get("end") else PAD
        )
        both = marks["target"] or {"start": True, "end": True}
        known = not ends.get("start") and both.get("start") and both.get("end")
    except AttributeError:
        known = False
    if not known:
        expected = "mark start and end of targets, and no start of sources"
        raise settings.error("data.sequence_controls", expected, marks)
    source_rows = config.source_vocab_size or config.vocab_size
    source = LookupVocabulary(
        *_pieces(settings, "source", source_rows), special=special
    )
    target = _pieces(settings, "target", config.vocab_size)
    return LookupVocabulary(*target, source, special)


def _pieces(
    settings: Settings, side: str, rows: int
) -> tuple[bytes, dict[str, int]]:
    """Returns the SentencePiece model of a side, and the ids of its pieces."""
    name = settings.of(side, "vocabulary")
    if not isinstance(name, str):
        raise settings.error(f"data.{side}_vocabulary", "name a file", name)
    table = _table(settings.named(name), rows)
    path = _model_path(settings, side)
    model = path.read_bytes()
    try:
        processor = load_processor(model)
    except InputError as error:
        raise InputError(f"{path} cannot be used. {error}") from error
    known = sum(processor.PieceToId(x) != processor.unk_id() for x in table)
    # Of a joint vocabulary, a model may know half.
    if known < len(table) / 4:
        raise InputError(
            f"{path} must be the model whose pieces {name} has. Received: one "
            f"that knows {known} of its {len(table)} tokens"
        )
    return model, table


def _table(path: Path, rows: int) -> dict[str, int]:
    """Returns the ids of a vocabulary. The unknown token is not in the file."""
    try:
        # A piece may contain what else ends a line.
        lines = path.read_bytes().decode().split("\n")
    except ValueError as error:
        raise InputError(f"{path} must be UTF-8. Received: {error}") from error
    tokens = [line.removesuffix("\r") for line in lines]
    if not tokens[-1]:
        tokens.pop()
    tokens.append(_UNKNOWN)
    table = {token: i for i, token in enumerate(tokens)}
    twice = [token for i, token in enumerate(tokens) if table[token] != i]
    if twice or len(tokens) != rows or (*tokens[:3],) != FIRST:
        raise InputError(
            f"{path} must have {rows - 1} different tokens, one a line, as "
            f"the checkpoint has rows without {_UNKNOWN}, and begin with "
            f"{', '.join(FIRST)}. Received: {len(tokens) - 1} tokens, "
            f"{tokens[:3]} first, {twice[:3]} more than once"
        )
    return table


def _model_path(settings: Settings, side: str) -> Path:
    """Returns the path of the SentencePiece model of a side."""
    field = f"data.{side}_tokenization"
    options = settings.of(side, "tokenization")
    if options is None:
        # Training read texts that were split before.
        folder = settings.folder
        models = sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
        if len(models) == 1:
            return settings.named(models[0].name)
        expected = "be there, or one *.model or *.spm in the folder"
        raise settings.error(field, expected, [path.name for path in models])
    if isinstance(options, str):
        options = read_yaml(settings.named(options))
    kind, values, path = "OpenNMTTokenizer", options, None
    if isinstance(options, dict) and "type" in options:
        kind, values = options["type"], options.get("params")
    if isinstance(values, dict):
        used = {name for name, value in values.items() if value}
        if kind == "SentencePieceTokenizer":
            path = values.get("model")
        elif values.get("mode") == "none" and used <= _PLAIN:
            path = values.get("sp_model_path")
    if not isinstance(path, str):
        expected = (
            "be SentencePiece alone: a SentencePieceTokenizer with a model, or "
            "an OpenNMTTokenizer with mode none and sp_model_path. Moses, BPE, "
            "case_markup and joiners cannot run in a graph of TensorFlow"
        )
        raise settings.error(field, expected, options)
    return settings.named(path)
