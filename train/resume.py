"""Starts a new run, or resumes the run that the same arguments started."""

import contextlib
import dataclasses
import functools
import json
import logging
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.support.locks import locked
from keras_transformer.text import Vocabulary
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import PairEncoder, check_pairs
from keras_transformer.train.data.prepared import Prepared, is_prepared
from keras_transformer.train.fitting import training_state
from keras_transformer.train.preparation import Preparation, tokenizer_of
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.strategy import broadcast_from_chief
from keras_transformer.train.training_run import TrainingRun

logger = logging.getLogger(__name__)

# What may differ when a run is resumed: its length, what it keeps, and where
# its data are. Checksums tell whether they are the same data.
_MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard", "data"}

# What differs from the small recipe for an architecture that is no preset's: a
# model that another system has trained, or that was trained further. With a
# width of 512 the learning rate rises to 9e-5, and falls.
_FINE_TUNING = {
    "steps": 2_000,
    "steps_per_epoch": 200,
    "warmup_steps": 100,
    "learning_rate_scale": 0.02,
}

# Beside the runs, so that those on the same corpus share what is prepared.
_PREPARED_FOLDER = "prepared-corpora"


@dataclasses.dataclass(frozen=True)
class Job:
    """The arguments of `train`, and the worker that has them."""

    corpus: Corpus
    output: Path  # folder of the run
    preset: str | None  # None: the architecture that is kept is no preset's
    recipe: Recipe
    architecture: dict[str, Any]  # values that differ from the preset's
    init_from: Path | None  # whose tokenizer and weights a new run starts with
    workers: int = 1
    keeps_architecture: bool = False  # that of `init_from`
    index: int = 0  # of this worker

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the run."""
        return self.index == 0

    def settings(
        self, config: TransformerConfig | None = None
    ) -> dict[str, Any]:
        """Returns what a run of an architecture records, as plain values."""
        settings = {
            "preset": self.preset,
            "data": self.corpus.name,
            "source": self.corpus.source,
            "target": self.corpus.target,
            "init_from": self.init_from and str(self.init_from.resolve()),
            **dataclasses.asdict(self.recipe),
        }
        if config and self.init_from:  # whose vocabulary the run has
            settings["vocab_size"] = config.vocab_size
        return settings

    def config(
        self, tokenizer: Vocabulary, base_config: TransformerConfig | None
    ) -> TransformerConfig:
        """Returns the architecture with the ids of a tokenizer.

        `base_config`, from which it may be kept, is that of `init_from`, or of
        the run itself if it is resumed.
        """
        ids = dict(
            vocab_size=tokenizer.vocab_size,
            max_length=self.recipe.max_length,
            pad_id=tokenizer.pad_id,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
        )
        if self.keeps_architecture:
            return dataclasses.replace(base_config, **ids, **self.architecture)
        return TransformerConfig.from_preset(
            self.preset, **ids, **self.architecture
        )

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """What identifies the pairs of train, and of valid if there is one."""
        splits = [s for s in ("train", "valid") if s in self.corpus.splits]
        return {split: self.corpus.digest(split) for split in splits}

    def checksums(self) -> dict[str, str]:
        """Returns the digests as a run records them."""
        return {split: digest[:16] for split, digest in self.digests.items()}

    def prepare(
        self, tokenizer: Vocabulary | None, name: str | None = None
    ) -> tuple[Prepared, str | None]:
        """Returns the training data, and the folder that has them as ids.

        Its default name is a hash of its content. It is None if the corpus was
        prepared before.
        """
        if self.corpus.prepared is not None:
            return self.corpus.prepared, None
        sizes = self.recipe.vocab_size, self.recipe.max_length
        preparation = Preparation(self.corpus, *sizes, tokenizer)
        name = name or preparation.name(self.digests["train"])
        output = self.output.absolute()
        folder = output.parent / _PREPARED_FOLDER / name
        try:
            if not is_prepared(folder):
                check_free(folder)
        except InputError as error:
            raise InputError(
                f"The corpus is prepared beside the run. {error} A folder in "
                f"the given one will do, such as --output {output / 'run'}."
            ) from error
        return preparation.write_once(folder), name


def default_values(
    corpus: Corpus,
    output: Path,
    preset: str | None,
    init_from: str | Path | None,
) -> tuple[str | None, dict[str, Any]]:
    """Returns the preset, and what differs from its recipe by default.

    Without a preset they are those of the run to start from, whose
    architecture is kept then. If that has no preset either, as an imported
    model, it is None: the recipe is the small one at a low learning rate. A
    prepared corpus fixes its own values.
    """
    values = {}
    if preset is None and init_from is None:
        preset = "small"
    elif preset is None:
        # A run that is resumed no longer needs the other run.
        is_resumed = (output / "config.json").exists()
        past = TrainingRun.open(output if is_resumed else init_from)
        preset = past.recipe.get("preset")
        if preset not in PRESETS:
            preset, values = None, dict(_FINE_TUNING)
        values |= {
            "vocab_size": past.config.vocab_size,
            "max_length": past.config.max_length,
        }
    if corpus.prepared is not None:
        values |= {
            "vocab_size": corpus.prepared.tokenizer.vocab_size,
            "max_length": corpus.prepared.max_length,
        }
    return preset, values


@contextlib.contextmanager
def open_run(job: Job) -> Iterator[tuple[TrainingRun, Prepared | None]]:
    """Opens the run of a job and its training data, and locks the folder.

    The data are None if there is nothing to train. Refuses other settings or
    data than the run was started with, and a folder that is in use.
    """
    if (job.output / "config.json").exists():
        with locked(job.output):
            run, prepared = TrainingRun.open(job.output), None
            if _can_be_resumed(run, job):
                prepared = _open_data(run, job)
                run = run.with_recipe(job.settings(run.config))
            yield run, prepared
        return
    check_free(job.output)
    config, prepared, statistics, search = _start(job)
    run = TrainingRun.create(
        job.output,
        config,
        job.settings(config),
        prepared.tokenizer,
        statistics,
        task=job.corpus.task,
        search=search,
    )
    with locked(job.output):
        yield run, prepared


def open_shared_run(
    strategy: tf.distribute.Strategy,
    job: Job,
    run: TrainingRun | None,
    prepared: Prepared | None,
) -> tuple[TrainingRun, Prepared | None]:
    """Returns the run and the training data, which the chief has opened.

    The other workers wait for it, and read them from the same folder. They
    would train another model, or wait for ever, if their settings or their
    validation data differed.

    Every worker must call this function. `run` and `prepared` are what
    `open_run` yields on the chief, and None on the others.
    """
    settings = job.settings() | job.architecture
    # Paths may differ from machine to machine.
    del settings["data"], settings["init_from"]
    text = json.dumps(settings, sort_keys=True)
    own = [
        zlib.crc32(text.encode()),
        zlib.crc32(run.id.encode()) if run else 0,
        int(prepared is not None),
    ]
    received = broadcast_from_chief(strategy, np.array(own, np.int64))
    expected, run_id, trains = received.tolist()
    if own[0] != expected:
        raise InputError(
            "Every worker must have the settings of worker 0. Received: "
            f"worker {job.index} with other settings"
        )
    if run is not None:
        return run, prepared
    if (job.output / "config.json").exists():
        run = TrainingRun.open(job.output)
    if run is None or zlib.crc32(run.id.encode()) != run_id:
        raise InputError(
            "Every worker must see the folder of the run that worker 0 writes, "
            "and the one beside it with the prepared corpus. Received: "
            f"{job.output} on worker {job.index}, which is another folder. "
            "Choose an output that all machines share."
        )
    return run, _open_data(run, job) if trains else None


def _open_data(run: TrainingRun, job: Job) -> Prepared:
    """Returns the training data of a run; refuses a corpus that has changed."""
    known = run.statistics
    if "prepared" not in known:
        raise InputError(
            f"{run.path} was started by an earlier version, which trained in "
            "another order. Finish it with that version, or train into "
            "another folder, perhaps with --init-from this run."
        )
    refused = (
        f"{run.path} was started with other data. Choose another output, or "
        f"use the same data. Checksums of {job.corpus.name} differ."
    )
    _refuse_differences(refused, known["checksums"], job.checksums())
    prepared, _ = job.prepare(run.tokenizer, known["prepared"])
    ids = {"ids": prepared.checksum}
    _refuse_differences(refused, {"ids": known["ids"]}, ids)
    return prepared


def _can_be_resumed(run: TrainingRun, job: Job) -> bool:
    """Returns whether there is something to train; refuses other settings."""
    free, settings = set(_MAY_CHANGE), job.settings(run.config)
    # The other run may have been moved, or removed since.
    if job.init_from and settings["init_from"] != run.recipe.get("init_from"):
        if TrainingRun.open(job.init_from).id == run.statistics["init_from"]:
            free.add("init_from")
    _refuse_differences(
        f"{run.path} was started with other values. Choose another output, "
        "use the same values, or remove it first.",
        {**run.recipe, **run.config.to_dict()},
        {**job.config(run.tokenizer, run.config).to_dict(), **settings},
        free,
    )
    if not run.state_path.exists():
        if run.checkpoints():
            raise InputError(
                f"{run.path} cannot be resumed without its "
                f"{run.state_path.name}. Train into another folder, perhaps "
                "with --init-from this run."
            )
    elif training_state.load_step(run.state_path) >= job.recipe.steps:
        return False  # the data do not matter
    workers = run.statistics["workers"]
    if job.workers != workers:
        raise InputError(
            f"{run.path} was started with {workers} workers, each of which has "
            f"a part of the data. Received: {job.workers} workers"
        )
    return True


def _start(
    job: Job,
) -> tuple[TransformerConfig, Prepared, dict[str, Any], BeamSearch | None]:
    """Returns what a new run has.

    Its architecture, its training data, their statistics, and its search.
    """
    corpus, recipe = job.corpus, job.recipe
    past = tokenizer = config = None
    if job.init_from is not None:
        past = TrainingRun.open(job.init_from)
        past.find_checkpoint()  # refuses a run that has none
        tokenizer = tokenizer_of(past, corpus)
        config = job.config(tokenizer, past.config)
        free = {"dropout", "attention_window"}
        if config.positional_encoding == "sinusoidal":
            free.add("max_length")
        _refuse_differences(
            f"{past.path} has another architecture, so that its weights do not "
            "fit. Choose the same architecture.",
            past.config.to_dict(),
            config.to_dict(),
            free,
        )
    example = None
    if "valid" in corpus.splits:
        # A damaged text is found before the hours that train may take.
        for source, _ in corpus.pairs("valid"):
            example = example or source
    prepared, name = job.prepare(tokenizer)
    if tokenizer is None and corpus.prepared is not None:
        size = prepared.tokenizer.vocab_size
        logger.info(f"tokenizer: {size:,} tokens, from {prepared.path}")
    elif tokenizer and tokenizer.digest != prepared.tokenizer.digest:
        raise InputError(
            f"{prepared.path} was prepared with another tokenizer than that of "
            f"{past.path}. Prepare the corpus with --init-from {past.path}."
        )
    # Also refuses files that are damaged.
    pairs = sum(shard.pairs for shard in prepared.shards)
    check_pairs(pairs, recipe.max_length, job.workers)
    _report(job, prepared)
    statistics = {
        **dataclasses.asdict(prepared.statistics),
        "checksums": job.checksums(),  # of the texts by split
        "ids": prepared.checksum,
        "prepared": name,  # of the folder beside the run, or None
        "workers": job.workers,
        "init_from": past and past.id,  # the id of that run
        "example": example,  # the first source of valid
    }
    config = config or job.config(prepared.tokenizer, None)
    return config, prepared, statistics, past and past.search


def _report(job: Job, prepared: Prepared) -> None:
    """Prints what is used of the data; refuses what `patience` cannot use."""
    corpus, recipe = job.corpus, job.recipe
    if "valid" in corpus.splits:
        encoder = PairEncoder(
            prepared.tokenizer, recipe.max_length, corpus.task
        )
        for _ in encoder.shards(corpus.pairs("valid")):
            pass
        valid = encoder.statistics
        logger.info(f"valid: {valid.describe(recipe.max_length)}")
        if recipe.patience is not None and not valid.pairs:
            raise InputError(
                "patience needs validation pairs, whose loss it monitors, and "
                f"none is left. Received: patience={recipe.patience}"
            )
    train = prepared.statistics
    logger.info(f"train: {train.describe(recipe.max_length)}")
    tokens = train.source_tokens + train.target_tokens
    passes = recipe.steps * recipe.batch_tokens / tokens
    passes = f"at most {passes:,.1f}" if passes >= 0.1 else "less than 0.1"
    logger.info(
        f"train: {recipe.steps:,} steps are {passes} passes over the data"
    )


def _refuse_differences(
    message: str,
    recorded: dict[str, Any],
    given: dict[str, Any],
    free: Collection[str] = (),
) -> None:
    differences = [
        f"{name}={given.get(name)!r} instead of {recorded.get(name)!r}"
        for name in {**given, **recorded}
        if recorded.get(name) != given.get(name) and name not in free
    ]
    if differences:
        raise InputError(f"{message} Received: {'; '.join(differences)}")
