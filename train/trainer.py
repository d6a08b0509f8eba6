"""The training program: `Transformer.fit` on a corpus, into a run folder."""

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, locked
from keras_transformer.support.startup import start_keras
from keras_transformer.train import preparation
from keras_transformer.train.arguments import TrainingArguments, check_equal
from keras_transformer.train.data import prepared
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import check_budget
from keras_transformer.train.data.prepared import PreparedCorpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.state import read_step

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_transformer.train.devices import Devices

logger = logging.getLogger(__name__)

# Arguments that may change when a run is resumed.
_MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard"}


def train(
    corpus: Corpus | None,
    output: str | Path | None,
    preset: str | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    *,
    architecture: Mapping[str, Any] | None = None,
    strategy: "tf.distribute.Strategy | str" = "auto",
    init_from: str | Path | None = None,
    tokenizer: str | Path | Sequence[str | Path] | None = None,
    dry_run: bool = False,
) -> Run | None:
    """Trains on the split `train`, and validates on `valid` if there is one.

    A corpus that is not prepared is prepared first, in the folder `data` of
    the run.

    Called again after an interruption, it resumes from the last saved state
    with the data in the run. The final weights are the same as without the
    interruption. Arguments that are left out keep their values from the run.

    Args:
        corpus: From `open_corpus`. None resumes the run in `output`.
        output: Folder of the run. It must be new, empty, or contain a run
            that was started with the same arguments.
        preset: Name of the architecture and of the recipe. Default: with
            `init_from` the architecture and the preset of that run, otherwise
            `"small"`.
        recipe: How to train, or the values that differ from the default: the
            preset's, with the `vocab_size` and the `max_length` of a prepared
            corpus or of `init_from`. With `init_from` the default is 2,000
            steps at a low learning rate.
        architecture: Arguments of `TransformerConfig` that differ from the
            preset's.
        strategy: The devices. `"single"`: one. `"auto"`: on TensorFlow as in
            `open_strategy`, which documents `"mirrored"` and `"multiworker"`;
            on JAX all local devices, on PyTorch one. Or a strategy of
            TensorFlow.
        init_from: A run. The new run starts with its tokenizer and its newest
            weights. The architecture must be the same, except for the dropout
            and, with sinusoidal positions, `max_length`.
        tokenizer: A SentencePiece model to use instead of training one; the
            folder of a run or of a prepared corpus; or two models, for sources
            and targets. With two, `tied_embeddings` is `"target"` by default.
        dry_run: Report the data, the model and the time of three steps, and
            write nothing; `output` is ignored.

    Returns:
        The run with its checkpoints. None after a dry run, and on all workers
        but the chief, which writes the run.

    Raises:
        InputError: If the input is invalid, or training diverges.
    """
    if isinstance(tokenizer, str | Path):
        tokenizer = [tokenizer]
    paths = None if tokenizer is None else [Path(path) for path in tokenizer]
    if isinstance(recipe, Recipe):
        recipe = dataclasses.asdict(recipe)
    arguments = TrainingArguments(
        corpus=corpus,
        preset=preset,
        recipe=recipe,
        architecture=_named_classes(architecture or {}),
        init_from=init_from,
        tokenizer=paths,
    )
    if output is None and not dry_run:
        raise InputError("is required, except for a dry run.", "output")
    is_new = dry_run or not Run.exists(output)
    if is_new:
        arguments.check_new()
    start_keras()
    from keras_transformer.train.devices import open_devices

    devices = open_devices(strategy)
    worker = devices.worker
    if is_new:
        devices.check(arguments.resolved_recipe)
    if dry_run:
        from keras_transformer.train.fitting import try_steps

        with tempfile.TemporaryDirectory() as folder:
            data = _prepared_data(arguments, Path(folder, "data"), worker.count)
            config = arguments.config_with(data.tokenizer)
            try_steps(config, data, arguments.resolved_recipe, devices)
        return None
    if is_new and worker.is_chief:
        _create(arguments, Path(output), worker.count)
    with locked(output) if worker.is_chief else contextlib.nullcontext():
        # The other workers wait here until the chief has created the run.
        devices.check_same_arguments(arguments.by_name())
        run = Run.open(output)
        check_resumes(run, arguments, worker.count)
        _train_run(run, arguments, devices)
    return Run.open(output) if worker.is_chief else None


def _named_classes(architecture: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the names of layer classes instead of the classes."""
    named = dict(architecture)
    for name, value in architecture.items():
        if isinstance(value, type):
            import keras

            named[name] = keras.saving.get_registered_name(value)
    return named


def _create(arguments: TrainingArguments, output: Path, workers: int) -> None:
    """Creates a run, with its data."""
    corpus = arguments.corpus
    initial_run = arguments.initial_run
    with atomic_folder(output) as folder:
        data = _prepared_data(arguments, folder / "data", workers)
        example = None
        if "valid" in corpus.splits:
            sources = (source for source, _ in corpus.pairs("valid"))
            example = next(filter(None, sources), None)
        Run.create(
            folder,
            arguments.config_with(data.tokenizer),
            data.tokenizer,
            task=corpus.task,
            search=None if initial_run is None else initial_run.search,
            languages=(corpus.source, corpus.target),
            statistics={
                "corpus": corpus.name,
                **_counts(data),
                "workers": workers,
                "example": example,
            },
            request=arguments.for_new_run(),
        )


def _prepared_data(
    arguments: TrainingArguments, folder: Path, workers: int
) -> PreparedCorpus:
    """Returns the corpus if it is prepared; else prepares it in a folder."""
    data = arguments.corpus
    recipe = arguments.resolved_recipe
    check_budget(recipe.batch_tokens, recipe.max_length, workers)
    if not isinstance(data, PreparedCorpus):
        logger.info(f"preparing: {data.name}")
        data = preparation.prepare(
            data, folder, recipe, arguments.resolved_tokenizer, splits=["valid"]
        )
    if "valid" in data.splits:
        # Otherwise the first validation would fail.
        data.tokenizer.check_languages(x for x, _ in data.pairs("valid"))
    return data


def check_resumes(run: Run, arguments: TrainingArguments, workers: int) -> None:
    """Raises InputError if arguments differ from the run's."""
    if run.checkpoints() and not run.state_path.exists():
        raise InputError(
            f"{run.path} cannot be resumed without its {run.state_path.name}. "
            "Train into a different folder, perhaps with init_from this run."
        )
    received = {**arguments.by_name(), "workers": workers}
    if isinstance(arguments.corpus, PreparedCorpus):
        del received["data"]  # the content is compared
    recorded = {
        **run.statistics,
        **run.config.to_dict(),
        "source": run.languages[0],
        "target": run.languages[1],
        **run.request,
    }
    check_equal(
        f"{run.path} was started with different arguments. Choose a "
        "different output, or leave them out.",
        _without_folders(recorded),
        _without_folders(received),
        _MAY_CHANGE,
    )


def _without_folders(value: Any) -> Any:
    """Returns a request with names instead of paths, since files may move."""
    if isinstance(value, dict):
        paths = {"corpora", "data", "init_from", "tokenizer"} & value.keys()
        return value | {name: _without_folders(value[name]) for name in paths}
    if isinstance(value, list):
        return [_without_folders(item) for item in value]
    if isinstance(value, str) and not value.startswith("tfds:"):
        return os.path.basename(os.path.realpath(value))
    return value


def _train_run(
    run: Run, arguments: TrainingArguments, devices: "Devices"
) -> None:
    """Trains a run, which may be new, to the end of its recipe."""
    from keras_transformer.train import fitting

    values = arguments.by_name()
    changes = {name: values[name] for name in values if name in _MAY_CHANGE}
    request = {**run.request, **changes}
    names = {field.name for field in dataclasses.fields(Recipe)}
    recipe = Recipe(**{name: x for name, x in request.items() if name in names})
    if read_step(run) >= recipe.steps:
        logger.info(f"training: all {recipe.steps:,} steps are done")
        return
    devices.check(recipe)
    data = _open_data(run, arguments.corpus)
    if data is arguments.corpus:  # it may have been moved
        request |= data.arguments()
    if devices.worker.is_chief and request != run.request:
        run.save_request(request)
    fitting.fit(run, data, recipe, devices)


def _open_data(run: Run, corpus: Corpus | None) -> PreparedCorpus:
    """Opens the prepared corpus of a run."""
    data = corpus
    if not isinstance(corpus, PreparedCorpus):
        places = [str(run.path / "data"), *run.request.get("data", [])]
        place = next(filter(prepared.is_prepared, places), None)
        if place is None:
            raise InputError(
                f"{run.path} cannot be resumed without its data. Received: no "
                f"prepared corpus in {' or '.join(places)}. If it was moved, "
                "pass its new folder."
            )
        data = prepared.open_prepared(place)
    logger.info(f"data: {data.name}")
    check_equal(
        f"{data.name} must contain the data and the tokenizer that {run.path} "
        "was started with. Choose a different output.",
        {**run.statistics, "tokenizer": run.tokenizer_digest},
        {"tokenizer": data.tokenizer.digest, **_counts(data)},
    )
    return data


def _counts(data: PreparedCorpus) -> dict[str, int]:
    """Returns the numbers by which a run recognizes its data."""
    counts = {"max_length": data.max_length, **vars(data.statistics)}
    del counts["dropped"]
    return counts
