"""Starts a new run, or resumes the run that the same arguments started."""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.train import state
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.statistics import (
    checksum,
    collect_statistics,
)
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import TrainingRun, check_free, locked

# What may differ when a run is resumed: its length, what it keeps, and where
# its data are. Checksums tell whether they are the same data.
_MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard", "data"}


@dataclasses.dataclass(frozen=True)
class Job:
    """The arguments of `train`.

    Args:
        corpus: The data.
        output: Folder of the run.
        preset: Name of the architecture.
        recipe: How to train.
        architecture: Arguments of `TransformerConfig` that differ from the
            preset's.
        init_from: The run whose tokenizer and weights a new run starts with.
        workers: Number of workers.
    """

    corpus: Corpus
    output: Path
    preset: str
    recipe: Recipe
    architecture: dict[str, Any]
    init_from: Path | None
    workers: int

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

    def config(self, tokenizer: Tokenizer) -> TransformerConfig:
        """Returns the architecture with the ids of a tokenizer."""
        return TransformerConfig.from_preset(
            self.preset,
            vocab_size=tokenizer.vocab_size,
            max_length=self.recipe.max_length,
            pad_id=tokenizer.pad_id,
            bos_id=tokenizer.bos_id,
            eos_id=tokenizer.eos_id,
            **self.architecture,
        )

    def checksums(self) -> dict[str, int]:
        """Returns 32 bits per split that identify its texts and their order.

        They are 0 for a missing split. That of `train` also identifies the
        parts of the workers, which depend on the files; that of a prepared
        corpus identifies the ids.
        """
        sums = {"train": 0, "valid": 0}
        if self.corpus.prepared is not None:
            sums["train"] = self.corpus.prepared.checksum
        elif "train" in self.corpus.splits:
            shards = ((i, self.workers) for i in range(self.workers))
            parts = (self.corpus.pairs("train", shard) for shard in shards)
            sums["train"] = checksum(*parts)
        if "valid" in self.corpus.splits:
            sums["valid"] = checksum(self.corpus.pairs("valid"))
        return sums


@contextlib.contextmanager
def open_run(job: Job) -> Iterator[TrainingRun]:
    """Opens the run of a job for training, and locks it.

    Args:
        job: The arguments of `train`.

    Raises:
        InputError: If the folder has a run with other settings or data, or
            another process trains in it, or the input is invalid.
    """
    if (job.output / "config.json").exists():
        with locked(job.output):
            run = TrainingRun.open(job.output)
            _check_resumable(run, job)
            yield run
    else:
        check_free(job.output)
        config, tokenizer, statistics = _prepare(job)
        # Another process may have started the same run meanwhile.
        with locked(job.output):
            yield TrainingRun.create(
                job.output,
                config,
                job.settings(),
                tokenizer,
                statistics,
                task=job.corpus.task,
            )


def _check_resumable(run: TrainingRun, job: Job) -> None:
    free = set(_MAY_CHANGE)
    if job.init_from is not None:
        free.add("vocab_size")  # it is that of the tokenizer
        if _started_from(run, job.init_from):
            free.add("init_from")
    _refuse_differences(
        f"{run.path} was started with other values. Choose another output, "
        "use the same values, or remove it first.",
        {**run.recipe, **run.config.to_dict()},
        {**job.config(run.tokenizer).to_dict(), **job.settings()},
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
        return  # nothing to train: the data do not matter
    workers = run.statistics["workers"]
    if job.workers != workers:
        raise InputError(
            f"{run.path} was started with {workers} workers, each of which has "
            f"a part of the data. Received: {job.workers} workers"
        )
    _refuse_differences(
        f"{run.path} was started with other data. Choose another output, or "
        f"use the same data. Checksums of {job.corpus.name} differ.",
        run.statistics["checksums"],
        job.checksums(),
        (),
    )


def _started_from(run: TrainingRun, init_from: Path) -> bool:
    """Returns whether `run` was started with the weights of `init_from`.

    That run may have been moved, or removed since.
    """
    if str(init_from.resolve()) == run.recipe["init_from"]:
        return True
    return TrainingRun.open(init_from).id == run.statistics["init_from"]


def _prepare(job: Job) -> tuple[TransformerConfig, Tokenizer, dict[str, Any]]:
    """Returns architecture, tokenizer and data statistics of a new run."""
    past = None
    if job.init_from is not None:
        past = TrainingRun.open(job.init_from)
        past.find_checkpoint()  # refuses a run that has none
    report_splits(job.corpus)
    tokenizer = _tokenizer(job, past)
    config = job.config(tokenizer)
    if past is not None:
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
    statistics = _statistics(job, tokenizer)
    statistics |= {
        "checksums": job.checksums(),
        "workers": job.workers,
        "init_from": past and past.id,
    }
    return config, tokenizer, statistics


def report_splits(corpus: Corpus) -> int:
    """Checks and prints what there is to train on; returns its pairs."""
    sizes = {}
    for split in ("train", "valid"):
        if split == "train" and corpus.prepared is not None:
            sizes[split] = corpus.prepared.statistics.pairs
        elif split in corpus.splits:
            sizes[split] = corpus.check(split)
        else:
            continue
        print(f"{split}: {sizes[split]:,} pairs in {corpus.name}")
    if corpus.prepared is None:
        first = corpus.pairs("train").take(1)
        for source, target in first.as_numpy_iterator():
            print(f"first pair: {_shorten(source)} → {_shorten(target)}")
    return sizes["train"]


def learn_tokenizer(
    corpus: Corpus, vocab_size: int, past: TrainingRun | None
) -> Tokenizer:
    """Returns the tokenizer of a past run or, without one, a new one."""
    if past is not None:
        if past.task.name != corpus.task.name:
            raise InputError(
                "A run can only be started with the tokenizer of a run for the "
                f"same task. Received: {past.path}, which is for "
                f"{past.task.name}, and {corpus.name}, which is for "
                f"{corpus.task.name}"
            )
        corpus.task.check_tokenizer(past.tokenizer, corpus.read("train"))
        size = past.tokenizer.vocab_size
        print(f"tokenizer: {size:,} tokens, from {past.path}")
        return past.tokenizer
    print(f"tokenizer: training with {vocab_size:,} tokens")
    return corpus.task.train_tokenizer(corpus.read("train"), vocab_size)


def _tokenizer(job: Job, past: TrainingRun | None) -> Tokenizer:
    prepared = job.corpus.prepared
    if prepared is None:
        return learn_tokenizer(job.corpus, job.recipe.vocab_size, past)
    if past is not None and past.tokenizer.model != prepared.tokenizer.model:
        raise InputError(
            f"{prepared.path} was prepared with another tokenizer than that of "
            f"{past.path}. Prepare the corpus with --init-from {past.path}."
        )
    size = prepared.tokenizer.vocab_size
    print(f"tokenizer: {size:,} tokens, from {prepared.path}")
    return prepared.tokenizer


def _shorten(text: bytes) -> str:
    text = text.decode()
    return repr(text if len(text) <= 60 else text[:59] + "…")


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


def _statistics(job: Job, tokenizer: Tokenizer) -> dict[str, Any]:
    """Prints what is used of the data; returns it for the training data."""
    corpus, recipe = job.corpus, job.recipe
    found = {}
    for split in ("valid", "train"):
        if split not in corpus.splits:
            continue
        if split == "train" and corpus.prepared is not None:
            found[split] = corpus.prepared.statistics
        else:
            found[split] = collect_statistics(
                corpus.pairs(split), tokenizer, recipe.max_length, corpus.task
            )
        print(f"{split}: {found[split].describe(recipe.max_length)}")
    train = found["train"]
    if not train.pairs:
        raise InputError(
            "No pair is left to train on. Increase max_length, or check the "
            f"data. Received: max_length={recipe.max_length}"
        )
    if recipe.patience is not None and not found["valid"].pairs:
        raise InputError(
            "patience needs validation pairs, whose loss it monitors, and none "
            f"is left. Received: patience={recipe.patience}"
        )
    warning = train.order_warning()
    if warning and corpus.prepared is None:
        print(f"train: {warning}")
    tokens = train.source_tokens + train.target_tokens
    passes = recipe.steps * recipe.batch_tokens / tokens
    passes = f"at most {passes:,.1f}" if passes >= 0.1 else "less than 0.1"
    print(f"train: {recipe.steps:,} steps are {passes} passes over the data")
    return dataclasses.asdict(train)
