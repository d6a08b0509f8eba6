"""Trains a Transformer on a parallel corpus, with `model.fit`."""

import contextlib
import dataclasses
import json
import math
import zlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.distributed_fit import Training
from keras_transformer.errors import InputError
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.train import callbacks, state
from keras_transformer.train.bleu import corpus_scores
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import checksums, opened_run
from keras_transformer.train.run import TrainingRun
from keras_transformer.train.strategy import (
    broadcast_from_chief,
    describe,
    distribute,
    open_strategy,
    worker,
)

_PATHS = {"data", "init_from"}


def train(
    corpus: Corpus,
    output: str | Path,
    preset: str = "small",
    recipe: Recipe | None = None,
    *,
    architecture: dict[str, Any] | None = None,
    strategy: tf.distribute.Strategy | None = None,
    init_from: str | Path | None = None,
) -> TrainingRun | None:
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
    architecture = architecture or {}
    _check(corpus, preset, recipe, architecture, workers)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    settings = {
        "preset": preset,
        "data": corpus.name,
        "source": corpus.source,
        "target": corpus.target,
        "init_from": init_from and str(Path(init_from).resolve()),
        **dataclasses.asdict(recipe),
    }
    print(f"strategy: {describe(strategy)}")
    with contextlib.ExitStack() as stack:
        run = None
        if index == 0:
            run = stack.enter_context(
                opened_run(
                    corpus, output, settings, recipe, architecture, workers
                )
            )
            print(f"model: {preset}, {run.config.num_parameters:,} parameters")
        if workers > 1:
            told = {**settings, **architecture}
            _check_workers_agree(strategy, corpus, told, run)
        tokenizer, config = _from_chiefs_run(strategy, run)
        with strategy.scope():
            # Named, since the state of training goes by names.
            model = Transformer(config, dtype=recipe.dtype, name="transformer")
            training = Training(
                model,
                label_smoothing=recipe.label_smoothing,
                accumulate=recipe.accumulate,
                clip_norm=recipe.clip_norm,
                warmup_steps=recipe.warmup_steps,
                learning_rate_scale=recipe.learning_rate_scale,
            )
            if run and init_from is not None and not run.state_path.exists():
                past = TrainingRun.open(init_from)
                checkpoint = past.find_checkpoint()
                past.load_weights(model, checkpoint)
                print(f"weights: {checkpoint}")
            begun = _begin(training, run, strategy)
        # With init_from it is the past run's, whatever was asked for.
        settings = {**settings, "vocab_size": tokenizer.vocab_size}
        if run and begun.step < recipe.steps and run.recipe != settings:
            run = run.with_recipe(settings)
        _fit(training, corpus, tokenizer, recipe, run, strategy, begun)
    return run


def _check(
    corpus: Corpus,
    preset: str,
    recipe: Recipe,
    architecture: dict[str, Any],
    workers: int,
) -> None:
    """Refuses what would fail late, before the corpus is read."""
    TransformerConfig.from_preset(
        preset,
        vocab_size=recipe.vocab_size,
        max_length=recipe.max_length,
        **architecture,
    )
    if "train" not in corpus.splits:
        raise InputError(
            "Training needs a split train. Received: "
            f"{corpus.name} with {', '.join(corpus.splits)}"
        )
    if recipe.patience is not None and "valid" not in corpus.splits:
        raise InputError(
            "patience needs a split valid, whose loss it watches. Received: "
            f"patience={recipe.patience}, splits {', '.join(corpus.splits)}"
        )
    pipeline.check_budget(recipe.batch_tokens, recipe.max_length, workers)
    if recipe.tensorboard:
        callbacks.check_tensorboard()
    if recipe.bleu_sentences and "valid" in corpus.splits:
        corpus_scores([""], [""], corpus.target or "en")


def _check_workers_agree(
    strategy: tf.distribute.Strategy,
    corpus: Corpus,
    settings: dict[str, Any],
    run: TrainingRun | None,
) -> None:
    """Refuses what would train another model, or wait for ever."""
    # Paths may differ from machine to machine.
    alike = {k: v for k, v in settings.items() if k not in _PATHS}
    text = json.dumps(alike, sort_keys=True)
    mine = {"settings": zlib.crc32(text.encode())}
    if run and "checksums" in run.survey:
        texts = run.survey["checksums"]
    else:
        texts = checksums(corpus, worker(strategy)[1])
    mine |= {f"texts of {split}": number for split, number in texts.items()}
    chiefs = broadcast_from_chief(strategy, list(mine.values())).tolist()
    both = zip(mine, mine.values(), chiefs, strict=True)
    differ = [name for name, own, chiefs_own in both if own != chiefs_own]
    if differ:
        raise InputError(
            "Every worker must have the settings and the data of worker 0. "
            f"Received: worker {worker(strategy)[0]} with other "
            f"{' and '.join(differ)}"
        )


def _from_chiefs_run(
    strategy: tf.distribute.Strategy, run: TrainingRun | None
) -> tuple[Tokenizer, TransformerConfig]:
    """Returns the tokenizer and the architecture of the chief's run."""
    texts = (b"", b"")
    if run is not None:
        config = json.dumps(run.config.to_dict())
        texts = (run.tokenizer.model, config.encode())
    model, config = (
        broadcast_from_chief(strategy, np.frombuffer(text, np.uint8)).tobytes()
        for text in texts
    )
    return Tokenizer(model), TransformerConfig.from_dict(json.loads(config))


def _begin(
    training: Training,
    run: TrainingRun | None,
    strategy: tf.distribute.Strategy,
) -> state.State:
    """Restores the state that training goes on from: the chief's.

    Returns:
        It, without variables: they would stay in memory beside the model's.
    """
    workers = worker(strategy)[1]
    begun = state.state_of(training, 0, np.zeros((workers, 2), np.int64))
    if run is not None and run.state_path.exists():
        begun = state.load(run.state_path)
        print(f"training: going on after step {begun.step:,}")
    begun = state.State(
        int(broadcast_from_chief(strategy, begun.step)),
        broadcast_from_chief(strategy, begun.position),
        broadcast_from_chief(strategy, begun.val_losses),
        begun.names,
        [broadcast_from_chief(strategy, value) for value in begun.variables],
    )
    state.restore(training, begun)
    if run is not None and not run.state_path.exists():
        # Whatever happens from now on, there is a state to go on from.
        state.save(run.state_path, begun)
    return begun._replace(names=[], variables=[])


def _fit(
    training: Training,
    corpus: Corpus,
    tokenizer: Tokenizer,
    recipe: Recipe,
    run: TrainingRun | None,
    strategy: tf.distribute.Strategy,
    begun: state.State,
) -> None:
    if begun.step >= recipe.steps:
        print(f"training: all {recipe.steps:,} steps are done")
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
        print(f"training: no better loss for {recipe.patience} epochs")
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
    except BaseException as error:
        for callback in chain:  # Keras does not, and a bar would stay open
            callback.on_train_end()
        if isinstance(error, KeyboardInterrupt | OSError | tf.errors.OpError):
            print(
                f"training: stopped at step {steps.step:,}; the same command "
                "goes on after the last checkpoint"
            )
        raise
    if validation and validation.is_over() and steps.step < recipe.steps:
        print(f"training: no better loss for {recipe.patience} epochs")


def _valid_batches(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe
) -> tf.data.Dataset | None:
    """Returns the validation batches; None if there is nothing in them."""
    if "valid" not in corpus.splits:
        return None
    batches = pipeline.evaluation_batches(
        corpus.pairs("valid"),
        tokenizer,
        # In memory that suffices for a part of a training batch.
        batch_tokens=max(
            recipe.batch_tokens // recipe.accumulate, 2 * recipe.max_length
        ),
        max_length=recipe.max_length,
    )
    return batches if int(batches.cardinality()) else None


def _of_chief(
    corpus: Corpus,
    recipe: Recipe,
    run: TrainingRun,
    steps: callbacks.Steps,
    validation: callbacks.Validation | None,
) -> list[keras.callbacks.Callback]:
    """Returns what translates, prints and writes, in order."""
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
    chain += [
        callbacks.Log(run.log_path, steps.step),
        callbacks.Progress(steps.step, recipe.steps),
    ]
    if recipe.tensorboard:
        chain.append(callbacks.TensorBoard(run.path / "tensorboard", samples))
    chain.append(callbacks.Checkpoints(run, recipe.keep, steps, validation))
    return chain
