"""A model of another system, and how its weights become ours."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.search import BeamSearch
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.text import Vocabulary
from keras_transformer.weights import named_weights

# The logit of what a model never writes: its probability is 0 in every dtype,
# and a loss with label smoothing stays finite.
NEVER = -1e4


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

    def load_model(self, dtype: str | None = None) -> Transformer:
        """Returns the model with its weights, one of which is read at a time.

        Raises:
            InputError: If tensors are missing, left over or of another shape;
                the message lists all of them.
        """
        used = {*self.names.values(), *self.unused}
        problems = [
            f"{name}: missing"
            for name in self.names.values()
            if name not in self.tensors
        ]
        problems += [
            f"{name}: the configuration has no such tensor"
            for name in self.tensors
            if name not in used
        ]
        model = Transformer(self.config, dtype=dtype)
        weights = named_weights(model)
        for name, theirs in self.names.items():
            if theirs not in self.tensors:
                continue
            value = self.convert(name, self.tensors[theirs])
            shape = tuple(weights[name].shape)
            if value.shape != shape:
                problems.append(
                    f"{theirs}: shape {list(value.shape)} instead of "
                    f"{list(shape)} (inputs, outputs)"
                )
            elif not problems:
                weights[name].assign(value)
        if problems:
            raise InputError(
                f"{self.file} must have the weights that the configuration "
                "beside it says. Received:\n" + "\n".join(problems)
            )
        return model

    def differences(self) -> dict[str, Any]:
        """Returns the values of the configuration that differ from the paper's.

        Sizes, special ids and the vocabularies' sizes are left out.
        """
        names = [field.name for field in dataclasses.fields(self.config)]
        start = names.index("activation")
        defaults = {
            field.name: field.default
            for field in dataclasses.fields(self.config)
        }
        return {
            name: getattr(self.config, name)
            for name in names[start:]
            if getattr(self.config, name) != defaults[name]
        }
