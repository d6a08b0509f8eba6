"""Opens runs, exports and served models."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.exports import Export
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.model_folder import INCLUDED, find_folder
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.tasks import Task


def read_folder(path: str | os.PathLike | Run | Export) -> Run | Export:
    """Returns the description of a model, given by its folder or name."""
    if isinstance(path, Run | Export):
        return path
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
    paths: str | os.PathLike | Run | Sequence[str | os.PathLike | Run],
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
) -> Translator:
    """Opens a run, several runs, an export or a served model.

    These settings are fixed when the model is opened. Options that differ from
    call to call are arguments of `translate`; `batch_tokens`, `workers` and
    `max_batch_size` are also attributes.

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
    if isinstance(paths, str | os.PathLike | Run | Export):
        paths = [paths]
    for_runs = dict(
        checkpoint=checkpoint,
        dtype=dtype,
        target_language=target_language,
        tag=tag,
        task=task,
    )
    if len(paths) == 1 and str(paths[0]).startswith(("grpc://", "grpcs://")):
        _check_absent(paths[0], search=search, **for_runs)
        from keras_transformer.inference.serving_client import connect

        return connect(str(paths[0]), num_translations)
    folders = [read_folder(path) for path in paths]
    if len(folders) != 1 or isinstance(folders[0], Run):
        return _open_runs(folders, search, num_translations, **for_runs)
    export = folders[0]
    _check_absent(export.path, **for_runs)
    if export.kind == "saved-model":
        _check_absent(export.path, search=search)
        import_tensorflow_quietly()
        from keras_transformer.inference.served import open_saved_model

        backend = open_saved_model(export, num_translations)
        translator = Translator(backend, tokenizer=None)
    else:
        from keras_transformer.litert import LiteEngine

        search = export.choose_search(search)
        if num_translations is None:
            exported = export.metadata["num_translations"]
            num_translations = min(exported, search.beam_size)
        file, tokenizer = export.open_files()
        engine = LiteEngine(
            file, tokenizer, export.metadata, threads, shortlist
        )
        translator = Translator(engine, tokenizer, search, num_translations)
    translator.languages = export.languages
    translator.metadata = export.metadata
    return translator


def _check_absent(path: str | os.PathLike, **arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise InputError(
                f"is only available for runs. Received: {value!r:.80} for "
                f"{path}",
                argument=name,
            )


def _open_runs(
    runs: Sequence[Run],
    search: Search | None,
    num_translations: int | None,
    checkpoint: str | int | None,
    dtype: str | None,
    target_language: str | None,
    tag: str | None,
    task: Task | None,
) -> Translator:
    are_runs = all(isinstance(run, Run) for run in runs)
    if (
        not are_runs
        or len({(run.tokenizer_digest, run.task.name) for run in runs}) != 1
    ):
        raise InputError(
            "Several models must be runs with the same task and tokenizer. "
            f"Received: {', '.join(str(run.path) for run in runs) or 'no run'}"
        )
    dtype = dtype or "float32"
    check_values(one_of("float32", "bfloat16", "float16"), dtype=dtype)
    import_tensorflow_quietly()
    tokenizer = runs[0].tokenizer
    if target_language is not None:
        tokenizer = tokenizer.translating_to(target_language)
        languages = (runs[0].languages[0], target_language.strip("<>"))
        runs = [dataclasses.replace(run, languages=languages) for run in runs]
    if tag is not None:
        tokenizer = tokenizer.with_tag(tag)
    checkpoints = [(run, run.find_checkpoint(checkpoint)) for run in runs]
    translator = Translator(
        [run.load_model(file, dtype) for run, file in checkpoints],
        tokenizer,
        search=search or runs[0].search,
        num_translations=1 if num_translations is None else num_translations,
        task=task or runs[0].task,
    )
    translator.languages = runs[0].languages
    translator.checkpoints = checkpoints
    translator.metadata = {"runs": [run.metadata(x) for run, x in checkpoints]}
    return translator
