"""Checkpoints of OpenNMT-tf 2.

The folder is OpenNMT-tf's model_dir: checkpoints, `avg/` with their average,
and model_description.py. It also contains the YAML file that trained the model,
and the vocabularies and SentencePiece models named there.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert import weight_table
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.settings_file import SettingsFile, find_file
from keras_transformer.convert.tensor_files import LazyTensors, explain_damage
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.files import read_yaml
from keras_transformer.support.startup import require_tensorflow
from keras_transformer.text import Tokenizer, Vocabulary
from keras_transformer.text.vocabulary import load_processor

_YAML = (".yml", ".yaml")

_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_SOURCE = "model/examples_inputter/features_inputter/embedding"
_TARGET = "model/examples_inputter/labels_inputter/embedding"
_OUTPUT = "model/decoder/output_layer"
_ENCODER = "model/encoder/layers/"
_DECODER = "model/decoder/layers/"
_INNER = "0/ffn/layer/inner/kernel"
_QUERY_BIAS = "0/self_attention/layer/linear_queries/bias"

# Number of heads of the models in the catalog: it follows from no shape.
_HEADS = {
    "TransformerTiny": 2,
    "TransformerBase": 8,
    "TransformerBaseSharedEmbeddings": 8,
    "TransformerBig": 16,
    "TransformerBigSharedEmbeddings": 16,
    "ScalingNmtEnDe": 16,
    "ScalingNmtEnFr": 16,
}
# Unsupported search settings, with their neutral values.
_SEARCH_DEFAULTS = {
    "sampling_topk": 1,
    "sampling_temperature": 1,
    "decoding_noise": False,
    "replace_unknown_target": False,
}
# Supported arguments in a description.
_NUM_HEADS = {str(n): n for n in range(1, 129)}
_ACTIVATIONS = {f"tf.nn.{x}": x for x in ("relu", "gelu", "swish")}
_ACTIVATIONS["tf.nn.silu"] = "swish"
# The ids 0, 1 and 2 of a vocabulary, and the last id, which no file contains.
_SPECIAL = SpecialPieces(pad="<blank>", unk="<unk>", bos="<s>", eos="</s>")
# Supported options of tokenizations. Sampling affects training only, and
# SentencePiece always has spacers.
_PLAIN = {"mode", "sp_model_path", "sp_nbest_size", "sp_alpha"}
_PLAIN |= {"spacer_annotate"}


def read_opennmt_tf(folder: Path) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    file = _newest(folder)
    tensors, shapes = _read_checkpoint(file)
    _check_architecture(file, shapes)
    data, params = _read_settings(folder)
    description = _read_description(folder, shapes[_SOURCE][1])
    tokenizer = _read_tokenizer(folder, data, description.ends_sources)
    config = _read_config(file, shapes, tokenizer, description)
    return ForeignModel(
        system=f"OpenNMT-tf 2, {file.name}, {description.num_heads} heads "
        f"({description.reason})",
        config=config,
        tokenizer=tokenizer,
        search=_read_search(params),
        file=file,
        tensors=tensors,
        names=weight_table.weight_names(config, "opennmt_tf"),
        convert=_convert,
        notes=params.notes(_SEARCH_DEFAULTS),
    )


def _newest(folder: Path) -> Path:
    """Returns the prefix of the last checkpoint, preferring averages."""
    checkpoints = [*folder.glob("ckpt*.index")]
    checkpoints += folder.glob("avg/ckpt*.index")

    def key(index: Path) -> tuple[int, bool]:
        step = re.sub(r"\D", "", index.stem)
        return int(step or 0), index.parent != folder

    return max(checkpoints, key=key).with_suffix("")


def _read_checkpoint(file: Path) -> tuple[LazyTensors, dict[str, list[int]]]:
    """Returns the variables of the model by name, and their shapes."""
    require_tensorflow("Checkpoints of OpenNMT-tf")
    import tensorflow as tf

    with explain_damage(file):
        reader = tf.train.load_checkpoint(str(file))
        shapes = {
            name.removesuffix(_SUFFIX): shape
            for name, shape in reader.get_variable_to_shape_map().items()
            if name.startswith("model/") and ".OPTIMIZER_SLOT/" not in name
        }
    get_tensor = explain_damage(file)(reader.get_tensor)
    readers = {x: functools.partial(get_tensor, x + _SUFFIX) for x in shapes}
    return LazyTensors(readers), shapes


def _check_architecture(file: Path, shapes: Mapping[str, Any]) -> None:
    needed = [_SOURCE, _ENCODER + _INNER, _DECODER + _INNER]
    missing = [f"no {name}" for name in needed if name not in shapes]
    if missing:
        raise InputError(
            f"{file} must contain a Transformer of OpenNMT-tf 2 with one "
            f"source, such as TransformerBase. Received: {', '.join(missing)}"
        )


def _read_config(
    file: Path,
    shapes: Mapping[str, list[int]],
    tokenizer: Tokenizer,
    description: "_Description",
) -> TransformerConfig:
    is_shared = _TARGET not in shapes
    is_tied = f"{_OUTPUT}/kernel" not in shapes
    with name_file(file):
        return TransformerConfig(
            **tokenizer.config_values(),
            num_layers=_count_layers(shapes, _ENCODER),
            decoder_layers=_count_layers(shapes, _DECODER),
            d_model=shapes[_SOURCE][1],
            d_ff=shapes[_ENCODER + _INNER][-1],
            num_heads=description.num_heads,
            max_length=512,  # unlimited there
            activation=description.activation,
            norm_first="model/encoder/layer_norm/gamma" in shapes,
            layer_norm_epsilon=1e-3,
            attention_bias=_ENCODER + _QUERY_BIAS in shapes,
            output_bias=f"{_OUTPUT}/bias" in shapes,
            tied_embeddings=weight_table.TIED_EMBEDDINGS[is_shared, is_tied],
            position_layout="halves",
            position_endpoint=True,
            position_offset=1,
        )


def _count_layers(shapes: Mapping[str, list[int]], start: str) -> int:
    return len({x.split("/")[3] for x in shapes if x.startswith(start)})


def _convert(name: str, value: np.ndarray) -> np.ndarray:
    # A separate output layer is a kernel.
    return value.T if name == "output_embedding/embeddings" else value


class _Description(NamedTuple):
    """Properties that do not follow from the shapes of the weights."""

    num_heads: int
    reason: str  # the origin of `num_heads`
    activation: str
    ends_sources: bool


def _read_description(folder: Path, d_model: int) -> _Description:
    """Searches the text of model_description.py, without executing it."""
    path = folder / "model_description.py"
    text = ""
    heads = 0
    reason = "no file"
    if path.exists():
        text = path.read_bytes().decode(errors="replace")
        reason = path.name
    elif d_model >= 128:
        heads = d_model // 64
        reason = "assuming 64 dimensions each"
    words = set(re.findall(r"\w+", text))
    if "Transformer" not in words:
        heads = max([_HEADS.get(word, 0) for word in words], default=heads)
    heads = _argument(path, text, "num_heads", _NUM_HEADS, heads)
    activation = _argument(path, text, "ffn_activation", _ACTIVATIONS, "relu")
    if not heads or d_model % heads:
        raise InputError(
            f"{path} must contain a number of heads that divides the width "
            f"{d_model}, as in `Transformer(num_heads=8)`. Received: "
            f"{heads or 'none'} ({reason})"
        )
    # `--auto_config` trains these with end tokens.
    ends_sources = not words.isdisjoint({"ScalingNmtEnDe", "ScalingNmtEnFr"})
    return _Description(heads, reason, activation, ends_sources)


def _argument(
    path: Path, text: str, name: str, choices: Mapping[str, Any], default: Any
) -> Any:
    """Finds an argument in the text of a description."""
    values = set(re.findall(rf"\b{name}\s*=\s*([\w.]+)", text))
    if not values:
        return default
    if len(values) == 1 and values <= choices.keys():
        return choices[values.pop()]
    raise InputError(
        f"{path} must contain {name} once, as one of "
        f"{', '.join(list(choices)[:8])}. Received: {', '.join(sorted(values))}"
    )


def _read_settings(folder: Path) -> tuple[SettingsFile, SettingsFile]:
    """Returns the sections `data` and `params` of the settings."""
    paths = sorted(x for x in folder.iterdir() if x.suffix in _YAML)
    sections = []
    for path in paths:
        values = read_yaml(path.read_bytes(), path)
        if isinstance(values, dict) and "data" in values:
            data = SettingsFile(f"{path}, data,", values["data"])
            params = values.get("params") or {}
            sections.append((data, SettingsFile(f"{path}, params,", params)))
    if len(sections) != 1:
        names = ", ".join(path.name for path in paths)
        raise InputError(
            f"{folder} must contain one YAML file with the training's settings "
            f"(a section `data`). Received: {names or 'no YAML file'}"
        )
    return sections[0]


def _read_search(params: SettingsFile) -> BeamSearch:
    """Returns the search settings, with the defaults of `--auto_config`."""
    params.check("coverage_penalty", [0])
    params.check("minimum_decoding_length", [0])
    return params.make(
        BeamSearch,
        beam_size=params.get("beam_width", int, 4),
        alpha=params.get("length_penalty", float, 0.0),
        length_factor=0.0,
        extra_length=params.get("maximum_decoding_length", int, 250),
    )


def _read_tokenizer(
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
    end = _SPECIAL.eos if source_marks.get("end") else _SPECIAL.pad
    with name_file(f"The vocabulary in {folder}"):
        return make_tokenizer(
            _read_side(folder, data, "source", _SPECIAL._replace(eos=end)),
            _read_side(folder, data, "target", _SPECIAL),
        )


def _field(data: SettingsFile, side: str, name: str) -> str:
    """Returns the name of a side's field, or of the field for both sides."""
    field = f"{side}_{name}"
    return name if name in data.values and field not in data.values else field


def _read_side(
    folder: Path, data: SettingsFile, side: str, special: SpecialPieces
) -> Vocabulary:
    name = data.get(_field(data, side, "vocabulary"), str)
    # One token per line. Not `splitlines`: a piece may contain other line ends.
    content = find_file(folder, name).read_bytes().decode()
    lines = content.removesuffix("\n").split("\n")
    tokens = [line.removesuffix("\r") for line in lines]
    table = {token: i for i, token in enumerate([*tokens, special.unk])}
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
    return vocabulary_with_ids(model, table, special)


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
    options = tokenization
    if isinstance(options, dict) and options.get("type") == "OpenNMTTokenizer":
        options = options.get("params")
    match options:
        case {"type": "SentencePieceTokenizer", "params": {"model": str(path)}}:
            return find_file(folder, path)
        case {"mode": "none", "sp_model_path": str(path)}:
            used = {name for name, value in options.items() if value}
            if used <= _PLAIN:
                return find_file(folder, path)
    raise InputError(
        f"{data.name} must have {field!r} with SentencePiece alone: a "
        "SentencePieceTokenizer with a model, or an OpenNMTTokenizer with "
        f"mode none and sp_model_path. Received: {tokenization!r:.300}"
    )
