"""Opens the run of a training, new or resumed, and its data."""

import contextlib
import dataclasses
import functools
import json
import logging
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf
import yaml

from keras_transformer.inference.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, atomic_write
from keras_transformer.support.locks import locked
from keras_transformer.text import Tokenizer
from keras_transformer.text.tokenizer_training import sample
from keras_transformer.train import preparation, training_settings
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import Corpus, open_corpus
from keras_transformer.train.data.prepared import Prepared, is_prepared
from keras_transformer.train.strategy import Worker, broadcast_from_chief

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The data of a run."""

    train: Prepared  # ids to train on
    valid_texts: list[tuple[str, str]]  # empty without a split valid

    @classmethod
    def read(cls, corpus: Corpus) -> "TrainingData":
        """Returns the data of a prepared corpus."""
        has_valid = "valid" in corpus.splits
        texts = list(corpus.pairs("valid")) if has_valid else []
        return cls(corpus.prepared, texts)

    @functools.cached_property
    def valid(self) -> tuple[list[encoding.TokenShard], encoding.Statistics]:
        """The ids of `valid_texts`, and their statistics."""
        train = self.train
        encoder = encoding.PairEncoder(
            train.tokenizer, train.max_length, train.task
        )
        return list(encoder.shards(self.valid_texts)), encoder.statistics

    def sample_valid(self, count: int, seed: int) -> list[tuple[str, str]]:
        """Returns random pairs of `valid_texts`, in their order."""
        drawn = sample(enumerate(self.valid_texts), count, seed)
        return [pair for _, pair in sorted(drawn)]


@dataclasses.dataclass(frozen=True)
class RunOpener:
    """Opens the run of some settings, and reads its data."""

    settings: training_settings.TrainingSettings
    corpus: Corpus  # that of the settings
    output: Path  # folder of the run
    workers: int = 1

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Run, TrainingData | None]]:
        """Yields the run and its data, and locks the folder meanwhile.

        The data are None if there is nothing to train.
        """
        if not (self.output / "config.json").exists():
            with atomic_folder(self.output) as folder:
                self._create(folder)
        with locked(self.output):
            run, data = self._read()
            if data is not None:
                recipe = self.settings.recorded(run.config)
                if recipe != run.recipe:
                    self._write_flags(self.output)
                run = run.with_recipe(recipe)
            yield run, data

    def open_as_chief_did(
        self,
        strategy: tf.distribute.Strategy,
        worker: Worker,
        run: Run | None,
        data: TrainingData | None,
    ) -> tuple[Run, TrainingData | None]:
        """Returns the chief's run and data.

        Every worker must call this. The others wait for the chief, and read
        them from the same folder.
        """
        settings = dataclasses.asdict(self.settings)
        # Paths may differ from machine to machine.
        for name in ("data", "corpora", "init_from", "tokenizer"):
            del settings[name]
        text = json.dumps(settings, sort_keys=True)
        own = np.array(zlib.crc32(text.encode()), np.int64)
        if own != broadcast_from_chief(strategy, own):
            raise InputError(
                "Every worker must have the settings of worker 0. Received: "
                f"worker {worker.index} with other settings"
            )
        if run is not None:
            return run, data
        if not (self.output / "config.json").exists():
            raise InputError(
                "Every worker must see the folder of the run that worker 0 "
                f"writes. Received: {self.output} without a run on worker "
                f"{worker.index}. Choose an output that all machines share."
            )
        return self._read()

    def _read(self) -> tuple[Run, TrainingData | None]:
        """Returns the run in the folder, and its data if they are needed."""
        run = Run.open(self.output)
        if not self.settings.has_steps_left(run):
            return run, None
        workers = run.statistics["workers"]
        if self.workers != workers:
            raise InputError(
                f"{run.path} was started with {workers} workers, each of which "
                f"has a part of the data. Received: {self.workers} workers"
            )
        data = self._read_data(self.output)
        train = data.train
        logger.info(f"data: {train.path}")
        _check_tokenizer(train, run.tokenizer, f"--tokenizer {run.path}")
        statistics = dataclasses.asdict(train.statistics)
        training_settings.refuse_differences(
            f"{train.path} has other data than those that {run.path} was "
            "started with. Choose a different output.",
            {name: run.statistics[name] for name in statistics},
            statistics,
        )
        return run, data

    def _read_data(self, run: Path) -> TrainingData:
        """Returns the data in the folder of a run, or the prepared corpus."""
        if self.corpus.prepared is not None:
            return TrainingData.read(self.corpus)
        if not is_prepared(run / "data"):
            raise InputError(
                f"{run} cannot be resumed without its folder data. Train into "
                "a different folder, perhaps with init_from this run."
            )
        return TrainingData.read(open_corpus(str(run / "data")))

    def _create(self, folder: Path) -> None:
        """Writes a new run into a folder."""
        settings, corpus = self.settings, self.corpus
        past = tokenizer = None
        if settings.init_from is not None:
            past = Run.open(settings.init_from)
            settings.check_init_from(past, corpus)
            tokenizer = past.tokenizer
            preparation.report_tokenizer(tokenizer, past.path)
        elif settings.tokenizer is not None:
            tokenizer = preparation.own_tokenizer(settings.tokenizer)
        if corpus.prepared is None:
            logger.info(f"preparing: {corpus.name}")
            (folder / "data").mkdir()
            preparation.Preparation(
                corpus,
                settings.recipe,
                tokenizer,
                tuple({"valid"}.intersection(corpus.splits)),
            ).write(folder / "data")
        data = self._read_data(folder)
        train = data.train
        # Otherwise the first validation would fail.
        sources = [source for source, _ in data.valid_texts]
        train.tokenizer.check_languages(sources)
        if tokenizer is not None:
            paths = settings.tokenizer or [past.path]
            advice = f"--tokenizer {' '.join(map(str, paths))}"
            _check_tokenizer(train, tokenizer, advice)
        elif corpus.prepared is not None:
            preparation.report_tokenizer(train.tokenizer, train.path)
        self._report(data)
        config = settings.config_for(train.tokenizer)
        Run(
            path=folder,
            config=config,
            recipe=settings.recorded(config),
            own_tokenizer=train.tokenizer,
            tokenizer_digest=train.tokenizer.digest,
            statistics={
                **dataclasses.asdict(train.statistics),
                "workers": self.workers,
                "example": next(filter(None, sources), None),
            },
            task=corpus.task,
            search=past and past.search,
        ).write()
        self._write_flags(folder)

    def _write_flags(self, folder: Path) -> None:
        """Writes `train.yaml`."""
        flags = self.settings.flags(self.corpus)
        with atomic_write(folder / "train.yaml") as partial:
            text = yaml.safe_dump(flags, sort_keys=False, allow_unicode=True)
            partial.write_text(text, "utf-8")

    def _report(self, data: TrainingData) -> None:
        """Reports what is used; raises if `patience` has no loss to monitor."""
        recipe, train = self.settings.recipe, data.train.statistics
        if data.valid_texts:
            _, valid = data.valid
            logger.info(f"valid: {valid.describe(recipe.max_length)}")
            if recipe.patience is not None and not valid.pairs:
                raise InputError(
                    "patience needs validation pairs, whose loss it monitors, "
                    f"and none is left. Received: patience={recipe.patience}"
                )
        else:
            logger.info("no validation split: skipping validation")
        logger.info(f"train: {train.describe(recipe.max_length)}")
        tokens = 0.0
        for entry, own in data.train.parts or [(None, train)]:
            weight = 1 if entry is None else entry.weight
            tokens += weight * (own.source_tokens + own.target_tokens)
            if entry is not None:
                described = own.describe(recipe.max_length)
                logger.info(f"  {entry}, weight {weight:g}: {described}")
        passes = recipe.steps * recipe.batch_tokens / tokens
        passes = f"at most {passes:,.1f}" if passes >= 0.1 else "less than 0.1"
        steps = f"{recipe.steps:,} steps"
        logger.info(f"train: {steps} are {passes} passes over the data")


def _check_tokenizer(
    train: Prepared, tokenizer: Tokenizer, advice: str
) -> None:
    """Raises InputError if a corpus was prepared with a different tokenizer."""
    if tokenizer.digest != train.tokenizer.digest:
        raise InputError(
            f"{train.path} was prepared with a different tokenizer than the "
            f"one to train with. Prepare the corpus with {advice}."
        )
