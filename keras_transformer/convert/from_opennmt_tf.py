"""Checkpoints of OpenNMT-tf 2.

The folder is OpenNMT-tf's model_dir: checkpoints, `avg/` with their average,
and model_description.py. Beside them are the settings that trained the model,
and the vocabularies and SentencePiece models that these name.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert.foreign_model import ForeignModel
from keras_transformer.convert.opennmt_settings import (
    END,
    FIRST,
    PAD,
    START,
    Settings,
    read_search,
    read_vocabulary,
)
from keras_transformer.convert.tensor_files import inside
from keras_transformer.convert.weight_table import weight_names
from keras_transformer.support.errors import InputError

MARKS = ("ckpt*.index", "avg/ckpt*.index")

_SOURCE = "model/examples_inputter/features_inputter/embedding"
_TARGET = "model/examples_inputter/labels_inputter/embedding"
_OUTPUT = "model/decoder/output_layer"
_LAYER = "model/{}/layers/0/"
_INNER = _LAYER + "ffn/layer/inner/kernel"
# Parts of the names of what only other architectures have.
_FOREIGN = re.compile(
    r"relative_position|position_encoder|/attention/[1-9]|/inputters/"
    r"|/encoders/"
)

# Heads are in no shape. The models of the catalog have these; those of a
# `Transformer` must be among its arguments.
_HEADS = {
    "TransformerBase": 8,
    "TransformerBaseSharedEmbeddings": 8,
    "TransformerBig": 16,
    "TransformerBigSharedEmbeddings": 16,
    "TransformerTiny": 2,
    "ScalingNmtEnDe": 16,
    "ScalingNmtEnFr": 16,
}
_ACTIVATIONS = {
    "tf.nn.relu": "relu",
    "tf.nn.gelu": "gelu",
    "tf.nn.swish": "swish",
    "tf.nn.silu": "swish",
}


def read(folder: Path, target_language: str | None) -> ForeignModel:
    """Reads a folder; see `keras_transformer.convert.read`."""
    if target_language is not None:
        raise InputError(
            "A model of OpenNMT-tf has one target language, so that the "
            f"target language must not be given. Received: {target_language}"
        )
    tensors = _Tensors(_newest(folder))
    _check_architecture(tensors)
    description = _description(folder)
    config, heads = _config(tensors, description)
    settings = Settings.open(folder)
    return ForeignModel(
        system=f"OpenNMT-tf 2, {tensors.file.name}, {heads}",
        config=config,
        vocabulary=read_vocabulary(settings, config, description.ends_sources),
        search=read_search(settings),
        languages=(None, None),
        file=tensors.file,
        tensors=tensors,
        names=weight_names(config, "opennmt_tf"),
        convert=_converted,
    )


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
    *_, index = max(found)
    for path in index.parent.glob(f"{index.stem}.*"):
        inside(folder, path.relative_to(folder).as_posix())
    return index.with_suffix("")


class _Tensors(Mapping):
    """The variables of the model by name, each read when it is needed."""

    _SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

    def __init__(self, file: Path) -> None:
        import tensorflow as tf

        self.file = file
        with self._explained():
            self._reader = tf.train.load_checkpoint(str(file))
        self.shapes = {
            name.removesuffix(self._SUFFIX): shape
            for name, shape in self._reader.get_variable_to_shape_map().items()
            # The rest is the optimizer's.
            if name.startswith("model/") and ".OPTIMIZER_SLOT/" not in name
        }

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        import tensorflow as tf

        try:
            yield
        # Of data that end early, TensorFlow says IndexError.
        except (
            tf.errors.OpError,
            IndexError,
            RuntimeError,
            ValueError,
        ) as error:
            raise InputError(
                f"{self.file} must be a complete checkpoint of TensorFlow. "
                f"Received: {error}"
            ) from error

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.shapes:
            raise KeyError(name)
        with self._explained():
            return self._reader.get_tensor(name + self._SUFFIX)

    def __contains__(self, name: object) -> bool:
        return name in self.shapes  # without reading it

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


def _check_architecture(tensors: _Tensors) -> None:
    needed = _SOURCE, _INNER.format("encoder"), _INNER.format("decoder")
    missing = [f"no {name}" for name in needed if name not in tensors]
    foreign = sorted(name for name in tensors if _FOREIGN.search(name))
    if missing and not foreign:
        foreign = sorted(tensors)
    if foreign or missing:
        raise InputError(
            f"{tensors.file} must have a Transformer of OpenNMT-tf 2 with one "
            "source and sinusoidal positions, such as TransformerBase. Others "
            "cannot be imported. Received: "
            f"{', '.join([*missing, *foreign[:3]])}"
        )


def _converted(name: str, value: np.ndarray) -> np.ndarray:
    # An output layer of its own is a kernel.
    return value.T if name == "output_embedding/embeddings" else value


class _Description(NamedTuple):
    """What model_description.py says that no shape does."""

    num_heads: int | None = None
    activation: str = "relu"
    ends_sources: bool = False


def _description(folder: Path) -> _Description:
    """Reads model_description.py, which is never executed."""
    path = folder / "model_description.py"
    if not path.exists():
        return _Description()
    text = inside(folder, path.name).read_bytes().decode(errors="replace")
    words = set(re.findall(r"\w+", text))
    heads = [_HEADS[word] for word in words & _HEADS.keys()]
    if "Transformer" in words:
        heads = []

    def argument(name: str, choices: Mapping[str, Any], default: Any) -> Any:
        values = set(re.findall(rf"\b{name}\s*=\s*([\w.]+)", text))
        if not values:
            return default
        if len(values) == 1 and values <= choices.keys():
            return choices[values.pop()]
        raise InputError(
            f"{path} must have {name} once, as one of "
            f"{', '.join([*choices][:8])}. Received: "
            f"{', '.join(sorted(values))}"
        )

    positions = ("", "layers.", "onmt.layers.", "opennmt.layers.")
    positions = [f"{x}SinusoidalPositionEncoder" for x in positions]
    argument("position_encoder_class", dict.fromkeys(positions), None)
    return _Description(
        argument(
            "num_heads",
            {str(n): n for n in range(1, 129)},
            max(heads, default=0),
        ),
        argument("ffn_activation", _ACTIVATIONS, "relu"),
        # So `--auto_config` trains them.
        bool(words & {"ScalingNmtEnDe", "ScalingNmtEnFr"}),
    )


def _config(
    tensors: _Tensors, description: _Description
) -> tuple[TransformerConfig, str]:
    """Returns the architecture, and its heads with where they are from."""
    shapes = tensors.shapes
    source_rows, d_model = shapes[_SOURCE]
    rows = shapes.get(_TARGET, shapes[_SOURCE])[0]
    layers = {
        stack: len({x.split("/")[3] for x in shapes if x.startswith(start)})
        for stack in ("encoder", "decoder")
        if (start := f"model/{stack}/layers/")
    }
    has_output = f"{_OUTPUT}/kernel" in shapes
    if _TARGET in shapes:
        tied = "none" if has_output else "target"
    else:
        tied = "inputs" if has_output else "all"
    heads, reason = description.num_heads, "model_description.py"
    if heads is None:
        heads, reason = d_model // 64, "64 wide, since no file says otherwise"
        if d_model < 128:
            heads, reason = 0, "no file, and narrow models have others"
    if not heads or d_model % heads:
        raise InputError(
            f"{tensors.file} must have heads that divide its width {d_model}. "
            f"Received: {heads or 'none'} ({reason}). Write "
            "`Transformer(num_heads=8)`, with their number, into "
            "model_description.py in the folder"
        )
    attention = _LAYER.format("encoder") + "self_attention/layer/linear_queries"
    config = TransformerConfig(
        vocab_size=rows,
        source_vocab_size=None if source_rows == rows else source_rows,
        num_layers=layers["encoder"],
        decoder_layers=(
            None if len(set(layers.values())) == 1 else layers["decoder"]
        ),
        d_model=d_model,
        d_ff=shapes[_INNER.format("encoder")][-1],
        num_heads=heads,
        max_length=512,  # of a computed table: no file says it
        pad_id=FIRST.index(PAD),
        bos_id=FIRST.index(START),
        eos_id=FIRST.index(END),
        activation=description.activation,
        norm_first="model/encoder/layer_norm/gamma" in shapes,
        layer_norm_epsilon=1e-3,
        attention_bias=f"{attention}/bias" in shapes,
        output_bias=f"{_OUTPUT}/bias" in shapes,
        tied_embeddings=tied,
        position_layout="halves",
        position_endpoint=True,
        position_offset=1,
    )
    return config, f"{heads} heads ({reason})"
