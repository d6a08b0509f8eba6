"""Checkpoints of OpenNMT-tf 2.

The folder is OpenNMT-tf's model_dir: checkpoints, `avg/` with their average
and model_description.py. Beside them must be the configuration that trained
the model, one YAML file with a section `data`, and the vocabularies and
SentencePiece models that it names: paths that were true elsewhere are looked
up in the folder by the name of the file.
"""

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert.model import ForeignModel
from keras_transformer.convert.names import weight_names
from keras_transformer.decoding.search import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.pair import LookupVocabulary, SpecialTokens
from keras_transformer.text.vocabulary import load_processor

MARKS = ("ckpt*.index", "avg/ckpt*.index")

_SPECIAL = SpecialTokens(
    pad_token="<blank>", decoder_start_token="<s>", source_eos_token="<blank>"
)
_SPECIAL_IDS = ("<blank>", "<s>", "</s>")

# Heads are in no shape. The models of OpenNMT-tf's catalog have these, and
# `Transformer`, of which others are made, has 8 unless it is told.
_HEADS = {
    "Transformer": 8,
    "TransformerBase": 8,
    "TransformerBaseSharedEmbeddings": 8,
    "TransformerBig": 16,
    "TransformerBigSharedEmbeddings": 16,
    "TransformerTiny": 2,
    "ScalingNmtEnDe": 16,
    "ScalingNmtEnFr": 16,
}
_POSITIONS = {
    f"{module}SinusoidalPositionEncoder": None
    for module in ("", "layers.", "onmt.layers.", "opennmt.layers.")
}
_ACTIVATIONS = {
    "tf.nn.relu": "relu",
    "tf.nn.gelu": "gelu",
    "tf.nn.swish": "swish",
    "tf.nn.silu": "swish",
}
# What changes no piece when texts are split: the splitting is sampled only
# in training, and pieces of SentencePiece have spacers anyway.
_PLAIN = {
    "mode",
    "sp_model_path",
    "sp_nbest_size",
    "sp_alpha",
    "spacer_annotate",
}


def read(folder: Path, target_language: str | None = None) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    if target_language is not None:
        raise InputError(
            "Models of OpenNMT-tf have one target language, so that "
            f"target_language must be None. Received: {target_language}"
        )
    checkpoint = _newest(folder)
    tensors = _Tensors(checkpoint)
    _check_architecture(tensors)
    file, settings = _settings(folder)
    data = _section(settings, "data", file)
    described = _described(folder)
    config, heads = _config(tensors, described)
    return ForeignModel(
        system=f"OpenNMT-tf 2, checkpoint {checkpoint.name}, {heads}",
        config=config,
        vocabulary=_vocabulary(
            folder, file, data, config, described.ends_sources
        ),
        search=_search(_section(settings, "params", file), file),
        languages=(None, None),
        file=checkpoint,
        tensors=tensors,
        names=weight_names(config, "opennmt_tf"),
        convert=_converted,
    )


# === Weights ===


def _newest(folder: Path) -> Path:
    """Returns the prefix of the last checkpoint; of two, the average."""
    found = [
        (int(step[1] or 0), place != folder, index)
        for place in (folder, folder / "avg")
        for index in place.glob("ckpt*.index")
        if (step := re.fullmatch(r"ckpt-?(\d*)", index.stem))
    ]
    if not found:
        raise InputError(
            f"{folder} must have a checkpoint, such as ckpt-100.index with "
            "ckpt-100.data-00000-of-00001. Received: none"
        )
    index = max(found)[-1]
    for path in index.parent.glob(f"{index.stem}.*"):
        _inside(folder, path.relative_to(folder).as_posix())
    return index.with_suffix("")


class _Tensors(Mapping):
    """The variables of the model by name, each read when it is needed."""

    _SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

    def __init__(self, checkpoint: Path) -> None:
        import tensorflow as tf

        self._checkpoint = checkpoint
        with self._explained():
            self._reader = tf.train.load_checkpoint(str(checkpoint))
        self.shapes = {
            name.removesuffix(self._SUFFIX): shape
            for name, shape in self._reader.get_variable_to_shape_map().items()
            # Others are the optimizer's.
            if name.startswith("model/") and ".OPTIMIZER_SLOT/" not in name
        }

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        import tensorflow as tf

        try:
            yield
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            raise InputError(
                f"{self._checkpoint} must be a complete checkpoint of "
                f"TensorFlow. Received: {error}"
            ) from error

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.shapes:
            raise KeyError(name)
        with self._explained():
            return self._reader.get_tensor(name + self._SUFFIX)

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __repr__(self) -> str:
        return str(self._checkpoint)

    def layers(self, stack: str) -> int:
        """Returns how many layers an encoder or a decoder has."""
        start = f"model/{stack}/layers/"
        return len({x.split("/")[3] for x in self if x.startswith(start)})


_SOURCE = "model/examples_inputter/features_inputter/embedding"
_TARGET = "model/examples_inputter/labels_inputter/embedding"
_INNER = "model/{}/layers/0/ffn/layer/inner/kernel"
_QUERIES = "model/encoder/layers/0/self_attention/layer/linear_queries"


def _check_architecture(tensors: _Tensors) -> None:
    needed = [_SOURCE, _INNER.format("encoder"), _INNER.format("decoder")]
    found = [f"no {name}" for name in needed if name not in tensors]
    others = r"(relative_position|position_encoder|/attention/[1-9]|inputters/)"
    foreign = [name for name in tensors if re.search(others, name)]
    if not found + foreign:
        return
    known = r"model/(encoder|decoder)/(layers|layer_norm|output_layer)/"
    foreign += [name for name in tensors if not re.match(known, name)]
    raise InputError(
        f"{tensors} must have a Transformer of OpenNMT-tf 2 with one source "
        "and sinusoidal positions, such as TransformerBase: relative or "
        "learned positions, recurrent and other layers cannot be imported. "
        f"Received: {', '.join(dict.fromkeys([*found, *sorted(foreign)[:3]]))}"
    )


def _converted(name: str, value: np.ndarray) -> np.ndarray:
    # An output layer of its own has a row per dimension.
    return value.T if name == "output_embedding/embeddings" else value


class _Description(NamedTuple):
    """What model_description.py says that no shape does."""

    num_heads: int | None = None
    activation: str = "relu"
    ends_sources: bool = False


def _config(
    tensors: _Tensors, described: _Description
) -> tuple[TransformerConfig, str]:
    """Returns the architecture, and the heads with where they are said."""
    shapes = tensors.shapes
    rows, d_model = shapes[_SOURCE]
    output = "model/decoder/output_layer"
    has_target, has_output = _TARGET in shapes, f"{output}/kernel" in shapes
    tied = {
        (False, False): "all",
        (False, True): "inputs",
        (True, False): "target",
        (True, True): "none",
    }[has_target, has_output]
    vocab_size = shapes[_TARGET][0] if has_target else rows
    layers, decoder_layers = (
        tensors.layers("encoder"),
        tensors.layers("decoder"),
    )
    heads, said = described.num_heads, "model_description.py"
    if heads is None:
        heads, said = d_model // 64, "64 wide, as no file says otherwise"
    if not heads or d_model % heads:
        raise InputError(
            f"{tensors} must have heads that divide the width {d_model}. "
            f"Received: {heads} ({said}). Write model_description.py with "
            "`Transformer(num_heads=...)` into the folder"
        )
    config = TransformerConfig(
        vocab_size=vocab_size,
        source_vocab_size=None if rows == vocab_size else rows,
        num_layers=layers,
        decoder_layers=None if decoder_layers == layers else decoder_layers,
        d_model=d_model,
        d_ff=shapes[_INNER.format("encoder")][1],
        num_heads=heads,
        # Positions are computed, so that no file has a maximum.
        max_length=512,
        pad_id=_SPECIAL_IDS.index("<blank>"),
        bos_id=_SPECIAL_IDS.index("<s>"),
        eos_id=_SPECIAL_IDS.index("</s>"),
        activation=described.activation,
        norm_first="model/encoder/layer_norm/gamma" in shapes,
        layer_norm_epsilon=1e-3,
        attention_bias=f"{_QUERIES}/bias" in shapes,
        output_bias=f"{output}/bias" in shapes,
        tied_embeddings=tied,
        position_layout="halves",
        position_endpoint=True,
        position_offset=1,
    )
    return config, f"{heads} heads ({said})"


def _described(folder: Path) -> _Description:
    """Reads model_description.py, which is never executed."""
    path = folder / "model_description.py"
    if not path.exists():
        return _Description()
    try:
        tree = ast.parse(_inside(folder, path.name).read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} must be Python. Received: {error}") from error
    arguments: dict[str | None, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword):
            value = ast.unparse(node.value)
            arguments.setdefault(node.arg, set()).add(value)

    def argument(name: str, choices: Mapping[str, Any], default: Any) -> Any:
        values = arguments.get(name, set())
        found = {choices.get(value) for value in values} or {default}
        if len(found) == 1 and (values <= choices.keys()):
            return found.pop()
        raise InputError(
            f"{path}: {name} must be written out once, as "
            f"{' or '.join([*choices][:4])}. Received: "
            f"{', '.join(sorted(values))}"
        )

    words = set(re.findall(r"\w+", ast.unparse(tree)))
    heads = max((_HEADS[word] for word in words & _HEADS.keys()), default=None)
    argument("position_encoder_class", _POSITIONS, None)
    return _Description(
        argument("num_heads", {str(n): n for n in range(1, 257)}, heads),
        argument("ffn_activation", _ACTIVATIONS, "relu"),
        # `--auto_config` of these says so.
        bool(words & {"ScalingNmtEnDe", "ScalingNmtEnFr"}),
    )


# === Settings ===


def _inside(folder: Path, name: str) -> Path:
    """Returns a file of the folder that is no link out of it."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{path} must be a file in the folder. Received: a link to "
            f"{path.resolve()}. Copy the file into the folder"
        )
    if not path.is_file():
        raise InputError(f"{path} must be a file. Received: no such file")
    return path


def _read_yaml(path: Path) -> Any:
    with explain_missing_packages():
        import yaml
    try:
        return yaml.safe_load(path.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path} must be YAML. Received: {error}") from error


def _settings(folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """Returns the file that has the settings, and the settings."""
    paths = sorted([*folder.glob("*.yml"), *folder.glob("*.yaml")])
    found = {path: _read_yaml(_inside(folder, path.name)) for path in paths}
    found = {
        path: settings
        for path, settings in found.items()
        if isinstance(settings, dict) and "data" in settings
    }
    if len(found) != 1:
        names = ", ".join(path.name for path in found or paths)
        raise InputError(
            f"{folder} must have one YAML file with the settings that trained "
            "the model, of which the section data names source_vocabulary, "
            "target_vocabulary, source_tokenization and target_tokenization. "
            f"Received: {names or 'no YAML file'}"
        )
    return found.popitem()


def _section(
    settings: Mapping[str, Any], name: str, file: Path
) -> Mapping[str, Any]:
    section = settings.get(name)
    if not isinstance(section, dict | None):
        raise InputError(
            f"{file}: {name} must be a mapping. Received: {section!r}"
        )
    return section or {}


def _search(params: Mapping[str, Any], file: Path) -> BeamSearch:
    """Returns the search of the files; by default that of `--auto_config`."""
    for name in ("coverage_penalty", "minimum_decoding_length"):
        if params.get(name):
            raise InputError(
                f"{file}: params.{name} must be 0, as this search has none. "
                f"Received: {params[name]!r}. Remove it to import the model"
            )
    try:
        return BeamSearch(
            beam_size=params.get("beam_width", 4),
            alpha=params.get("length_penalty", 0.0),
            length_factor=0.0,
            extra_length=params.get("maximum_decoding_length", 250),
        )
    except InputError as error:
        raise InputError(
            f"{file}: params must have a beam_width, a length_penalty and a "
            f"maximum_decoding_length for BeamSearch. {error}"
        ) from error


# === Vocabularies ===


def _vocabulary(
    folder: Path,
    file: Path,
    data: Mapping[str, Any],
    config: TransformerConfig,
    ends_sources: bool,
) -> LookupVocabulary:
    def of(side: str, name: str, default: Any = None) -> Any:
        # As OpenNMT-tf reads its settings.
        values = data.get(f"{side}_{name}"), data.get(name), default
        return next((value for value in values if value is not None), None)

    controls = of("source", "sequence_controls", {"end": ends_sources})
    special = _SPECIAL
    try:
        if controls.get("start"):
            raise ValueError("start of sources")
        if controls.get("end"):
            special = special._replace(source_eos_token=special.eos_token)
        target = of("target", "sequence_controls", {"start": True, "end": True})
        if not (target.get("start") and target.get("end")):
            raise ValueError("no start or end of targets")
    except (AttributeError, ValueError) as error:
        raise InputError(
            f"{file}: data must have sequence_controls that mark the start "
            "and the end of targets, but no start of sources. "
            f"Received: {error}"
        ) from error
    sides = {}
    for side, rows in dict(
        source=config.source_vocab_size or config.vocab_size,
        target=config.vocab_size,
    ).items():
        name = of(side, "vocabulary")
        if not isinstance(name, str):
            raise InputError(
                f"{file}: data.{side}_vocabulary must name a file. "
                f"Received: {name!r}"
            )
        table = _table(_inside(folder, PurePosixPath(name).name), rows)
        model = _pieces_model(folder, of(side, "tokenization"), file, side)
        _check_pieces(model, table)
        sides[side] = model.read_bytes(), table
    source = LookupVocabulary(*sides["source"], special=special)
    return LookupVocabulary(*sides["target"], source, special)


def _table(path: Path, rows: int) -> dict[str, int]:
    """Returns the ids of a text file, with `<unk>` as the last."""
    try:
        # Pieces may have what else ends lines.
        lines = path.read_text("utf-8", newline="").split("\n")
    except ValueError as error:
        raise InputError(f"{path} must be UTF-8. Received: {error}") from error
    tokens = [line.removesuffix("\r") for line in lines]
    if not tokens[-1]:
        tokens.pop()
    table = {token: i for i, token in enumerate([*tokens, _SPECIAL.unk_token])}
    problem = None
    if (*tokens[:3],) != _SPECIAL_IDS:
        problem = f"{tokens[:3]} at the start"
    elif len(table) != len(tokens) + 1:
        twice = next(x for i, x in enumerate(tokens) if table[x] != i)
        problem = f"{twice!r} more than once, or <unk>"
    elif len(table) != rows:
        problem = f"{len(tokens)} tokens"
    if problem:
        raise InputError(
            f"{path} must have the {rows - 1} tokens of the checkpoint's "
            "embedding but <unk>, one a line: first <blank>, <s> and </s>. "
            f"Received: {problem}"
        )
    return table


def _pieces_model(
    folder: Path, tokenization: Any, file: Path, side: str
) -> Path:
    """Returns the SentencePiece model that splits the texts of one side."""
    if tokenization is None:
        # Training read text that was split before.
        paths = sorted([*folder.glob("*.model"), *folder.glob("*.spm")])
        if len(paths) == 1:
            return _inside(folder, paths[0].name)
        raise InputError(
            f"{file}: data must have {side}_tokenization, or the folder one "
            "SentencePiece model (*.model or *.spm) that split the texts "
            f"before. Received: {', '.join(path.name for path in paths)}"
        )
    if isinstance(tokenization, str):
        name = PurePosixPath(tokenization).name
        tokenization = _read_yaml(_inside(folder, name))
    options = tokenization if isinstance(tokenization, dict) else {}
    kind = options.get("type", "OpenNMTTokenizer")
    if "type" in options:
        options = options.get("params") or {}
    model = None
    if kind == "SentencePieceTokenizer":
        model = options.get("model")
    elif kind == "OpenNMTTokenizer" and options.get("mode") == "none":
        if {name for name, value in options.items() if value} <= _PLAIN:
            model = options.get("sp_model_path")
    if not isinstance(model, str):
        raise InputError(
            f"{file}: data.{side}_tokenization must be a SentencePiece model "
            "alone: type SentencePieceTokenizer with a model, or type "
            "OpenNMTTokenizer with mode none and sp_model_path. Other "
            "tokenizations (Moses, BPE, pyonmttok with case_markup or "
            "joiners) cannot run in a graph of TensorFlow. "
            f"Received: {tokenization!r}"
        )
    return _inside(folder, PurePosixPath(model).name)


def _check_pieces(model: Path, table: Mapping[str, int]) -> None:
    """Checks that a vocabulary is one of a SentencePiece model."""
    try:
        processor = load_processor(model.read_bytes())
    except InputError as error:
        raise InputError(f"{model} cannot be used. {error}") from error
    unknown = processor.unk_id()
    known = sum(processor.PieceToId(token) != unknown for token in table)
    # Of a joint vocabulary, either model may know only half.
    if known < len(table) / 4:
        raise InputError(
            f"{model} must be the model whose pieces the vocabulary has. "
            f"Received: one that knows {known} of its {len(table)} tokens"
        )
