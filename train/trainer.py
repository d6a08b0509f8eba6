"""The training program: `Transformer.fit` on a corpus, into a run folder."""

import contextlib
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder
from keras_transformer.support.locks import locked
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.train import preparation
from keras_transformer.train.data.corpus import Corpus, open_corpus
from keras_transformer.train.data.encoding import check_budget
from keras_transformer.train.data.prepared import Prepared, is_prepared
from keras_transformer.train.job import (
    MAY_CHANGE,
    Job,
    Request,
    check_resumable,
)
from keras_transformer.train.recipe import Recipe
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
    request = Request(corpus, preset, recipe, architecture, init_from, paths)
    with contextlib.ExitStack() as stack:
        if dry_run:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            output = Path(folder, "run")
        if output is None:
            raise InputError(
                "Pass the argument `output`, a folder, or the argument "
                "`dry_run` to try without one."
            )
        output, job = Path(output), None
        if not Run.exists(output):
            if corpus is None:
                raise InputError(
                    "A training needs data, unless it resumes the run in the "
                    "argument `output`, without the argument `dry_run`."
                )
            job = Job.choose(request)
        import_tensorflow_quietly()
        from keras_transformer.train import fitting
        from keras_transformer.train import strategy as strategies

        if isinstance(strategy, str):
            strategy = strategies.open_strategy(strategy)
        worker = strategies.worker(strategy)
        if worker.is_chief:
            if job is not None:
                _create(job, output, worker.count)
            stack.enter_context(locked(output))
        arguments = request.arguments()
        if corpus is not None and corpus.prepared is not None:
            del arguments["data"]  # the content is compared
        strategies.check_same_request(strategy, arguments)
        run = Run.open(output)
        check_resumable(run, {**arguments, "workers": worker.count})
        changed = {x: y for x, y in arguments.items() if x in MAY_CHANGE}
        recorded = {**run.request, **changed}
        names = Recipe.__dataclass_fields__.keys() & recorded.keys()
        recipe = Recipe(**{name: recorded[name] for name in names})
        if read_step(run) >= recipe.steps:
            logger.info(f"training: all {recipe.steps:,} steps are done")
            return run if worker.is_chief else None
        data = _open_data(run, corpus)
        if data is corpus:  # it may have been moved
            recorded |= corpus.request()
        if worker.is_chief and recorded != run.request:
            run.save_request(recorded)
            run = Run.open(output)
        fitting.fit(run, data, recipe, strategy, dry_run)
        return run if worker.is_chief and not dry_run else None


def _create(job: Job, output: Path, workers: int) -> None:
    """Creates the run of a job, with its data."""
    corpus, past, recipe = job.corpus, job.past, job.recipe
    check_budget(recipe.batch_tokens, recipe.max_length, workers)
    with atomic_folder(output) as folder:
        data = corpus.prepared
        if data is None:
            logger.info(f"preparing: {corpus.name}")
            data = preparation.prepare(
                corpus,
                folder / "data",
                recipe,
                job.tokenizer,
                splits=["valid"],
            )
        sources = []
        if "valid" in corpus.splits:
            sources = [source for source, _ in corpus.pairs("valid")]
        # Otherwise the first validation would fail.
        data.tokenizer.check_languages(sources)
        Run.create(
            folder,
            job.config_for(data.tokenizer),
            data.tokenizer,
            task=corpus.task,
            search=past and past.search,
            languages=(corpus.source, corpus.target),
            statistics={
                "corpus": corpus.name,
                **_numbers(data),
                "workers": workers,
                "example": next(filter(None, sources), None),
            },
            request=job.request,
        )


def _open_data(run: Run, corpus: Corpus | None) -> Corpus:
    """Opens the prepared corpus of a run."""
    if corpus is not None and corpus.prepared is not None:
        data = corpus
    else:
        places = [str(run.path / "data"), *run.request.get("data", ())]
        place = next(filter(is_prepared, places), None)
        if place is None:
            raise InputError(
                f"{run.path} cannot be resumed without its data. Received: no "
                f"prepared corpus in {' or '.join(places)}. If it was moved, "
                "pass its new folder."
            )
        data = open_corpus(place)
    logger.info(f"data: {data.name}")
    numbers, digest = _numbers(data.prepared), data.prepared.tokenizer.digest
    recorded = {name: run.statistics[name] for name in numbers}
    if (numbers, digest) != (recorded, run.tokenizer_digest):
        raise InputError(
            f"{data.name} must contain the data and the tokenizer that "
            f"{run.path} was started with. Received: different ones. Choose a "
            "different output."
        )
    return data


def _numbers(data: Prepared) -> dict[str, Any]:
    """Returns the counts by which a run recognizes its data."""
    return {
        "max_length": data.max_length,
        "pairs": data.statistics.pairs,
        "source_tokens": data.statistics.source_tokens,
        "target_tokens": data.statistics.target_tokens,
    }
