"""A model of another system, and the conversion of its weights."""

import dataclasses
import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.convert.tensor_files import LazyTensors
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import name_file
from keras_transformer.support.files import atomic_folder
from keras_transformer.support.logs import progress_bar
from keras_transformer.support.startup import start_keras
from keras_transformer.text import Tokenizer

if TYPE_CHECKING:
    from keras_transformer.model import Transformer

# The bias of a token that a model must never write. With logits from -20 to 20
# its probability stays below e^-60, and -100 is exact in every dtype. Larger
# values would disturb training: with label smoothing e the loss grows by
# 100 e / (V - 1) per such token.
NEVER = -1e2
# Fields of the configuration that `differences` omits.
_SIZES = """
    vocab_size source_vocab_size pad_id bos_id eos_id
    num_layers d_model d_ff num_heads d_k d_v
    decoder_layers decoder_d_ff decoder_heads
    dropout max_length
""".split()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A model of another system, with weights that are read on demand.

    Args:
        system: The name of the system.
        config: The architecture.
        tokenizer: The tokenizer.
        search: The search settings in the model's files.
        languages: Codes of source and target, None if unknown.
        file: The file that contains the weights.
        tensors: The weights, by the system's names.
        names: The system's names, by ours.
        convert: Given our name and the stored weight, returns the weight in
            our layout.
        unused: Names of stored tensors that are not weights.
        notes: Settings in the model's files that are not supported.
    """

    system: str
    config: TransformerConfig
    tokenizer: Tokenizer
    search: BeamSearch
    languages: tuple[str | None, str | None] = (None, None)
    file: Path
    tensors: Mapping[str, Any]
    names: Mapping[str, str]
    convert: Callable[[str, np.ndarray], np.ndarray]
    unused: Collection[str] = ()
    notes: Sequence[str] = ()

    def translating_to(self, language: str) -> "ForeignModel":
        """Returns this model with a default target language.

        Args:
            language: The language of sources without a language token, such
                as `fra` or `>>fra<<`.

        Raises:
            InputError: If the model does not support the language.
        """
        with name_file(self.file.parent):
            tokenizer = self.tokenizer.translating_to(language)
        languages = (self.languages[0], language.strip("<>"))
        return dataclasses.replace(
            self, tokenizer=tokenizer, languages=languages
        )

    def load_model(self, dtype: str | None = None) -> "Transformer":
        """Returns the model, reading one weight at a time.

        Args:
            dtype: As in `Transformer`.

        Raises:
            InputError: If tensors are missing, unexpected or have a wrong
                shape; the message lists all of them.
        """
        start_keras()
        from keras_transformer.model import Transformer
        from keras_transformer.weights import assign

        model = Transformer(self.config, dtype=dtype)
        values = self._converted_tensors()
        name = f"The weights in {self.file} (kernels as [inputs, outputs])"
        progress = progress_bar(desc="Weights", total=2 * len(values))
        with name_file(name), progress as bar:
            assign(model, values, self.names, bar.update)
        return model

    def save_run(
        self,
        path: str | os.PathLike,
        source: str | None = None,
        target: str | None = None,
    ) -> Run:
        """Writes a run with the model in float32.

        Args:
            path: As in `Run.create`.
            source: Language code of the source. Default: from the files.
            target: Language code of the target. Default: from the files.

        Raises:
            InputError: As in `load_model`, and if the folder is not empty.
        """
        languages = source or self.languages[0], target or self.languages[1]
        with atomic_folder(path) as folder:
            Run.create(
                folder,
                self.config,
                self.tokenizer,
                search=self.search,
                languages=languages,
                statistics={"imported_from": self.system},
                model=self.load_model("float32"),
            )
        return Run.open(path)

    def _converted_tensors(self) -> LazyTensors:
        """Returns weights by our names, and unknown tensors by their own."""
        tensors = self.tensors
        readers = {
            name: functools.partial(self._converted, name)
            for name, stored_name in self.names.items()
            if stored_name in tensors
        }
        known = set(self.names.values()).union(self.unused)
        for name in tensors:
            if name not in known:
                readers[name] = functools.partial(tensors.__getitem__, name)
        return LazyTensors(readers)

    def _converted(self, name: str) -> np.ndarray:
        return self.convert(name, self.tensors[self.names[name]])

    def differences(self) -> dict[str, Any]:
        """Returns the options of the architecture that differ from the paper.

        Sizes, dropout and special ids are omitted.
        """
        values = vars(self.config)
        return {
            field.name: values[field.name]
            for field in dataclasses.fields(self.config)
            if field.name not in _SIZES and values[field.name] != field.default
        }
