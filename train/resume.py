"""How a run begins, or goes on: what is read, checked and written first."""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.train import state
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.statistics import checksum, survey
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import TrainingRun, check_is_free, locked

# What may change when a run goes on: how long it is, not how it trains, and
# where its data lie. A checksum tells if they are others.
_MAY_CHANGE = {"steps", "keep", "patience", "tensorboard", "data"}


@contextlib.contextmanager
def opened_run(
    corpus: Corpus,
    output: str | Path,
    settings: dict[str, Any],
    recipe: Recipe,
    architecture: dict[str, Any],
    workers: int,
) -> Iterator[TrainingRun]:
    """Gives a new run, or the one that the same settings began, and locks it.

    Args:
        corpus: The data.
        output: Folder of the run.
        settings: All that `train` was told but the architecture, as plain
            values.
        recipe: How to train.
        architecture: What differs from the preset.
        workers: Of how many workers this is the first.

    Raises:
        InputError: If the run was begun with other settings or data, or
            another process trains in it, or the input cannot be used.
    """
    told = (corpus, settings, recipe, architecture, workers)
    if (Path(output) / "config.json").exists():
        with locked(output):
            run = TrainingRun.open(output)
            _check_it_can_go_on(run, *told)
            yield run
    else:
        check_is_free(output)
        config, tokenizer, surveyed = _prepared(*told)
        # Another process may have begun the same meanwhile.
        with locked(output):
            yield TrainingRun.create(
                output, config, settings, tokenizer, surveyed
            )


def _check_it_can_go_on(
    run: TrainingRun,
    corpus: Corpus,
    settings: dict[str, Any],
    recipe: Recipe,
    architecture: dict[str, Any],
    workers: int,
) -> None:
    # Runs of older versions lack settings that have come since.
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(Recipe)
        if field.default is not dataclasses.MISSING
    }
    config = _config(settings["preset"], run.tokenizer, recipe, architecture)
    free = set(_MAY_CHANGE)
    if settings["init_from"] is not None:
        free.add("vocab_size")  # that of the tokenizer which was taken over
        if _is_begun_with(run, settings["init_from"]):
            free.add("init_from")
    _refuse_difference(
        f"{run.path} was begun with other values. Choose another output, or "
        "the same values; or remove it first.",
        {**defaults, **run.recipe, **run.config.to_dict()},
        {**config.to_dict(), **settings},
        free,
    )
    if not run.state_path.exists():
        if run.checkpoints():
            raise InputError(
                f"A run that goes on must have its {run.state_path.name}. "
                f"Received: {run.path} without it. Train into another folder, "
                "perhaps with --init-from this one."
            )
    elif state.load_step(run.state_path) >= recipe.steps:
        return  # whatever became of the data
    begun_with = run.survey.get("workers", workers)
    if workers != begun_with:
        raise InputError(
            f"{run.path} was begun with {begun_with} workers, and each has "
            f"its part of the data. Received: {workers}"
        )
    if "checksums" in run.survey:
        _refuse_difference(
            f"{run.path} was begun with other data. Choose another output, or "
            f"the same data. Of {corpus.name} the checksums differ.",
            run.survey["checksums"],
            checksums(corpus, workers),
            (),
        )


def _is_begun_with(run: TrainingRun, past: str) -> bool:
    """Returns whether `past` holds the run whose weights `run` began with.

    That run need not be there any more, but may have moved.
    """
    if past == run.recipe.get("init_from"):
        return True
    return TrainingRun.open(past).id == run.survey.get("init_from")


def checksums(corpus: Corpus, workers: int) -> dict[str, int]:
    """Returns what tells the texts of each split from others, 32 bits.

    They are 0 for a split that is not there. Those of `train` tell also
    other parts for the workers: files that are cut in another way.
    """
    numbers = {"train": 0, "valid": 0}
    if "train" in corpus.splits:
        parts = (corpus.pairs("train", (i, workers)) for i in range(workers))
        numbers["train"] = checksum(*parts)
    if "valid" in corpus.splits:
        numbers["valid"] = checksum(corpus.pairs("valid"))
    return numbers


def _config(
    preset: str,
    tokenizer: Tokenizer,
    recipe: Recipe,
    architecture: dict[str, Any],
) -> TransformerConfig:
    return TransformerConfig.from_preset(
        preset,
        vocab_size=tokenizer.vocab_size,
        max_length=recipe.max_length,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        **architecture,
    )


def _prepared(
    corpus: Corpus,
    settings: dict[str, Any],
    recipe: Recipe,
    architecture: dict[str, Any],
    workers: int,
) -> tuple[TransformerConfig, Tokenizer, dict[str, Any]]:
    """Returns architecture, tokenizer and survey of a new run."""
    past = None
    if settings["init_from"] is not None:
        past = TrainingRun.open(settings["init_from"])
        past.find_checkpoint()  # refuses a run that has none
    for split in ("train", "valid"):
        if split in corpus.splits:
            print(f"{split}: {corpus.check(split):,} pairs in {corpus.name}")
    for source, target in corpus.pairs("train").take(1).as_numpy_iterator():
        print(f"first pair: {_shown(source)} → {_shown(target)}")
    if past is not None:
        tokenizer = past.tokenizer
        print(
            f"tokenizer: that of {past.path}, {tokenizer.vocab_size:,} tokens"
        )
    else:
        print(f"tokenizer: learning {recipe.vocab_size:,} tokens from train")
        tokenizer = Tokenizer.train(corpus.texts("train"), recipe.vocab_size)
    config = _config(settings["preset"], tokenizer, recipe, architecture)
    if past is not None:
        free = {"dropout"}
        if config.positional_encoding == "sinusoidal":
            free.add("max_length")
        _refuse_difference(
            f"{past.path} has another architecture, so its weights do not fit. "
            "Choose the same.",
            past.config.to_dict(),
            config.to_dict(),
            free,
        )
    surveyed = _survey(corpus, tokenizer, recipe)
    surveyed |= {
        "checksums": checksums(corpus, workers),
        "workers": workers,
        "init_from": past and past.id,
    }
    return config, tokenizer, surveyed


def _shown(text: bytes) -> str:
    text = text.decode()
    return repr(text if len(text) <= 60 else text[:59] + "…")


def _refuse_difference(
    message: str,
    there: dict[str, Any],
    wanted: dict[str, Any],
    free: Collection[str],
) -> None:
    differ = [
        f"{name}={there.get(name)!r} and not {wanted.get(name)!r}"
        for name in {**wanted, **there}
        if there.get(name) != wanted.get(name) and name not in free
    ]
    if differ:
        raise InputError(f"{message} Received: {'; '.join(differ)}")


def _survey(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe
) -> dict[str, Any]:
    """Says what is used of the data; returns what of the training data."""
    kept = {}
    for split in ("valid", "train"):
        if split not in corpus.splits:
            continue
        found = survey(corpus.pairs(split), tokenizer, recipe.max_length)
        kept[split] = found.pairs
        print(
            f"{split}: {found.pairs:,} pairs kept, "
            f"{found.source_tokens:,} source and "
            f"{found.target_tokens:,} target tokens; dropped "
            f"{found.dropped_long:,} longer than {recipe.max_length} tokens "
            f"and {found.dropped_empty:,} with an empty side; the longest "
            f"text has {found.longest:,} tokens"
        )
    if not kept["train"]:
        raise InputError(
            "No pair is left to train on. Raise max_length, or look at the "
            f"data. Received: max_length={recipe.max_length}"
        )
    if recipe.patience is not None and not kept["valid"]:
        raise InputError(
            "patience needs validation pairs, whose loss it watches, and none "
            f"is left. Received: patience={recipe.patience}"
        )
    tokens = found.source_tokens + found.target_tokens
    passes = recipe.steps * recipe.batch_tokens / tokens
    print(
        f"train: {recipe.steps:,} steps are at most {passes:.1f} passes over it"
    )
    return dataclasses.asdict(found)
