"""SavedModels: their folders, and their translator."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.model_folder import ExportFolder
from keras_transformer.inference.records import EncodedTexts
from keras_transformer.inference.served_signatures import SignatureTranslator
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_types, read_json
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.tags import check_languages

_FILE = "saved_model.pb"
_METADATA_FILE = "assets.extra/keras_transformer.json"
# Types of the metadata that are read.
_TYPES = {
    "runs": list,
    "search": dict,
    "dtype": (str, type(None)),
    "max_length": (int, type(None)),
    "num_translations": int,
    "languages": list,
}


def newest_version(path: Path) -> Path | None:
    """Returns the folder that TensorFlow Serving would load."""
    if (path / _FILE).is_file():
        return path
    versions = [
        file.parent
        for file in path.glob(f"*/{_FILE}")
        if file.parent.name.isdecimal()
    ]
    return max(versions, key=lambda folder: int(folder.name), default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelFolder(ExportFolder):
    """A SavedModel, by its metadata."""

    @classmethod
    def read(cls, path: str | os.PathLike) -> "SavedModelFolder":
        """Reads the metadata of a SavedModel, or of a folder's newest one."""
        folder = newest_version(Path(path))
        if folder is None or not (folder / _METADATA_FILE).is_file():
            raise InputError(
                f"A SavedModel is a folder with {_FILE} and {_METADATA_FILE}, "
                f"which `keras-transformer export` writes. Received: {path}"
            )
        metadata = read_json(folder / _METADATA_FILE)
        check_types(folder / _METADATA_FILE, metadata, _TYPES)
        return cls.of_metadata(folder, metadata)

    def check_settings(self, search: Search | None, count: int | None) -> None:
        if search is not None:
            raise InputError(
                "A SavedModel translates with the search that it was exported "
                f"with. Received: search={search}. Use the run, or export it "
                "again."
            )
        exported = self.num_translations
        if not 1 <= (exported if count is None else count) <= exported:
            raise InputError(
                f"{self.path} was exported with {exported} translations per "
                f"text. Received: num_translations={count}. Choose as many or "
                "fewer, or export the run again."
            )


class SavedModelTranslator(SignatureTranslator):
    """Translates text with a SavedModel that `export` wrote, and its search.

    It needs TensorFlow and tensorflow-text, as TensorFlow Serving has them. n
    is at most, and by default, that of the export.

    Args:
        folder: Its folder.
        signatures: Functions of string tensors by name, as
            `tf.saved_model.load` returns them.
        num_translations: n.
    """

    def __init__(
        self,
        folder: SavedModelFolder,
        signatures: Mapping[str, Any],
        num_translations: int | None = None,
    ) -> None:
        self.path = folder.path
        self.task = folder.task
        self.search = folder.search
        self.metadata = folder.metadata
        self.dtype = folder.metadata["dtype"]
        self.max_length = folder.metadata["max_length"]
        self.own_signatures = signatures
        if num_translations is None:
            num_translations = folder.num_translations
        self.num_translations = self._kept = num_translations

    @classmethod
    def open(
        cls,
        path: str | os.PathLike,
        search: Search | None = None,
        num_translations: int | None = None,
    ) -> "SavedModelTranslator":
        """Returns the translator of what `SavedModelFolder.read` reads.

        Raises:
            InputError: If it is not an export, or was exported with a
                different search or fewer translations.
        """
        folder = SavedModelFolder.read(path)
        folder.check_settings(search, num_translations)
        with explain_missing_packages(InputError):
            import tensorflow as tf
            import tensorflow_text  # noqa: F401  registers its operations
        # What it raises for damaged files.
        damage = OSError, ValueError, IndexError, tf.errors.OpError
        try:
            model = tf.saved_model.load(folder.path)
        except damage as error:
            raise InputError(
                f"{folder.path} must be a SavedModel. Received: "
                f"{error!s:.200}. Export the run again."
            ) from error
        translator = cls(folder, model.signatures, num_translations)
        translator._model = model  # signatures do not keep its variables
        return translator

    @property
    def description(self) -> str:
        names = ", ".join(self.own_signatures)
        return f"{self.path} with the signatures {names}"

    @property
    def target_languages(self) -> Sequence[str]:
        return self.metadata["languages"]

    def check_languages(self, texts: Sequence[str], first: int = 1) -> None:
        check_languages(self.target_languages, False, texts, first)

    def _encode_sources(self, texts: list[str]) -> EncodedTexts:
        self.check_languages(texts)
        return super()._encode_sources(texts)

    def predict(
        self, signature: str, /, **inputs: list[str]
    ) -> dict[str, np.ndarray]:
        import tensorflow as tf

        tensors = {name: tf.constant(texts) for name, texts in inputs.items()}
        outputs = self.own_signatures[signature](**tensors)
        return {name: values.numpy() for name, values in outputs.items()}
