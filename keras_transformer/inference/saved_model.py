"""`SavedModelTranslator`: what `Translator` does, with a SavedModel.

It needs TensorFlow and tensorflow-text, as TensorFlow Serving has them.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.model_folder import (
    ExportFolder,
    recorded_recipe,
    recorded_task,
)
from keras_transformer.inference.signatures import (
    Arrays,
    Signature,
    graph_signatures,
)
from keras_transformer.inference.texts import (
    BaseTranslator,
    Score,
    Translation,
    batches_by_length,
    read_pairs,
    read_sources,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import integer_from
from keras_transformer.support.files import check_kinds, read_json
from keras_transformer.tasks import ParsingTask, Task, TranslationTask

_FILE = "saved_model.pb"
_METADATA_FILE = "assets.extra/keras_transformer.json"
# What metadata must be, where it is there.
_KINDS = {
    "runs": list,
    "search": dict,
    "dtype": (str, type(None)),
    "max_length": (int, type(None)),
}
_CHARACTERS_PER_TOKEN = 4  # about; the model itself counts tokens


def is_export(path: str | os.PathLike) -> bool:
    """Returns whether a folder is a SavedModel, or has versions of one."""
    return newest_version(Path(path)) is not None


def newest_version(path: Path) -> Path | None:
    """Returns the folder that TensorFlow Serving would load."""
    if (path / _FILE).is_file():
        return path
    found = [
        file.parent
        for file in path.glob(f"*/{_FILE}")
        if file.parent.name.isdecimal()
    ]
    return max(found, key=lambda folder: int(folder.name), default=None)


def read_metadata(path: Path) -> dict[str, Any]:
    """Returns the `keras_transformer.json` of a SavedModel, or {}.

    Raises:
        InputError: If it is damaged.
    """
    file = newest_version(path) / _METADATA_FILE
    if not file.exists():
        return {}
    metadata = read_json(file)
    known = {name: _KINDS[name] for name in _KINDS if name in metadata}
    check_kinds(file, metadata, known)
    if not all(isinstance(run, dict) for run in metadata.get("runs", ())):
        raise InputError(
            f"{file} must have runs that are objects. Received: "
            f"{metadata['runs']!r:.100}"
        )
    return metadata


@dataclasses.dataclass(frozen=True, kw_only=True)
class SavedModelFolder(ExportFolder):
    """A SavedModel, by its metadata."""

    identifying_files = (_FILE, "variables/variables.index")

    @classmethod
    def read(cls, path: str | os.PathLike) -> "SavedModelFolder":
        """Reads the metadata of a SavedModel, of the newest version if several.

        Raises:
            InputError: If the metadata are damaged.
        """
        folder = newest_version(Path(path))
        metadata = read_metadata(folder)
        return cls(
            path=folder,
            metadata=metadata,
            task=recorded_task(metadata),
            recipe=recorded_recipe(metadata),
            search=_recorded_search(metadata, folder),
        )

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


def _recorded_search(
    metadata: dict[str, Any], folder: Path
) -> BeamSearch | None:
    """Returns the beam search of an export, None if it is another search."""
    search = metadata.get("search", {})
    if "beam_size" not in search:
        return None
    return BeamSearch.from_dict(search, str(folder))


class SavedModelTranslator(BaseTranslator):
    """Translates text with a SavedModel that `export` wrote.

    It does what `Translator` does with a run. The search is that of the
    export. Several threads may use it.

    Args:
        path: The folder of the SavedModel.
        metadata: Its `keras_transformer.json`; may be empty.
        signatures: Its signatures; `serving_default` is needed.
        num_translations: Translations returned per text, n, at most as many
            as the model was exported with, which is the default.

    Example:

    ```python
    translator = SavedModelTranslator.open("models/en-de/1")
    translator("I am a student.")  # "Ich bin Student."
    ```
    """

    def __init__(
        self,
        path: Path,
        metadata: dict[str, Any],
        signatures: dict[str, Signature],
        num_translations: int | None = None,
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.signatures = signatures
        default = signatures.get("serving_default")
        outputs = default.outputs() if default else {}
        tasks = {
            task.output: task for task in (TranslationTask(), ParsingTask())
        }
        found = [task for name, task in tasks.items() if name in outputs]
        if not found or list(default.inputs) != ["text"]:
            raise InputError(
                f"{path} must have the signature serving_default with the "
                f"input text and the output {' or '.join(tasks)}, as `export` "
                f"writes it. Received: {', '.join(outputs) or 'none'}"
            )
        self.task: Task = found[0]
        exported = outputs[self.task.output].shape[1]
        if num_translations is None:
            num_translations = exported
        _check_count(path, num_translations, exported)
        self.num_translations: int = num_translations
        self.search = _recorded_search(metadata, path)
        self.dtype: str | None = metadata.get("dtype")
        self.max_length = metadata.get("max_length")
        self.version = int(path.name) if path.name.isdecimal() else 1

    @classmethod
    def open(
        cls, path: str | os.PathLike, num_translations: int | None = None
    ) -> "SavedModelTranslator":
        """Returns the translator of a SavedModel.

        Args:
            path: A folder that `keras-transformer export` wrote, or one with
                several of them, named by their versions: the newest is used.
            num_translations: As of the class.

        Raises:
            InputError: If it is not such a folder, a file is damaged, it
                returns fewer translations, or TensorFlow or tensorflow-text
                is not installed.
        """
        folder = newest_version(Path(path))
        if folder is None:
            raise InputError(
                f"A SavedModel is a folder with {_FILE}, which "
                f"`keras-transformer export` writes. Received: {path}"
            )
        try:
            import tensorflow as tf
            import tensorflow_text  # noqa: F401  registers the tokenizer's ops
        except ImportError as error:
            raise InputError(
                "A SavedModel needs TensorFlow and tensorflow-text. Install "
                'them with: pip install "keras-transformer-nmt[tensorflow]"'
            ) from error
        metadata = read_metadata(folder)
        try:
            loaded = tf.saved_model.load(folder)
        except (OSError, ValueError, tf.errors.OpError) as error:
            raise InputError(
                f"{folder} must be a SavedModel. Received: {error!s:.200}. "
                "Export the run again."
            ) from error
        signatures = graph_signatures(loaded.signatures)
        translator = cls(folder, metadata, signatures, num_translations)
        translator._loaded = loaded  # the signatures do not own its variables
        return translator

    def translate(
        self,
        texts: Any,
        batch_tokens: int = 2048,
        workers: int = 1,
        prefixes: Any = None,
    ) -> Translation | list[Translation]:
        """Translates texts, in batches of similar length.

        Args:
            texts: As in `Translator.translate`.
            batch_tokens: Likewise; a token is taken to have 4 characters.
            workers: Ignored: a SavedModel decides itself what it computes at
                the same time.
            prefixes: As in `Translator.translate`; the model needs the
                signature `translate_prefix`.

        Returns:
            A `Translation` for a single text, else a list with one
            `Translation` per text, in the order of the texts.

        Raises:
            InputError: If a text is not a string of valid Unicode, not each
                text has one prefix, or the model lacks the signature.
        """
        del workers
        texts, prefixes, is_single = read_sources(texts, prefixes)
        inputs, name = {"text": texts}, "serving_default"
        if any(prefixes):
            inputs["prefix"], name = prefixes, "translate_prefix"
        columns = self._call(name, inputs, batch_tokens)
        fields = [self.task.output, *Translation._fields[1:]]
        n = self.num_translations
        translations = [
            Translation(
                # A model may spell bytes that are not UTF-8.
                [text.decode("utf-8", "replace") for text in texts[:n]],
                scores[:n],
                *flags,
            )
            for texts, scores, *flags in zip(
                *(columns[x] for x in fields if x in columns), strict=True
            )
        ]
        return translations[0] if is_single else translations

    def score(
        self, sources: Any, targets: Any, batch_tokens: int = 2048
    ) -> Score | list[Score]:
        """Returns how likely given translations are.

        Args:
            sources: As in `Translator.score`.
            targets: Likewise.
            batch_tokens: As in `translate`, of the sources.

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError: If the numbers of sources and targets differ, a text
                is not valid or too long, or the model lacks the signature.
        """
        sources, targets, is_single = read_pairs(sources, targets)
        inputs = {"text": sources, "translation": targets}
        columns = self._call("score", inputs, batch_tokens)
        for side in ("source", "translation"):
            cut = columns[f"{side}_truncated"]
            if any(cut):
                raise InputError(
                    "A text to score must not be longer than the model reads. "
                    f"Received: a longer {side} at index {cut.index(True)}"
                )
        names = ("scores", "log_probs", "perplexities")
        rows = zip(*(columns[name] for name in names), strict=True)
        scores = [Score(*row) for row in rows]
        return scores[0] if is_single else scores

    def _call(
        self, name: str, inputs: dict[str, list[str]], batch_tokens: int
    ) -> dict[str, list]:
        """Returns the outputs of texts, which are sent in batches."""
        if name not in self.signatures:
            raise InputError(
                f"{self.path} must have the signature {name}. Received: "
                f"{', '.join(self.signatures)}. Export the run again with it."
            )
        call = self.signatures[name].call
        texts = inputs["text"]
        lengths = [len(text) // _CHARACTERS_PER_TOKEN for text in texts]
        rows: list = [None] * len(texts)
        names: list[str] = []
        for batch in batches_by_length(lengths, batch_tokens, batch_tokens):
            found: Arrays = call(
                {
                    x: np.array([values[i].encode() for i in batch], object)
                    for x, values in inputs.items()
                }
            )
            # Widths may differ from batch to batch.
            columns = [found[x].tolist() for x in found]
            names = list(found)
            for i, *row in zip(batch, *columns, strict=True):
                rows[i] = row
        if not rows:
            return {x: [] for x in self.signatures[name].outputs()}
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
