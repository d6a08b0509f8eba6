"""SavedModels: their folders, and their translator."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.model_folder import ExportFolder
from keras_transformer.inference.records import EncodedTexts
from keras_transformer.inference.served_signatures import (
    Signature,
    SignatureTranslator,
    default_count,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import integer_from
from keras_transformer.support.files import check_types, read_json
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.tags import check_languages

_FILE = "saved_model.pb"
_METADATA_FILE = "assets.extra/keras_transformer.json"
# Types of the metadata that are read; any may be missing.
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
    """A SavedModel, by its metadata, of which any may be missing."""

    identifying_files = (_FILE, "variables/variables.index")

    @classmethod
    def read(cls, path: str | os.PathLike) -> "SavedModelFolder":
        """Reads the metadata of a SavedModel, or of a folder's newest one."""
        folder = newest_version(Path(path))
        if folder is None:
            raise InputError(
                f"A SavedModel is a folder with {_FILE}, which "
                f"`keras-transformer export` writes. Received: {path}"
            )
        file = folder / _METADATA_FILE
        metadata = read_json(file) if file.exists() else {}
        types = _TYPES
        if isinstance(metadata, dict):
            types = {x: y for x, y in _TYPES.items() if x in metadata}
        check_types(file, metadata, types)
        return cls.of_metadata(folder, metadata)

    def check_settings(
        self, search: Search | None, num_translations: int | None
    ) -> None:
        if search is not None:
            raise InputError(
                "A SavedModel translates with the search that it was exported "
                f"with. Received: search={search}. Use the run, or export it "
                "again."
            )
        if None not in (num_translations, self.num_translations):
            _check_count(self.path, num_translations, self.num_translations)


def _check_count(path: Path, count: int, exported: int) -> None:
    if not integer_from(1, exported).accepts(count):
        raise InputError(
            f"{path} was exported with {exported} translations per text. "
            f"Received: num_translations={count}. Choose as many or fewer, or "
            "export the run again."
        )


class SavedModelTranslator(SignatureTranslator):
    """Translates text with a SavedModel that `export` wrote, and its search.

    It needs TensorFlow and tensorflow-text, as TensorFlow Serving has them. n
    is at most, and by default, that of the export.
    """

    def __init__(
        self,
        folder: SavedModelFolder,
        signatures: dict[str, Signature],
        num_translations: int | None = None,
    ) -> None:
        path = self.path = folder.path
        self.search = folder.search
        self.metadata = folder.metadata
        self.dtype = folder.metadata.get("dtype")
        self.max_length = folder.metadata.get("max_length")
        self.version = int(path.name) if path.name.isdecimal() else 1
        self.own_signatures = signatures
        exported = default_count(str(path), signatures)
        if num_translations is None:
            num_translations = exported
        _check_count(path, num_translations, exported)
        self.num_translations = self._kept = num_translations

    @classmethod
    def open(
        cls, path: str | os.PathLike, num_translations: int | None = None
    ) -> "SavedModelTranslator":
        """Returns the translator of what `SavedModelFolder.read` reads."""
        folder = SavedModelFolder.read(path)
        with explain_missing_packages(InputError):
            import tensorflow as tf
            from google.protobuf.message import DecodeError

            from keras_transformer.inference import saved_graph

            saved_graph.load_tokenizer()
            wrong = OSError, ValueError, IndexError, DecodeError
            try:
                graph = saved_graph.SavedGraph(folder.path)
            except (*wrong, tf.errors.OpError) as error:
                raise InputError(
                    f"{folder.path} must be a SavedModel. Received: "
                    f"{error!s:.200}. Export the run again."
                ) from error
        return cls(folder, graph.signatures(), num_translations)

    @property
    def description(self) -> str:
        names = ", ".join(self.own_signatures)
        return f"{self.path} with the signatures {names}"

    @property
    def target_languages(self) -> Sequence[str]:
        # Exports of earlier versions do not say which languages they have.
        return self.metadata.get("languages", ())

    def check_languages(self, texts: Sequence[str], first: int = 1) -> None:
        check_languages(self.target_languages, False, texts, first)

    def _encode_sources(self, texts: list[str]) -> EncodedTexts:
        self.check_languages(texts)
        return super()._encode_sources(texts)

    def predict(
        self, signature: str, /, **inputs: list[str]
    ) -> dict[str, np.ndarray]:
        return self.own_signatures[signature].call(
            {
                name: np.array([text.encode() for text in texts], object)
                for name, texts in inputs.items()
            }
        )
