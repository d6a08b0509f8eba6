"""The JSON files of a Marian model of Hugging Face's transformers."""

import os
from pathlib import Path
from typing import Any

from keras_transformer.convert.tensor_files import read_object
from keras_transformer.support.errors import InputError

CONFIG, GENERATION = "config.json", "generation_config.json"
TOKENIZER = "tokenizer_config.json"

# What configurations of 2020 may say, and the only value that transformers
# still computes.
_FIXED = {
    "add_final_layer_norm": False,
    "normalize_before": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
}


class Settings:
    """What the JSON files of a folder say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = read_object(folder, CONFIG)
        self.generation = self._read(GENERATION)
        self.tokenizer = {
            **self._read("special_tokens_map.json"),
            **self._read(TOKENIZER),
        }
        self.added = self._read("added_tokens.json")
        self._values = {
            CONFIG: self.config,
            GENERATION: self.generation,
            TOKENIZER: self.tokenizer,
        }
        kind = self.config.get("model_type")
        classes = self.config.get("architectures")
        if kind != "marian" or classes not in (None, ["MarianMTModel"]):
            raise InputError(
                f"{folder / 'config.json'} must be of a translation model of "
                "Marian: model_type 'marian', architectures ['MarianMTModel']. "
                f"Received: model_type={kind!r}, architectures={classes!r}"
            )
        for name, only in _FIXED.items():
            if self.config.get(name, only) != only:
                self.refuse(name, f"{only}, as transformers computes")

    def _read(self, name: str) -> dict[str, Any]:
        # A link to nothing exists, too, and is refused.
        if not os.path.lexists(self.folder / name):
            return {}
        return read_object(self.folder, name)

    @property
    def search_file(self) -> str:
        """The file with the search: config.json before there was another."""
        has_own = os.path.lexists(self.folder / GENERATION)
        return GENERATION if has_own else CONFIG

    def get(
        self, name: str, kind: type, default: Any = ..., file: str = CONFIG
    ) -> Any:
        """Returns a field of a type. Null is no value: the default, if any."""
        value = self._values[file].get(name)
        if value is None and default is not ...:
            return default
        # JSON has no other kind of number for 1.0; true is a bool.
        if kind is float and type(value) is int and abs(value) < 2**63:
            return float(value)
        if type(value) is not kind:
            self.refuse(name, f"a value of type {kind.__name__}", file)
        return value

    def refuse(self, name: str, expected: str, file: str = CONFIG) -> None:
        """Raises InputError about a field."""
        raise InputError(
            f"{self.folder / file} must have {name!r}: {expected}. "
            f"Received: {name}={self._values[file].get(name)!r}"
        )
