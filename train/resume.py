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

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.support.locks import locked
from keras_transformer.text import Vocabulary
from keras_transformer.text.tokenizer_training import sample
from keras_transformer.train import preparation, training_settings
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.strategy import Worker, broadcast_from_chief
from keras_transformer.train.training_run import TrainingRun

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """The data of a run."""

    train: Prepared  # ids to train on
    valid_texts: list[tuple[str, str]]  # empty without a split valid

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
    def open(self) -> Iterator[tuple[TrainingRun, TrainingData | None]]:
        """Yields the run and its data, and locks the folder meanwhile.

        The data are None if there is nothing to train.
        """
        if (self.output / "config.json").exists():
            with locked(self.output):
                yield self._resume(TrainingRun.open(self.output))
            return
        check_free(self.output)
        run, data = self._start()
        with locked(self.output):
            yield run, data

    def open_as_chief_did(
        self,
        strategy: tf.distribute.Strategy,
        worker: Worker,
        run: TrainingRun | None,
        data: TrainingData | None,
    ) -> tuple[TrainingRun, TrainingData | None]:
        """Returns the run and the data that the chief, which has them, opened.

        Every worker must call this. The others wait, and read them from the
        same folder. They would train another model, or wait for ever, if their
        settings or their validation data differed.
        """
        settings = dataclasses.asdict(self.settings)
        # Paths may differ from machine to machine.
        for name in ("data", "corpora", "init_from", "tokenizer"):
            del settings[name]
        text = json.dumps(settings, sort_keys=True)
        own = [zlib.crc32(x.encode()) for x in (text, run.id if run else "")]
        received = broadcast_from_chief(strategy, np.array(own, np.int64))
        if own[0] != received[0]:
            raise InputError(
                "Every worker must have the settings of worker 0. Received: "
                f"worker {worker.index} with other settings"
            )
        if run is not None:
            return run, data
        if (self.output / "config.json").exists():
            run = TrainingRun.open(self.output)
        if run is None or zlib.crc32(run.id.encode()) != received[1]:
            raise InputError(
                "Every worker must see the folder of the run that worker 0 "
                "writes, and the one beside it with the prepared corpus. "
                f"Received: {self.output} on worker {worker.index}, which is "
                "another folder. Choose an output that all machines share."
            )
        if self.settings.has_steps_left(run):
            data = self._read_data(run)
        return run, data

    def _resume(
        self, run: TrainingRun
    ) -> tuple[TrainingRun, TrainingData | None]:
        if not self.settings.has_steps_left(run):
            return run, None
        workers = run.statistics["workers"]
        if self.workers != workers:
            raise InputError(
                f"{run.path} was started with {workers} workers, each of which "
                f"has a part of the data. Received: {self.workers} workers"
            )
        data = self._read_data(run)
        return run.with_recipe(self.settings.recorded(run.config)), data

    def _read_data(self, run: TrainingRun) -> TrainingData:
        """Returns the data of a run; refuses a corpus that has changed."""
        recorded = run.statistics
        if "prepared" not in recorded:
            raise InputError(
                f"{run.path} was started by an earlier version, which trained "
                "in another order. Finish it with that version, or train into "
                "another folder, perhaps with --init-from this run."
            )
        other_data = (
            f"{run.path} was started with other data. Choose another output, "
            f"or use the same data. Checksums of {self.corpus.name} differ."
        )
        refuse_differences = training_settings.refuse_differences
        refuse_differences(other_data, recorded["checksums"], self._checksums())
        train = self._prepare(run.tokenizer, recorded["prepared"])
        ids = {"ids": train.checksum}
        refuse_differences(other_data, {"ids": recorded["ids"]}, ids)
        return TrainingData(train, self._read_valid())

    def _start(self) -> tuple[TrainingRun, TrainingData]:
        """Creates a new run."""
        settings, corpus = self.settings, self.corpus
        past = tokenizer = None
        if settings.init_from is not None:
            past = TrainingRun.open(settings.init_from)
            settings.check_init_from(past, corpus)
            tokenizer = past.tokenizer
            preparation.report_tokenizer(tokenizer, past.path)
        elif settings.tokenizer is not None:
            tokenizer = preparation.own_tokenizer(settings.tokenizer)
        # A damaged text is found before the hours that train may take.
        valid_texts = self._read_valid()
        train = self._prepare(tokenizer)
        # Otherwise the first validation would fail.
        train.tokenizer.check_languages(source for source, _ in valid_texts)
        if tokenizer is None and corpus.prepared is not None:
            preparation.report_tokenizer(train.tokenizer, train.path)
        elif tokenizer and tokenizer.digest != train.tokenizer.digest:
            paths = settings.tokenizer or [past.path]
            raise InputError(
                f"{train.path} was prepared with another tokenizer than the "
                "one to train with. Prepare the corpus with --tokenizer "
                f"{' '.join(map(str, paths))}."
            )
        # Also refuses files that are damaged.
        pairs = sum(shard.pairs for shard in train.shards)
        encoding.check_pairs(pairs, self.workers)
        data = TrainingData(train, valid_texts)
        self._report(data)
        config = settings.config_for(train.tokenizer)
        sources = (source for source, _ in valid_texts)
        run = TrainingRun.create(
            self.output,
            config,
            settings.recorded(config),
            train.tokenizer,
            {
                **dataclasses.asdict(train.statistics),
                "checksums": self._checksums(),  # of the texts by split
                "ids": train.checksum,
                # Name of the folder beside the run.
                "prepared": None if corpus.prepared else train.path.name,
                "workers": self.workers,
                "init_from": past and past.id,  # the id of that run
                "example": next(filter(None, sources), None),
            },
            task=corpus.task,
            search=past and past.search,
        )
        return run, data

    @functools.cached_property
    def _digests(self) -> dict[str, str]:
        """Digests of train, and of valid if there is one."""
        splits = [s for s in ("train", "valid") if s in self.corpus.splits]
        return {split: self.corpus.digest(split) for split in splits}

    def _checksums(self) -> dict[str, str]:
        """Returns the digests as a run records them."""
        return {split: digest[:16] for split, digest in self._digests.items()}

    def _prepare(
        self, tokenizer: Vocabulary | None, name: str | None = None
    ) -> Prepared:
        """Returns the ids to train on; `name` is that of their folder."""
        if self.corpus.prepared is not None:
            return self.corpus.prepared
        recipe = self.settings.recipe
        work = preparation.Preparation(self.corpus, recipe, tokenizer)
        name = name or work.name(self._digests["train"])
        return work.write_beside(self.output, name)

    def _read_valid(self) -> list[tuple[str, str]]:
        if "valid" not in self.corpus.splits:
            return []
        return list(self.corpus.pairs("valid"))

    def _report(self, data: TrainingData) -> None:
        """Reports what is used; refuses what `patience` cannot use."""
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
            missing = "validation loss, score or curve, nor a --checkpoint best"
            logger.info(f"valid: no such split; there will be no {missing}")
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
