"""Starts a new run, or resumes the run that the same arguments started."""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.train import state
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import Encoder
from keras_transformer.train.data.pipeline import check_pairs
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.preparation import Preparation, tokenizer_of
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import TrainingRun, check_free, locked

# What may differ when a run is resumed: its length, what it keeps, and where
# its data are. Checksums tell whether they are the same data.
_MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard", "data"}

# Beside the runs, so that those on the same corpus share what is prepared.
_PREPARED_FOLDER = "prepared-corpora"


@dataclasses.dataclass(frozen=True)
class Job:
    """The arguments of `train`.

    Args:
        corpus: The data.
        output: Folder of the run.
        preset: Name of the architecture and of the recipe.
        recipe: How to train.
        architecture: Arguments of `TransformerConfig` that differ from the
            preset's.
        init_from: The run whose tokenizer and weights a new run starts with.
        workers: Number of workers.
        keeps_architecture: Whether the architecture is that of `init_from`,
            rather than the preset's.
    """

    corpus: Corpus
    output: Path
    preset: str
    recipe: Recipe
    architecture: dict[str, Any]
    init_from: Path | None
    workers: int
    keeps_architecture: bool = False

    def settings(self) -> dict[str, Any]:
        """Returns what a run records, as plain values."""
        return {
            "preset": self.preset,
            "data": self.corpus.name,
            "source": self.corpus.source,
            "target": self.corpus.target,
            "init_from": self.init_from and str(self.init_from.resolve()),
            **dataclasses.asdict(self.recipe),
        }

    def config(
        self, tokenizer: Tokenizer, past: TransformerConfig | None
    ) -> TransformerConfig:
        """Returns the architecture with the ids of a tokenizer.

        `past` is that of `init_from`, or of the run itself if it is resumed.
        """
        ids = dict(
            vocab_size=tokenizer.vocab_size,
            max_length=self.recipe.max_length,
            pad_id=tokenizer.pad_id,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
        )
        if self.keeps_architecture:
            return dataclasses.replace(past, **ids, **self.architecture)
        return TransformerConfig.from_preset(
            self.preset, **ids, **self.architecture
        )

    def checksums(self) -> dict[str, str | None]:
        """Returns what identifies the pairs of train and valid.

        It is None for a missing split.
        """
        return {
            split: self.corpus.digest(split)[:16]
            if split in self.corpus.splits
            else None
            for split in ("train", "valid")
        }


def default_values(
    corpus: Corpus,
    output: Path,
    preset: str | None,
    init_from: str | Path | None,
) -> tuple[str, dict[str, int]]:
    """Returns the preset, and what differs from its recipe by default.

    Args:
        corpus: The data. If they are prepared, that fixes some values.
        output: Folder of the run.
        preset: Name of the preset. Default: that of the run to start from,
            whose architecture is kept then, or else small.
        init_from: The run to start from.
    """
    values = {}
    if preset is None:
        preset = "small"
        if init_from is not None:
            # A run that is resumed needs the other one no more.
            is_resumed = (output / "config.json").exists()
            past = TrainingRun.open(output if is_resumed else init_from)
            if past.recipe.get("preset") in PRESETS:
                preset = past.recipe["preset"]
            values = {
                "vocab_size": past.config.vocab_size,
                "max_length": past.config.max_length,
            }
    if corpus.prepared is not None:
        values = corpus.prepared.recipe_values()
    return preset, values


@contextlib.contextmanager
def open_run(job: Job) -> Iterator[tuple[TrainingRun, Prepared | None]]:
    """Opens the run of a job for training, and locks it.

    Yields:
        The run, and its training data; None if there is nothing to train.

    Raises:
        InputError: If the folder has a run with other settings or data, or
            another process trains in it, or the input is invalid.
    """
    if (job.output / "config.json").exists():
        with locked(job.output):
            run = TrainingRun.open(job.output)
            prepared = None
            if _can_be_resumed(run, job):
                prepared = open_data(run, job)
            yield run, prepared
    else:
        check_free(job.output)
        config, prepared, statistics = _start(job)
        # Another process may have started the same run meanwhile.
        with locked(job.output):
            run = TrainingRun.create(
                job.output,
                config,
                job.settings(),
                prepared.tokenizer,
                statistics,
                task=job.corpus.task,
            )
            yield run, prepared


def open_data(run: TrainingRun, job: Job) -> Prepared:
    """Returns the training data of a run that is resumed, or of the chief.

    Raises:
        InputError: If the corpus has changed.
    """
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
    _refuse_differences(refused, known["checksums"], job.checksums(), ())
    prepared = job.corpus.prepared
    if prepared is None:
        preparation = Preparation(
            job.corpus,
            run.tokenizer.vocab_size,
            run.config.max_length,
            run.tokenizer,
        )
        prepared = preparation.write_once(_folder_of(job, known["prepared"]))
    ids = {"ids": prepared.checksum}
    _refuse_differences(refused, {"ids": known["ids"]}, ids, ())
    return prepared


def _folder_of(job: Job, name: str) -> Path:
    return job.output.absolute().parent / _PREPARED_FOLDER / name


def _can_be_resumed(run: TrainingRun, job: Job) -> bool:
    """Returns whether there is something to train; refuses other settings."""
    free = set(_MAY_CHANGE)
    if job.init_from is not None:
        free.add("vocab_size")  # it is that of the tokenizer
        if _started_from(run, job.init_from):
            free.add("init_from")
    _refuse_differences(
        f"{run.path} was started with other values. Choose another output, "
        "use the same values, or remove it first.",
        {**run.recipe, **run.config.to_dict()},
        {**job.config(run.tokenizer, run.config).to_dict(), **job.settings()},
        free,
    )
    if not run.state_path.exists():
        if run.checkpoints():
            raise InputError(
                f"{run.path} cannot be resumed without its "
                f"{run.state_path.name}. Train into another folder, perhaps "
                "with --init-from this run."
            )
    elif state.load_step(run.state_path) >= job.recipe.steps:
        return False  # the data do not matter
    workers = run.statistics["workers"]
    if job.workers != workers:
        raise InputError(
            f"{run.path} was started with {workers} workers, each of which has "
            f"a part of the data. Received: {job.workers} workers"
        )
    return True


def _started_from(run: TrainingRun, init_from: Path) -> bool:
    """Returns whether `run` was started with the weights of `init_from`.

    That run may have been moved, or removed since.
    """
    if str(init_from.resolve()) == run.recipe["init_from"]:
        return True
    return TrainingRun.open(init_from).id == run.statistics["init_from"]


def _start(job: Job) -> tuple[TransformerConfig, Prepared, dict[str, Any]]:
    """Returns architecture, training data and their statistics of a new run."""
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
    name, prepared = None, corpus.prepared
    if prepared is None:
        preparation = Preparation(
            corpus, recipe.vocab_size, recipe.max_length, tokenizer
        )
        name = preparation.name()
        prepared = preparation.write_once(_folder_of(job, name))
    elif tokenizer is None:
        size = prepared.tokenizer.vocab_size
        print(f"tokenizer: {size:,} tokens, from {prepared.path}")
    elif tokenizer.digest != prepared.tokenizer.digest:
        raise InputError(
            f"{prepared.path} was prepared with another tokenizer than that of "
            f"{past.path}. Prepare the corpus with --init-from {past.path}."
        )
    # Also refuses files that are damaged.
    pairs = sum(shard.offsets.size // 2 for shard in prepared.shards)
    check_pairs(pairs, recipe.max_length, job.workers)
    _report(job, prepared)
    statistics = {
        **dataclasses.asdict(prepared.statistics),
        "checksums": job.checksums(),
        "ids": prepared.checksum,
        "prepared": name,
        "workers": job.workers,
        "init_from": past and past.id,
    }
    return config or job.config(prepared.tokenizer, None), prepared, statistics


def _report(job: Job, prepared: Prepared) -> None:
    """Prints what is used of the data; refuses what `patience` cannot use."""
    corpus, recipe = job.corpus, job.recipe
    if "valid" in corpus.splits:
        encoder = Encoder(prepared.tokenizer, recipe.max_length, corpus.task)
        for _ in encoder.shards(corpus.pairs("valid")):
            pass
        valid = encoder.statistics
        print(f"valid: {valid.describe(recipe.max_length)}")
        if recipe.patience is not None and not valid.pairs:
            raise InputError(
                "patience needs validation pairs, whose loss it monitors, and "
                f"none is left. Received: patience={recipe.patience}"
            )
    train = prepared.statistics
    print(f"train: {train.describe(recipe.max_length)}")
    tokens = train.source_tokens + train.target_tokens
    passes = recipe.steps * recipe.batch_tokens / tokens
    passes = f"at most {passes:,.1f}" if passes >= 0.1 else "less than 0.1"
    print(f"train: {recipe.steps:,} steps are {passes} passes over the data")


def _refuse_differences(
    message: str,
    recorded: dict[str, Any],
    given: dict[str, Any],
    free: Collection[str],
) -> None:
    differences = [
        f"{name}={given.get(name)!r} instead of {recorded.get(name)!r}"
        for name in {**given, **recorded}
        if recorded.get(name) != given.get(name) and name not in free
    ]
    if differences:
        raise InputError(f"{message} Received: {'; '.join(differences)}")
