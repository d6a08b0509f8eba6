"""The training program: `Transformer.fit` on a corpus, into a run folder."""

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, locked
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.train import preparation
from keras_transformer.train.data import prepared
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import check_budget
from keras_transformer.train.data.prepared import PreparedCorpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.request import MAY_CHANGE, Request, check_equal
from keras_transformer.train.state import read_step

if TYPE_CHECKING:
    import tensorflow as tf

logger = logging.getLogger(__name__)


def train(
    corpus: Corpus | None,
    output: str | Path | None,
    preset: str | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    *,
    architecture: Mapping[str, Any] | None = None,
    strategy: "tf.distribute.Strategy | str" = "single",
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
        strategy: From `open_strategy`, or the name of one.
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
    paths = tokenizer and [Path(path) for path in tokenizer]
    if isinstance(recipe, Recipe):
        recipe = dataclasses.asdict(recipe)
    request = Request(corpus, preset, recipe, architecture, init_from, paths)
    if output is None and not dry_run:
        raise InputError("is required, except for a dry run.", "output")
    is_new = dry_run or not Run.exists(output)
    if is_new:
        request.check_new()
    import_tensorflow_quietly()
    from keras_transformer.train import strategy as strategies

    if isinstance(strategy, str):
        strategy = strategies.open_strategy(strategy)
    worker = strategies.worker(strategy)
    if dry_run:
        from keras_transformer.train.fitting import try_steps

        with tempfile.TemporaryDirectory() as folder:
            data = _prepared_data(request, Path(folder, "data"), worker.count)
            config = request.config_with(data.tokenizer)
            try_steps(config, data, request.resolved_recipe, strategy)
        return None
    with contextlib.ExitStack() as stack:
        if worker.is_chief:
            if is_new:
                _create(request, Path(output), worker.count)
            stack.enter_context(locked(output))
        # The other workers wait here until the chief has created the run.
        arguments = request.arguments()
        if isinstance(corpus, PreparedCorpus):
            del arguments["data"]  # the content is compared
        strategies.check_same_request(strategy, arguments)
        run = Run.open(output)
        request.check_resumes(run, worker.count)
        _resume(run, request, strategy)
    return Run.open(output) if worker.is_chief else None


def _create(request: Request, output: Path, workers: int) -> None:
    """Creates a run, with its data."""
    corpus = request.corpus
    with atomic_folder(output) as folder:
        data = _prepared_data(request, folder / "data", workers)
        example = None
        if "valid" in corpus.splits:
            sources = (source for source, _ in corpus.pairs("valid"))
            example = next(filter(None, sources), None)
        Run.create(
            folder,
            request.config_with(data.tokenizer),
            data.tokenizer,
            task=corpus.task,
            search=None if request.past is None else request.past.search,
            languages=(corpus.source, corpus.target),
            statistics={
                "corpus": corpus.name,
                **_counts(data),
                "workers": workers,
                "example": example,
            },
            request=request.resolved_arguments(),
        )


def _prepared_data(
    request: Request, folder: Path, workers: int
) -> PreparedCorpus:
    """Returns the corpus if it is prepared; else prepares it in a folder."""
    data = request.corpus
    recipe = request.resolved_recipe
    check_budget(recipe.batch_tokens, recipe.max_length, workers)
    if not isinstance(data, PreparedCorpus):
        logger.info(f"preparing: {data.name}")
        data = preparation.prepare(
            data, folder, recipe, request.resolved_tokenizer, splits=["valid"]
        )
    if "valid" in data.splits:
        # Otherwise the first validation would fail.
        sources = [source for source, _ in data.pairs("valid")]
        data.tokenizer.check_languages(sources)
    return data


def _resume(
    run: Run, request: Request, strategy: "tf.distribute.Strategy"
) -> None:
    """Trains a run, which may be new, to the end of its recipe."""
    from keras_transformer.train import fitting
    from keras_transformer.train.strategy import worker

    given = request.arguments()
    changed = {name: x for name, x in given.items() if name in MAY_CHANGE}
    recorded = {**run.request, **changed}
    names = {field.name for field in dataclasses.fields(Recipe)}
    recipe = Recipe(**{x: y for x, y in recorded.items() if x in names})
    if read_step(run) >= recipe.steps:
        logger.info(f"training: all {recipe.steps:,} steps are done")
        return
    data = _open_data(run, request.corpus)
    if data is request.corpus:  # it may have been moved
        recorded |= data.request()
    if worker(strategy).is_chief and recorded != run.request:
        run.save_request(recorded)
    fitting.fit(run, data, recipe, strategy)


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
    counts = _counts(data)
    recorded = {name: run.statistics[name] for name in counts}
    check_equal(
        f"{data.name} must contain the data and the tokenizer that {run.path} "
        "was started with. Choose a different output.",
        {"tokenizer": run.tokenizer_digest, **recorded},
        {"tokenizer": data.tokenizer.digest, **counts},
    )
    return data


def _counts(data: PreparedCorpus) -> dict[str, int]:
    """Returns the numbers by which a run recognizes its data."""
    return {
        "max_length": data.max_length,
        "pairs": data.statistics.pairs,
        "source_tokens": data.statistics.source_tokens,
        "target_tokens": data.statistics.target_tokens,
    }
