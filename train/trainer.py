"""The training program: `Transformer.fit` on a corpus, into a run folder."""

import contextlib
import dataclasses
import functools
import importlib.util
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import optimizers
from keras_transformer.config import TransformerConfig
from keras_transformer.inference.translator import Translator
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import TokenNLL
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.train import resume
from keras_transformer.train import strategy as strategies
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.fitting import callbacks, training_state
from keras_transformer.train.fitting.training_log import CSVLog
from keras_transformer.train.preparation import check_train_split
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import Job
from keras_transformer.train.training_run import TrainingRun

logger = logging.getLogger(__name__)


def train(
    corpus: Corpus,
    output: str | Path,
    preset: str | None = None,
    recipe: Recipe | None = None,
    *,
    architecture: dict[str, Any] | None = None,
    strategy: tf.distribute.Strategy | None = None,
    init_from: str | Path | None = None,
) -> TrainingRun | None:
    """Trains on the split `train`, and validates on `valid` if there is one.

    A corpus that is not prepared is prepared first, in a folder beside
    `output`, `prepared-corpora`, where a later training finds it. The folder
    may be removed: it is made again when a run needs it.

    Called again with the same arguments after training was interrupted, it
    resumes from the last saved state, and ends with the weights of a training
    that was never interrupted.

    Args:
        corpus: From `open_corpus`.
        output: Folder of the run. It must be new, empty, or contain a run
            that was started with the same arguments.
        preset: Name of the architecture and of the recipe. Default: with
            `init_from` the architecture of that run, and the recipe of its
            preset, if it has one: an imported model is trained at a low
            learning rate. Otherwise `"small"`.
        recipe: How to train. Default: the preset's, with the `vocab_size` and
            the `max_length` of a prepared corpus or of `init_from`.
        architecture: Arguments of `TransformerConfig` that differ from the
            preset's.
        strategy: From `open_strategy`. Default: one device.
        init_from: A run whose tokenizer and newest weights a new run starts
            with. Its architecture must be the same, except for the dropout
            and, with sinusoidal positions, `max_length`.

    Returns:
        The run with its checkpoints; None on workers other than the chief,
        which alone writes it.

    Raises:
        InputError: If the input is invalid, or training diverges.
    """
    output = Path(output)
    keeps_architecture = preset is None and init_from is not None
    preset, values = resume.default_values(corpus, output, preset, init_from)
    recipe = recipe or Recipe.from_preset(preset or "small", **values)
    strategy = strategy or strategies.open_strategy("single")
    index, workers = strategies.worker(strategy)
    job = Job(
        corpus=corpus,
        output=output,
        preset=preset,
        recipe=recipe,
        architecture=architecture or {},
        init_from=init_from and Path(init_from),
        workers=workers,
        keeps_architecture=keeps_architecture,
        index=index,
    )
    _check(job)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    logger.info(f"strategy: {strategies.describe(strategy)}")
    with contextlib.ExitStack() as stack:
        run = prepared = None
        if job.is_chief:
            run, prepared = stack.enter_context(resume.open_run(job))
            kind = preset or "no preset"
            logger.info(
                f"model: {kind}, {run.config.num_parameters:,} parameters"
            )
        if workers > 1:
            run, prepared = resume.open_shared_run(strategy, job, run, prepared)
        model = _compiled_model(run.config, recipe, strategy)
        step, positions = _restore(model, job, run)
        if step < recipe.steps:
            _fit(model, job, run, prepared, step, positions)
        else:
            logger.info(
                f"training: all {recipe.steps:,} steps are done: the run is at "
                f"step {step:,}"
            )
    return run if job.is_chief else None


def _check(job: Job) -> None:
    """Refuses what would fail late, before the corpus is read."""
    corpus, recipe = job.corpus, job.recipe
    if not job.keeps_architecture:
        TransformerConfig.from_preset(
            job.preset,
            vocab_size=recipe.vocab_size,
            max_length=recipe.max_length,
            **job.architecture,
        )
    check_train_split(corpus)
    if recipe.patience is not None and "valid" not in corpus.splits:
        raise InputError(
            "patience needs a split valid, whose loss it monitors. Received: "
            f"patience={recipe.patience}, splits {', '.join(corpus.splits)}"
        )
    if corpus.prepared is not None:
        corpus.prepared.check_recipe(recipe.vocab_size, recipe.max_length)
    batching.check_budget(recipe.batch_tokens, recipe.max_length, job.workers)
    if recipe.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise InputError(
            "TensorBoard is not installed. Run "
            'pip install "keras-transformer-nmt[tensorboard]"'
        )
    if recipe.scored_sentences and "valid" in corpus.splits:
        task = corpus.task
        task.check_metrics(corpus.target, [task.watched_metric])


def _compiled_model(
    config: TransformerConfig,
    recipe: Recipe,
    strategy: tf.distribute.Strategy,
) -> Transformer:
    with strategy.scope():
        # The training state refers to variables by name.
        model = Transformer(config, dtype=recipe.dtype, name="transformer")
        model.compile(
            optimizers.adam(
                config.d_model,
                recipe.warmup_steps,
                recipe.learning_rate_scale,
                global_clipnorm=recipe.clip_norm,
                name="adam",
            ),
            LabelSmoothedCrossEntropy(
                recipe.label_smoothing, pad_id=config.pad_id
            ),
            metrics=[TokenNLL(pad_id=config.pad_id)],
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
        )
    return model


def _restore(
    model: Transformer, job: Job, run: TrainingRun
) -> tuple[int, np.ndarray]:
    """Gives the model of every worker the state of the chief's run.

    Returns the updates so far, and the next batch of each worker's data.
    """
    step, positions = 0, np.zeros((job.workers, 2), np.int64)
    is_resumed = run.state_path.exists()
    if job.is_chief and is_resumed:
        step, positions = training_state.load_state(run, model)
        logger.info(f"training: resumed after step {step:,}")
    elif job.is_chief and job.init_from is not None:
        past = TrainingRun.open(job.init_from)
        checkpoint = past.find_checkpoint()
        # The weights alone: the optimizer starts again, with warm-up.
        model.set_weights(past.load_model(checkpoint).get_weights())
        logger.info(f"weights: {checkpoint}")
    if job.workers > 1:
        broadcast = functools.partial(
            strategies.broadcast_from_chief, model.distribute_strategy
        )
        step, positions = int(broadcast(np.array(step))), broadcast(positions)
        for variable in training_state.model_variables(model).values():
            variable.assign(broadcast(variable.numpy()))
    if job.is_chief and not is_resumed:
        # From now on there is a state to resume from.
        training_state.save_state(run, model, step, positions)
    return step, positions


def _fit(
    model: Transformer,
    job: Job,
    run: TrainingRun,
    prepared: Prepared,
    step: int,
    positions: np.ndarray,
) -> None:
    recipe, strategy = job.recipe, model.distribute_strategy
    valid = _validation_batches(job, prepared)
    counter = callbacks.StepCounter(step, recipe.steps)
    log = CSVLog(run.log_path, step, job.is_chief)
    stopping = callbacks.EarlyStopping(recipe.patience, log)
    chain = [counter, callbacks.CheckFinite()]
    if job.is_chief:
        chain += _reports(model, job, run, counter, valid is not None)
    if valid is not None:
        valid = strategies.distribute(valid, strategy, among_workers=True)

    def gather_positions() -> np.ndarray:
        # Of the stream of the loop below, which began with `first_step`.
        position = stream.position(counter.step - first_step)
        return strategies.gather_from_workers(strategy, np.array(position))

    checkpoints = callbacks.Checkpoints(
        run if job.is_chief else None,
        recipe.max_to_keep,
        counter,
        gather_positions,
    )
    chain += [log, stopping, checkpoints]
    position = positions[job.index].tolist()
    try:
        # Twice if training was stopped in the middle of an epoch.
        while counter.step < recipe.steps and not stopping.is_exhausted():
            first_step = counter.step
            stream = _training_stream(job, prepared, position)
            epoch, done = divmod(first_step, recipe.steps_per_epoch)
            epochs = math.ceil(recipe.steps / recipe.steps_per_epoch)
            model.fit(
                strategies.distribute(stream.dataset, strategy),
                validation_data=valid,
                steps_per_epoch=recipe.steps_per_epoch - done,
                initial_epoch=epoch,
                epochs=epoch + 1 if done else epochs,
                shuffle=False,  # the pipeline shuffles
                verbose=0,  # `Progress` prints
                callbacks=chain,
            )
            position = stream.position(counter.step - first_step)
    except BaseException as error:
        expected = KeyboardInterrupt | SystemExit | OSError | tf.errors.OpError
        # The stack runs all, the last one first, even if one of them fails.
        with contextlib.ExitStack() as stack:
            if isinstance(error, expected):
                stack.callback(
                    logger.info,
                    f"training: stopped at step {counter.step:,}; the same "
                    f"command resumes after step {checkpoints.saved_step:,}",
                )
            # Keras does not end them, and a bar would stay open.
            for callback in reversed(chain):
                stack.callback(callback.on_train_end)
        raise
    if stopping.is_exhausted():
        logger.info(f"training: no better loss for {recipe.patience} epochs")


def _training_stream(
    job: Job, prepared: Prepared, position: Sequence[int]
) -> batching.BatchStream:
    """Returns the training batches of this worker from a position on."""
    return batching.BatchStream(
        prepared.shards,
        prepared.tokenizer,
        batch_tokens=job.recipe.batch_tokens // job.workers,
        max_length=prepared.max_length,
        seed=job.recipe.seed,
        worker_share=(job.index, job.workers),
        start=position,
    )


def _validation_batches(job: Job, prepared: Prepared) -> tf.data.Dataset | None:
    """Returns the validation batches; None if there are none."""
    if "valid" not in job.corpus.splits:
        return None
    recipe = job.recipe
    batches = batching.evaluation_batches(
        job.corpus.pairs("valid"),
        prepared.tokenizer,
        task=job.corpus.task,
        # As much memory as a part of a training batch needs.
        batch_tokens=max(
            recipe.batch_tokens // recipe.gradient_accumulation_steps,
            2 * recipe.max_length,
        ),
        max_length=recipe.max_length,
    )
    return batches if int(batches.cardinality()) else None


def _reports(
    model: Transformer,
    job: Job,
    run: TrainingRun,
    counter: callbacks.StepCounter,
    validates: bool,
) -> list[keras.callbacks.Callback]:
    """Returns what scores, prints and plots, in this order."""
    recipe, corpus = job.recipe, job.corpus
    chain: list[keras.callbacks.Callback] = []
    folder = run.path / "tensorboard"
    if validates and recipe.scored_sentences:
        greedy = dataclasses.replace(run.default_search, beam_size=1)
        score = callbacks.ValidationScore(
            Translator(model, run.tokenizer, greedy, task=corpus.task),
            corpus.sample("valid", recipe.scored_sentences, recipe.seed),
            corpus.target,
            folder / "samples" if recipe.tensorboard else None,
        )
        chain.append(score)
    chain.append(callbacks.Progress(counter, run.task.watched_label))
    if recipe.tensorboard:
        chain.append(
            keras.callbacks.TensorBoard(str(folder), write_graph=False)
        )
    return chain
