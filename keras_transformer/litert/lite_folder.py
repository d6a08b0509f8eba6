"""Reads and checks what a folder for LiteRT has."""

import dataclasses
import os

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.model_folder import ExportFolder, find_folder
from keras_transformer.litert import METADATA_FILE, MODEL_FILE
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.fields import check_values, integer_from
from keras_transformer.support.files import check_types, read_json, sha256_of
from keras_transformer.text import Vocabulary, open_vocabulary

# The metadata that are read, and their types.
_TYPES = {
    **dict.fromkeys(("tokenizer_sha256", "model_sha256", "dtype"), str),
    **dict.fromkeys(("largest_beam_size", "num_translations"), int),
    "max_length": int,
    "attention_window": (int, type(None)),
    "search": dict,
}
_SIZES = (
    "largest_beam_size",
    "num_translations",
    "max_length",
    "attention_window",
)
# Files of other exports, whose metadata have the same name.
_OTHER_SYSTEMS = {
    "model.bin": "CTranslate2",
    "model.safetensors": "Hugging Face",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiteRTFolder(ExportFolder):
    """An export for LiteRT, by its metadata."""

    @classmethod
    def read(cls, path: str | os.PathLike) -> "LiteRTFolder":
        """Reads the metadata of a folder, and checks them."""
        path = find_folder(path)
        file = path / METADATA_FILE
        try:
            metadata = read_json(file)
        except OSError as error:
            raise _incomplete(error) from error
        if isinstance(metadata, dict) and "largest_beam_size" not in metadata:
            received = "another export"
            for name, system in _OTHER_SYSTEMS.items():
                if (path / name).exists():
                    received = f"an export for {system}"
            raise InputError(
                f"{path} must be an export for LiteRT, which "
                "`keras-transformer export --format litert` writes. Received: "
                f"{received}"
            )
        check_types(file, metadata, _TYPES)
        with name_file(file):
            sizes = {x: metadata[x] for x in _SIZES if metadata[x] is not None}
            check_values(integer_from(1, 2**20), **sizes)
            return cls.of_metadata(path, metadata)

    def check_settings(self, search: Search | None, count: int | None) -> None:
        search = search or self.search
        largest = self.metadata["largest_beam_size"]
        if not isinstance(search, BeamSearch):
            raise InputError(
                "A model for LiteRT has beam search only. Received: "
                f"search={search}. Sampling needs the run or a SavedModel."
            )
        if search.beam_size > largest:
            raise InputError(
                f"{self.path} was exported for a beam size of at most "
                f"{largest}. Received: beam_size={search.beam_size}. Export "
                f"the run again with --beam-size {search.beam_size}."
            )
        if search.no_repeat_ngram and not self.search.no_repeat_ngram:
            raise InputError(
                f"{self.path} was exported without no_repeat_ngram. Received: "
                f"no_repeat_ngram={search.no_repeat_ngram}. Export the run "
                f"again with --no-repeat-ngram {search.no_repeat_ngram}."
            )
        if count is not None:
            search.with_num_translations(count)

    def open_tokenizer(self) -> Vocabulary:
        """Returns the vocabulary, after a check of all files."""
        # LiteRT opens files with other bytes, and fails later or computes
        # nonsense.
        file, expected = self.path / MODEL_FILE, self.metadata["model_sha256"]
        try:
            with open(file, "rb") as content:
                digest = sha256_of(content)
        except OSError as error:
            raise _incomplete(error) from error
        if digest != expected:
            raise InputError(
                f"{file} must be the model that was exported, of SHA-256 "
                f"{expected:.12}. Received: {digest:.12}. It is damaged, or of "
                "another export: copy the folder again, or export the model "
                "again."
            )
        tokenizer = open_vocabulary(self.path)
        expected = self.metadata["tokenizer_sha256"]
        if tokenizer.digest != expected:
            raise InputError(
                f"{', '.join(tokenizer.files())} in {self.path} must be the "
                "tokenizer that the model was exported with, of SHA-256 "
                f"{expected:.12}. Received: {tokenizer.digest:.12}. Export "
                "the model again."
            )
        return tokenizer


def _incomplete(error: OSError) -> InputError:
    return InputError(
        "A model for LiteRT is a folder that `keras-transformer export "
        f"--format litert` wrote, with {MODEL_FILE} and {METADATA_FILE}. "
        f"Received: {error.filename} ({error.strerror})"
    )
