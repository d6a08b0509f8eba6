"""Opens runs, exports and served models."""

import dataclasses
import os
from collections.abc import Sequence

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.exports import Export
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.model_folder import INCLUDED, find_folder
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.tasks import Task


def read_folder(path: str | os.PathLike) -> Run | Export:
    """Returns the description of a model, given by its folder or name."""
    folder = find_folder(path)
    return Export.find(folder) or Run.open(folder)


def read_run(path: str | os.PathLike) -> Run:
    """Returns the description of a run: for `en-de`, the included run."""
    folder = read_folder(path)
    if isinstance(folder, Export):
        if folder.path.parent == INCLUDED:
            return Run.open(folder.path / "run")
        raise InputError(
            "This needs a run: exports work with translate, evaluate, score "
            f"and serve. Received: {path}, which is an export"
        )
    return folder


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
    shortlist: bool = True,
) -> BaseTranslator:
    """Opens a run, several runs, an export or a served model.

    The arguments choose the model and its search, once. What may differ from
    call to call is an argument of `translate` (`batch_tokens`, `workers`,
    `prefixes`, `progress`), or an attribute that may be changed
    (`batch_tokens` and `workers`, the defaults of these arguments, and
    `max_batch_size`).

    Args:
        paths: The folder of a run, a SavedModel or an export for LiteRT;
            several runs with the same tokenizer, which translate together;
            `"en-de"`, the included model (a folder is `"./en-de"`); the name of
            a model on the Hugging Face Hub, `"Helsinki-NLP/opus-mt-en-de"`,
            which is imported the first time; or the address of a model in
            TensorFlow Serving, `"grpc://localhost:8500/en-de"`.
        search: `BeamSearch` or `Sampling`, for runs; `BeamSearch` for LiteRT.
            A SavedModel keeps its own. Default: the (first) folder's.
        num_translations: Translations returned per text. Default: 1, or as
            many as were exported.
        checkpoint: For runs: a step, `"best"` or `"last"`, the default.
        dtype: For runs: of weights and computation. Default: float32.
        target_language: For runs: as in `Tokenizer.translating_to`. Default:
            the run's.
        tag: For runs: as in `Tokenizer.with_tag`.
        task: For runs: as in `Translator`.
        threads: For LiteRT: threads of one worker. Default: the number of
            cores.
        shortlist: For LiteRT: False ignores the shortlist of an export.

    Raises:
        InputError: If there is no model, or it does not support an argument.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    is_served = str([*paths, ""][0]).startswith(("grpc://", "grpcs://"))
    folders = [] if is_served else [read_folder(path) for path in paths]
    for_runs = dict(checkpoint=checkpoint, dtype=dtype, tag=tag, task=task)
    for_runs["target_language"] = target_language
    if is_served:
        for_runs["search"] = search
    options = [f"{x}={y}" for x, y in for_runs.items() if y is not None]
    is_export = any(isinstance(folder, Export) for folder in folders)
    if (is_export or is_served) and (options or len(paths) > 1):
        raise InputError(
            "Several models, checkpoint, dtype, tag, target_language and task "
            "need runs. Received: an export, in "
            f"{', '.join([*map(str, paths), *options])}"
        )
    if is_served:
        from keras_transformer.inference.serving_client import connect

        return connect(str(paths[0]), num_translations)
    if is_export:
        engine = threads, shortlist
        return _open_export(folders[0], search, num_translations, *engine)
    if dtype is not None:
        check_values(one_of("float32", "bfloat16", "float16"), dtype=dtype)
    import_tensorflow_quietly()
    if len({(run.tokenizer_digest, run.task.name) for run in folders}) != 1:
        raise InputError(
            "The runs of an ensemble must have the same task and tokenizer. "
            f"Received: {', '.join(map(str, paths)) or 'no run'}"
        )
    runs, tokenizer = folders, folders[0].tokenizer
    if target_language is not None:
        tokenizer = tokenizer.translating_to(target_language)
        languages = runs[0].languages[0], target_language.strip("<>")
        runs = [dataclasses.replace(run, languages=languages) for run in runs]
    if tag is not None:
        tokenizer = tokenizer.with_tag(tag)
    checkpoints = [(run, run.find_checkpoint(checkpoint)) for run in runs]
    translator = Translator(
        [run.load_model(path, dtype or "float32") for run, path in checkpoints],
        tokenizer,
        search or runs[0].search,
        1 if num_translations is None else num_translations,
        task or runs[0].task,
    )
    translator.checkpoints = checkpoints
    translator.metadata = {"runs": [run.metadata(x) for run, x in checkpoints]}
    return translator


def _open_export(
    export: Export,
    search: Search | None,
    num_translations: int | None,
    threads: int | None,
    shortlist: bool,
) -> BaseTranslator:
    search, count = export.choose_search(search, num_translations)
    if export.kind == "saved-model":
        import_tensorflow_quietly()
        from keras_transformer.inference.served import open_saved_model

        return open_saved_model(export, count)
    from keras_transformer.litert import LiteEngine

    file, tokenizer = export.open_files()
    engine = LiteEngine(file, tokenizer, export.metadata, threads, shortlist)
    translator = Translator(engine, tokenizer, search, count)
    translator.metadata = export.metadata
    return translator
