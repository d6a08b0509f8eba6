"""Opens everything that translates: runs, exports, served models."""

import os
from collections.abc import Sequence

from keras_transformer.decoding.search_arrays import SpecialIds
from keras_transformer.decoding.settings import Search
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.exports import Export
from keras_transformer.inference.model_folder import ModelFolder
from keras_transformer.inference.run_folder import (
    Run,
    check_same_tokenizer,
)
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.startup import (
    available_cores,
    import_tensorflow_quietly,
)
from keras_transformer.tasks import Task


def read_folder(path: str | os.PathLike) -> ModelFolder:
    """Returns the description of a folder with a model."""
    is_export = Export.find(path) is not None
    return Export.read(path) if is_export else Run.read(path)


def read_run(path: str | os.PathLike) -> Run:
    """Returns the description of a run folder."""
    if Export.find(path) is not None:
        raise InputError(
            "This needs a run: exports work with translate, evaluate, score "
            f"and serve. Received: {path}, which is an export"
        )
    return Run.read(path)


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
    """Opens a run, several runs, an export or a served model.

    `checkpoint`, `dtype`, `target_language`, `tag` and `task` are for runs
    only.

    Args:
        paths: The folder of a run, a SavedModel or an export for LiteRT;
            several runs with the same tokenizer, which translate together;
            `"en-de"`, the model that comes with the package; the name of a
            model on the Hugging Face Hub, `"Helsinki-NLP/opus-mt-en-de"`,
            which is imported the first time; or the address of a model in
            TensorFlow Serving, `"grpc://localhost:8500/en-de"`.
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

    Returns:
        The translator.

    Raises:
        InputError: If a folder has no model, or does not have these options.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    is_served = str([*paths, ""][0]).startswith(("grpc://", "grpcs://"))
    folders = [] if is_served else [read_folder(path) for path in paths]
    names = ("checkpoint", "dtype", "target_language", "tag", "task")
    values = (checkpoint, dtype, target_language, tag, task)
    for_runs = zip(names, values, strict=True)
    options = [f"{x}={y}" for x, y in for_runs if y is not None]
    has_export = any(isinstance(folder, Export) for folder in folders)
    if is_served and search is not None:
        options.append(f"search={search}")
    if (has_export or is_served) and (options or len(paths) > 1):
        raise InputError(
            "An export is used alone, as it was exported: with its checkpoint, "
            "language, type and kind of search. Leave out other options, or "
            "use the run; `export RUN1 RUN2` makes one of several. Received: "
            + ", ".join([*map(str, paths), *options])
        )
    if is_served:
        from keras_transformer.inference.serving_client import connect

        return connect(str(paths[0]), num_translations)
    if has_export:
        return _open_export(folders[0], search, num_translations, threads)
    if dtype is not None:
        check_values(one_of("float32", "bfloat16", "float16"), dtype=dtype)
    import_tensorflow_quietly()
    runs = [Run.open(folder.path, target_language, tag) for folder in folders]
    check_same_tokenizer(runs)
    checkpoints = [(run, run.find_checkpoint(checkpoint)) for run in runs]
    first, dtype = runs[0], dtype or "float32"
    translator = Translator(
        [run.load_model(path, dtype) for run, path in checkpoints],
        first.tokenizer,
        search or first.default_search,
        1 if num_translations is None else num_translations,
        task or first.task,
    )
    translator.checkpoints = checkpoints
    described = [{**run.statistics, **run.recipe} for run in runs]
    translator.metadata = {"runs": described}
    return translator


def _open_export(
    export: Export,
    search: Search | None,
    num_translations: int | None,
    threads: int | None,
) -> BaseTranslator:
    search, count = export.choose_search(search, num_translations)
    if export.kind == "saved-model":
        import_tensorflow_quietly()
        from keras_transformer.inference.served import open_saved_model

        return open_saved_model(export, count)
    from keras_transformer.litert import LiteEngine

    file, tokenizer = export.open_files()
    ids = tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id
    engine = LiteEngine(
        file,
        SpecialIds.of(*ids),
        export.metadata,
        available_cores() if threads is None else threads,
    )
    translator = Translator(engine, tokenizer, search, count)
    translator.metadata = export.metadata
    return translator
