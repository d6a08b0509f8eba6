"""Opens folders with models: runs, SavedModels, exports for LiteRT."""

import os
from collections.abc import Sequence

from keras_transformer.decoding.settings import Search
from keras_transformer.inference import saved_model
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.model_folder import (
    ExportFolder,
    ModelFolder,
    find_folder,
)
from keras_transformer.inference.run_folder import Run, RunFolder
from keras_transformer.inference.saved_model import SavedModelFolder
from keras_transformer.litert import METADATA_FILE
from keras_transformer.litert.lite_folder import LiteRTFolder
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.tasks import Task


def read_folder(path: str | os.PathLike) -> ModelFolder:
    """Returns the description of a folder with a model."""
    export_class = _export_class(path)
    if export_class is not None:
        return export_class.read(path)
    return RunFolder.read(path)


def read_run(path: str | os.PathLike) -> RunFolder:
    """Returns the description of a run folder."""
    if _export_class(path) is not None:
        raise InputError(
            "This needs a run: exports work with translate, evaluate, score "
            f"and serve. Received: {path}, which is an export"
        )
    return read_folder(path)


def read_export(path: str | os.PathLike) -> ExportFolder:
    """Returns the description of a SavedModel or an export for LiteRT."""
    export_class = _export_class(path)
    if export_class is None:
        raise InputError(
            "The model must be a SavedModel or a folder for LiteRT, which "
            f"`keras-transformer export` writes. Received: {path}"
        )
    return export_class.read(path)


def _export_class(model: str | os.PathLike) -> type[ExportFolder] | None:
    """Returns the class that describes an export, None for another folder."""
    path = find_folder(model)
    if (path / METADATA_FILE).is_file():
        return LiteRTFolder
    if saved_model.newest_version(path) is not None:
        return SavedModelFolder
    return None


def open_translator(
    paths: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    search: Search | None = None,
    num_translations: int | None = None,
    checkpoint: str | int | None = None,
    dtype: str | None = None,
    target_language: str | None = None,
    tag: str | None = None,
    task: Task | None = None,
    threads: int | None = None,
) -> BaseTranslator:
    """Opens a run, several runs, or an export, and returns its translator.

    `checkpoint`, `dtype`, `target_language`, `tag` and `task` are for runs
    only.

    Args:
        paths: The folder of a run, a SavedModel or an export for LiteRT;
            several runs with the same tokenizer, which translate together; or
            `"en-de"`, the model that comes with the package.
        search: Settings of the search, but of a SavedModel. Default: those of
            the (first) folder.
        num_translations: Translations returned per text. Default: 1, or as
            many as were exported.
        checkpoint: A step, `"best"` or `"last"`, the default.
        dtype: Of weights and computation. Default: float32.
        target_language: As in `Run.open`.
        tag: As in `Run.open`.
        task: As in `Translator`.
        threads: Of an export for LiteRT, if there is one worker. Default: the
            number of cores.

    Raises:
        InputError: If a folder has no model, or does not have these options.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    folders = [read_folder(path) for path in paths]
    for_runs = dict(
        checkpoint=checkpoint,
        dtype=dtype,
        target_language=target_language,
        tag=tag,
        task=task,
    )
    options = [f"{x}={y}" for x, y in for_runs.items() if y is not None]
    has_export = any(isinstance(folder, ExportFolder) for folder in folders)
    if has_export and (options or len(folders) > 1):
        raise InputError(
            "An export is used alone, as it was exported: with its checkpoint, "
            "language, type and kind of search. Leave out other options, or "
            "use the run; `export RUN1 RUN2` makes one of several. Received: "
            + ", ".join([*(str(folder.path) for folder in folders), *options])
        )
    first = folders[0]
    if isinstance(first, LiteRTFolder):
        from keras_transformer.litert import LiteRTTranslator

        return LiteRTTranslator.open(
            first.path, search, num_translations, threads
        )
    if dtype is not None:
        check_values(one_of("float32", "bfloat16", "float16"), dtype=dtype)
    import_tensorflow_quietly()
    if isinstance(first, SavedModelFolder):
        return saved_model.SavedModelTranslator.open(
            first.path, search, num_translations
        )
    from keras_transformer.inference.translator import Translator

    runs = [Run.open(folder.path, target_language, tag) for folder in folders]
    count = 1 if num_translations is None else num_translations
    dtype = dtype or "float32"
    return Translator.open(runs, checkpoint, search, count, dtype, task)
