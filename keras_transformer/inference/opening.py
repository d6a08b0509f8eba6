"""Opens runs, exports and served models."""

import dataclasses
import hashlib
import os
from collections.abc import Sequence

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.exports import (
    MODEL_FILE,
    Export,
    check_exported,
    use_run,
)
from keras_transformer.inference.served import connect, open_saved_model
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_folder import INCLUDED, Run, find_folder
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.startup import (
    import_file,
    require_tensorflow,
    start_keras,
)
from keras_transformer.tasks import Task
from keras_transformer.text import Tokenizer

_SERVERS = ("grpc://", "grpcs://")  # how their addresses begin


def read_folder(path: str | os.PathLike | Run | Export) -> Run | Export:
    """Reads the description of a model from its folder, or by its name."""
    if isinstance(path, Run | Export):
        return path
    folder = find_folder(path)
    return Export.find(folder) or Run.open(folder)


def read_run(path: str | os.PathLike) -> Run:
    """Reads the description of a run; `en-de` is the included run."""
    folder = read_folder(path)
    if isinstance(folder, Export):
        if folder.path.parent == INCLUDED:
            return Run.open(folder.path / "run")
        raise InputError(
            f"This command needs a run. Received: {path}, an export. Exports "
            "work with translate, evaluate, score and serve."
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
    module: str | os.PathLike | None = None,
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
        module: For runs with layers of your own: the Python file that defines
            and registers them; it is imported.
        threads: For LiteRT: threads of one worker. Default: the number of
            cores.
        shortlist: For LiteRT: False ignores the shortlist of an export.

    Raises:
        InputError: If there is no model, or it does not support an argument.
    """
    if isinstance(paths, str | os.PathLike | Run | Export):
        paths = [paths]
    models = [
        path if str(path).startswith(_SERVERS) else read_folder(path)
        for path in paths
    ]
    if len(models) == 1 and not isinstance(models[0], Run):
        model = models[0]  # an export or an address
        place = model.path if isinstance(model, Export) else model
        advice = use_run(place)
        for_runs = {
            "checkpoint": checkpoint,
            "dtype": dtype,
            "target_language": target_language,
            "tag": tag,
            "task": task,
            "module": module,
        }
        for name, value in for_runs.items():
            if value is not None:
                raise InputError(
                    f"is only available for runs. Received: {value!r:.80} for "
                    f"{place}. {advice}",
                    argument=name,
                )
        if isinstance(model, Export) and model.format == "litert":
            return _open_litert(
                model, search, num_translations, threads, shortlist
            )
        if search is not None:
            raise InputError(
                "A SavedModel keeps the search that it was exported with. "
                f"Received: {search} for {place}. {advice}"
            )
        if not isinstance(model, Export):
            return connect(model, num_translations)
        require_tensorflow("SavedModels")
        return open_saved_model(model, num_translations)
    if (
        not all(isinstance(x, Run) for x in models)
        or len({(run.tokenizer_digest, run.task.name) for run in models}) != 1
    ):
        places = [str(getattr(run, "path", run)) for run in models]
        raise InputError(
            "Several models must be runs with the same task and tokenizer. "
            f"Received: {', '.join(places) or 'no run'}"
        )
    if module is not None:
        import_file(module)
    dtype = dtype or "float32"
    check_values(one_of("float32", "bfloat16", "float16"), dtype=dtype)
    start_keras()
    runs = models
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
    translator.metadata = {"runs": [run.metadata(x) for run, x in checkpoints]}
    translator.checkpoints = checkpoints
    return translator


def _open_litert(
    export: Export,
    search: Search | None,
    num_translations: int | None,
    threads: int | None,
    shortlist: bool,
) -> Translator:
    from keras_transformer.litert import LiteEngine

    metadata = export.metadata
    search = search or export.search
    if not isinstance(search, BeamSearch):
        raise InputError(
            f"An export for LiteRT needs a BeamSearch. Received: {search}. "
            f"{use_run(export.path)}"
        )
    largest = metadata["largest_beam_size"]
    check_exported("beam_size", search.beam_size, largest, export.path)
    if search.no_repeat_ngram and not export.search.no_repeat_ngram:
        raise InputError(
            "needs an export with a search that has it. Received: "
            f"{search.no_repeat_ngram} for {export.path}. "
            f"{use_run(export.path)}",
            argument="no_repeat_ngram",
        )
    if num_translations is None:
        num_translations = min(metadata["num_translations"], search.beam_size)
    # LiteRT opens damaged files, and crashes later or computes nonsense.
    file = export.path / MODEL_FILE
    tokenizer = Tokenizer.load(export.path)
    with open(file, "rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    digests = {"model_sha256": digest, "tokenizer_sha256": tokenizer.digest}
    if any(metadata[name] != value for name, value in digests.items()):
        raise InputError(
            f"{export.path} must contain the files that were exported. "
            f"Received: a different {MODEL_FILE} or tokenizer. Copy the "
            "folder again."
        )
    engine = LiteEngine(file, tokenizer, metadata, threads, shortlist)
    translator = Translator(engine, tokenizer, search, num_translations)
    translator.languages = export.languages
    translator.metadata = metadata
    return translator
