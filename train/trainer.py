"""Trains a Transformer on a parallel corpus, with `model.fit`."""

import contextlib
import dataclasses
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.train import callbacks, pipeline, state
from keras_transformer.train.bleu import corpus_scores
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import Run, check_is_free
from keras_transformer.train.sources import Corpus
from keras_transformer.train.step import Training
from keras_transformer.train.strategy import (
    describe,
    distribute,
    from_chief,
    open_strategy,
    worker,
)

# What may change when a run goes on: how long it is, not how it trains, and
# where its data lie. A checksum tells if they are others.
_MAY_CHANGE = {"steps", "keep", "patience", "tensorboard", "data"}


def train(
    corpus: Corpus,
    output: str | Path,
    preset: str = "small",
    recipe: Recipe | None = None,
    *,
    architecture: dict[str, Any] | None = None,
    strategy: tf.distribute.Strategy | None = None,
    init_from: str | Path | None = None,
) -> Run | None:
    """Trains on the `train` split, and validates on `valid` if there is one.

    Called again with the same arguments after training was interrupted, at
    whatever moment, it goes on from the last state, and ends with the
    weights of a training that was not.

    Args:
        corpus: From `open_corpus`.
        output: Folder of the run. It must be new, empty, or hold a run that
            the same arguments began.
        preset: Name of the architecture.
        recipe: How to train. Default: the preset's.
        architecture: Arguments of `TransformerConfig` that differ from the
            preset's.
        strategy: From `open_strategy`. Default: one device.
        init_from: A run whose tokenizer and newest weights a new run begins
            with. Its architecture must be the same, but for the dropout and,
            with sinusoidal positions, `max_length`.

    Returns:
        The run, with its last checkpoints; None on a worker other than the
        chief, which alone writes.

    Raises:
        InputError: If the input cannot be used, or the loss becomes NaN.
    """
    recipe = recipe or Recipe.from_preset(preset)
    strategy = strategy or open_strategy("single")
    index, workers = worker(strategy)
    _check(corpus, recipe, workers)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    wanted = {
        "preset": preset,
        "data": corpus.name,
        "source": corpus.source,
        "target": corpus.target,
        "init_from": None if init_from is None else str(init_from),
        **(architecture or {}),
        **dataclasses.asdict(recipe),
    }
    run = None
    say(f"strategy: {describe(strategy)}")
    if index == 0:
        run = _open_run(corpus, output, wanted, recipe, architecture or {})
        say(f"model: {preset}, {run.config.num_parameters:,} parameters")
    tokenizer = _shared_tokenizer(run, strategy)
    config = _config(preset, tokenizer, recipe, architecture or {})

    with strategy.scope():
        model = Transformer(config, dtype=recipe.dtype)
        training = Training(
            model,
            label_smoothing=recipe.label_smoothing,
            accumulate=recipe.accumulate,
            clip_norm=recipe.clip_norm,
            warmup_steps=recipe.warmup_steps,
            learning_rate_scale=recipe.learning_rate_scale,
        )
    with contextlib.ExitStack() as stack:
        if run is not None:
            stack.enter_context(run.locked())
            if run.recipe != wanted:
                run = run.with_recipe(wanted)
        with strategy.scope():
            if run and init_from is not None and not run.state_path.exists():
                past = Run.open(init_from)
                checkpoint = past.find_checkpoint()
                past.load_weights(model, checkpoint)
                say(f"weights: {checkpoint}")
            begun = _begin(training, run, strategy)
        if run and not run.state_path.exists():
            state.save(run.state_path, begun)
        _fit(training, corpus, tokenizer, recipe, run, strategy, begun)
    return run


def _check(corpus: Corpus, recipe: Recipe, workers: int) -> None:
    """Refuses what would fail late, before anything is written."""
    if recipe.patience is not None and "valid" not in corpus.splits:
        raise InputError(
            "patience needs a split valid, whose loss it watches. Received: "
            f"patience={recipe.patience}, splits {', '.join(corpus.splits)}"
        )
    pipeline.check_budget(recipe.batch_tokens // workers, recipe.max_length)
    if recipe.tensorboard:
        callbacks.check_tensorboard()
    if recipe.bleu_sentences:
        corpus_scores([""], [""], corpus.target or "en")


# === The run, which the chief has ===


def _open_run(
    corpus: Corpus,
    output: str | Path,
    wanted: dict[str, Any],
    recipe: Recipe,
    architecture: dict[str, Any],
) -> Run:
    """Returns a new run, or the one that the same arguments began."""
    run = None
    if (Path(output) / "config.json").exists():
        run = Run.open(output)
        _refuse_difference(run, "was begun with", run.recipe, wanted)
        if run.checkpoints() and not run.state_path.exists():
            raise InputError(
                f"A run that goes on must have its {run.state_path.name}. "
                f"Received: {run.path} without it. Train into another folder, "
                "perhaps with --init-from this one."
            )
    else:
        check_is_free(output)
    for split in ("train", "valid"):
        if split in corpus.splits:
            say(f"{split}: {corpus.check(split):,} pairs in {corpus.name}")
    if run is not None:
        survey = _survey(corpus, run.tokenizer, recipe)
        _refuse_difference(run, "was begun with data of", run.survey, survey)
        return run
    if wanted["init_from"] is not None:
        past = Run.open(wanted["init_from"])
        tokenizer = past.tokenizer
    else:
        say(f"tokenizer: learning {recipe.vocab_size:,} tokens from train")
        tokenizer = Tokenizer.train(corpus.texts("train"), recipe.vocab_size)
    config = _config(wanted["preset"], tokenizer, recipe, architecture)
    if wanted["init_from"] is not None:
        free = {"dropout"}
        if config.positional_encoding == "sinusoidal":
            free.add("max_length")
        _refuse_difference(
            past,
            "has the architecture",
            past.config.to_dict(),
            config.to_dict(),
            free,
        )
    survey = _survey(corpus, tokenizer, recipe)
    return Run.create(output, config, wanted, tokenizer, survey)


def _refuse_difference(
    run: Run,
    what: str,
    there: dict[str, Any],
    wanted: dict[str, Any],
    free: Collection[str] = _MAY_CHANGE,
) -> None:
    differ = [
        f"{name}={there.get(name)!r} and not {wanted.get(name)!r}"
        for name in {**wanted, **there}
        if there.get(name) != wanted.get(name) and name not in free
    ]
    if there and differ:
        raise InputError(
            f"{run.path} {what} other values. Choose another output, or the "
            f"same values. Received: {'; '.join(differ)}"
        )


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


def _survey(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe
) -> dict[str, int]:
    """Says what is used of the data; returns what of the training data."""
    for split in ("valid", "train"):
        if split not in corpus.splits:
            continue
        survey = pipeline.survey(
            corpus.pairs(split), tokenizer, recipe.max_length
        )
        say(
            f"{split}: {survey.pairs:,} pairs kept, "
            f"{survey.source_tokens:,} source and "
            f"{survey.target_tokens:,} target tokens; dropped "
            f"{survey.dropped_long:,} longer than {recipe.max_length} tokens "
            f"and {survey.dropped_empty:,} with an empty side; the longest "
            f"text has {survey.longest:,} tokens"
        )
    if not survey.pairs:
        raise InputError(
            "No pair is left to train on. Raise max_length, or look at the "
            f"data. Received: max_length={recipe.max_length}"
        )
    tokens = survey.source_tokens + survey.target_tokens
    passes = recipe.steps * recipe.batch_tokens / tokens
    say(
        f"train: {recipe.steps:,} steps are at most {passes:.1f} passes over it"
    )
    return dataclasses.asdict(survey)


# === What every worker does ===


def _shared_tokenizer(
    run: Run | None, strategy: tf.distribute.Strategy
) -> Tokenizer:
    """Returns the chief's tokenizer."""
    model = run.tokenizer.model if run else b""
    shared = from_chief(strategy, np.frombuffer(model, np.uint8))
    return Tokenizer(shared.astype(np.uint8).tobytes())


def _begin(
    training: Training, run: Run | None, strategy: tf.distribute.Strategy
) -> state.State:
    """Returns the state that training goes on from: the chief's."""
    workers = worker(strategy)[1]
    begun = state.state_of(training, 0, np.zeros((workers, 2), np.int64))
    if run is not None and run.state_path.exists():
        begun = state.load(run.state_path)
        if len(begun.position) != workers:
            raise InputError(
                f"{run.path} was begun with {len(begun.position)} workers, "
                f"and each has its part of the data. Received: {workers}"
            )
        say(f"training: going on after step {begun.step:,}")
    begun = state.State(
        int(from_chief(strategy, begun.step)),
        from_chief(strategy, begun.position),
        from_chief(strategy, begun.val_losses),
        [from_chief(strategy, value) for value in begun.variables],
    )
    state.restore(training, begun)
    return begun


def _fit(
    training: Training,
    corpus: Corpus,
    tokenizer: Tokenizer,
    recipe: Recipe,
    run: Run | None,
    strategy: tf.distribute.Strategy,
    begun: state.State,
) -> None:
    if begun.step >= recipe.steps:
        say(f"training: all {recipe.steps:,} steps are done")
        return
    index, workers = worker(strategy)
    steps = callbacks.Steps(begun.step, recipe.steps, begun.position)
    chain, validation = [steps], None
    valid = _valid_batches(corpus, tokenizer, recipe)
    if valid is not None:
        validation = callbacks.Validation(
            distribute(valid, strategy, among_workers=True),
            begun.val_losses,
            recipe.patience,
        )
        chain.append(validation)
    if run is not None:
        chain += _of_chief(corpus, recipe, run, steps, validation)
    if validation and validation.is_over():
        say(f"training: no better loss for {recipe.patience} epochs")
        return
    batches = pipeline.training_stream(
        corpus.pairs("train", (index, workers)),
        tokenizer,
        batch_tokens=recipe.batch_tokens // workers,
        seed=recipe.seed,
        start=tuple(begun.position[index].tolist()),
        max_length=recipe.max_length,
    )
    try:
        training.fit(
            distribute(batches, strategy),
            steps_per_epoch=recipe.steps_per_epoch,
            initial_epoch=begun.step // recipe.steps_per_epoch,
            epochs=math.ceil(recipe.steps / recipe.steps_per_epoch),
            shuffle=False,  # the pipeline does
            verbose=0,  # our own progress
            callbacks=chain,
        )
    except KeyboardInterrupt:
        say(
            f"training: stopped at step {steps.step:,}; the same command goes "
            "on after the last checkpoint"
        )
        raise


def _valid_batches(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe
) -> tf.data.Dataset | None:
    """Returns the validation batches; None if there is nothing in them."""
    if "valid" not in corpus.splits:
        return None
    batches = pipeline.evaluation_batches(
        corpus.pairs("valid"),
        tokenizer,
        batch_tokens=recipe.batch_tokens,
        max_length=recipe.max_length,
    )
    return batches if int(batches.cardinality()) else None


def _of_chief(
    corpus: Corpus,
    recipe: Recipe,
    run: Run,
    steps: callbacks.Steps,
    validation: callbacks.Validation | None,
) -> list[keras.callbacks.Callback]:
    """Returns what translates, prints and writes, in order."""
    log = callbacks.Log(run.log_path, steps.step)
    chain: list[keras.callbacks.Callback] = []
    samples = list
    if validation is not None and recipe.bleu_sentences:
        pairs = corpus.pairs("valid").take(recipe.bleu_sentences)
        texts = [
            (source.decode(), target.decode())
            for source, target in pairs.as_numpy_iterator()
        ]
        bleu = callbacks.Bleu(run.tokenizer, texts, corpus.target or "en")
        chain.append(bleu)
        samples = bleu.latest_samples
    chain += [log, callbacks.Progress(steps.step, recipe.steps)]
    if recipe.tensorboard:
        chain.append(callbacks.TensorBoard(run.path / "tensorboard", samples))
    chain.append(
        callbacks.Checkpoints(run, recipe.keep, steps, validation, log)
    )
    return chain


def say(text: str) -> None:
    """Prints a line of progress at once."""
    print(text, flush=True)
