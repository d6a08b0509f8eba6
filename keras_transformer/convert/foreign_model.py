"""A model of another system, and how its weights become ours."""

import dataclasses
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import quiet_tensorflow_import
from keras_transformer.text import Vocabulary

if TYPE_CHECKING:
    from keras_transformer.model import Transformer

# What is added to the logit of what a model never writes. With logits from -20
# to 20 its probability stays below e^-60, and -100 is exact in every dtype. A
# loss with label smoothing e grows by 100 e / (V - 1) per such token; -1e4
# would make that a hundred times as much.
NEVER = -1e2
# Fields of a configuration that say nothing of the kind of model.
_NOT_DIFFERENCES = {
    *("vocab_size", "source_vocab_size", "pad_id", "bos_id", "eos_id"),
    *("num_layers", "d_model", "d_ff", "num_heads", "d_k", "d_v"),
    *("decoder_layers", "decoder_d_ff", "decoder_heads"),
    *("dropout", "max_length"),
}


@dataclasses.dataclass(frozen=True)
class ForeignModel:
    """A model of another system, whose weights are read when they are needed.

    Args:
        system: What the folder is, in words.
        config: The architecture.
        vocabulary: Its texts and ids.
        search: The search that its files ask for.
        languages: Codes of source and target; None where no file says it.
        file: Where its weights are.
        tensors: Its weights by their names there.
        names: These names by ours.
        convert: Returns a weight in our layout, given our name and the weight
            as it is there. Default: as it is.
        unused: Names of tensors that are no weights.
        notes: What its files say and nothing here does, such as a setting of
            another search.
    """

    system: str
    config: TransformerConfig
    vocabulary: Vocabulary
    search: BeamSearch
    languages: tuple[str | None, str | None]
    file: Path
    tensors: Mapping[str, Any]
    names: Mapping[str, str]
    convert: Callable[[str, np.ndarray], np.ndarray] = lambda name, x: x
    unused: Collection[str] = ()
    notes: Sequence[str] = ()

    def load_model(self, dtype: str | None = None) -> "Transformer":
        """Returns the model with its weights, one of which is read at a time.

        Raises:
            InputError: If tensors are missing, left over or of another shape;
                the message lists all of them.
        """
        # What is refused before needs no TensorFlow.
        with quiet_tensorflow_import():
            from keras_transformer.model import Transformer
            from keras_transformer.weights import assign

        model = Transformer(self.config, dtype=dtype)
        try:
            assign(model, _ConvertedTensors(self), self.names)
        except InputError as error:
            raise InputError(
                f"{self.file} must have the weights of the configuration "
                "beside it. Shapes of kernels are [inputs, outputs] here. "
                f"{error}"
            ) from error
        return model

    def differences(self) -> dict[str, Any]:
        """Returns the values of the configuration that differ from the paper's.

        Sizes, dropout and special ids are left out.
        """
        return {
            field.name: value
            for field in dataclasses.fields(self.config)
            if field.name not in _NOT_DIFFERENCES
            and (value := getattr(self.config, field.name)) != field.default
        }


class _ConvertedTensors(Mapping):
    """The weights by our names, and what is left over by its own name."""

    def __init__(self, model: ForeignModel) -> None:
        self._model = model
        used = {*model.names.values(), *model.unused}
        self._keys = [
            name
            for name, theirs in model.names.items()
            if theirs in model.tensors
        ] + [name for name in model.tensors if name not in used]

    def __getitem__(self, name: str) -> Any:
        model = self._model
        if name not in model.names:
            return model.tensors[name]
        return model.convert(name, model.tensors[model.names[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
