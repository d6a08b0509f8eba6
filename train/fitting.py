"""Compiles a model, restores the state of its run, and fits it; a dry run."""

import contextlib
import logging
import math
import sys
import time

import keras
import numpy as np

from keras_transformer import optimizers
from keras_transformer.config import TransformerConfig
from keras_transformer.inference.opening import read_run
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import TokenNLL
from keras_transformer.model import Transformer
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.train import callbacks, state
from keras_transformer.train.data import encoding
from keras_transformer.train.data.batching import Batches
from keras_transformer.train.data.pools import bucket_lengths
from keras_transformer.train.data.prepared import PreparedCorpus
from keras_transformer.train.devices import Devices
from keras_transformer.train.recipe import Recipe

logger = logging.getLogger(__name__)

_DRY_STEPS = 3


def fit(
    run: Run,
    data: PreparedCorpus,
    recipe: Recipe,
    devices: Devices,
) -> None:
    """Trains the model of a run to the end of its recipe.

    Each worker calls it with the run's data; only the chief writes to the run.
    """
    worker = devices.worker
    _start(run.config, data, recipe, devices)
    model = compiled_model(run.config, recipe, devices)
    step = _restore_or_start(model, run) if worker.is_chief else 0
    if worker.count > 1:
        step = _broadcast(model, step, devices)
    valid_texts = list(data.pairs("valid")) if "valid" in data.splits else []
    valid = _validation_batches(valid_texts, data, recipe, devices)
    if valid is None and recipe.patience is not None:
        logger.warning(
            f"patience={recipe.patience} is ignored: no validation data"
        )
    counter = callbacks.StepCounter(step, recipe.steps)
    log = callbacks.CSVLog(run.path / "log.csv", step, worker.is_chief)
    stopping = callbacks.EarlyStopping(recipe.patience, log)
    checkpoints = callbacks.Checkpoints(
        run if worker.is_chief else None, recipe.max_to_keep, counter
    )
    chain = [counter, callbacks.CheckFinite()]
    if keras.backend.backend() == "torch":
        chain.append(callbacks.SeedSteps(counter, recipe.seed))
    if worker.is_chief:
        score = None
        if valid is not None and recipe.scored_sentences:
            score = callbacks.ValidationScore(model, run, recipe, valid_texts)
            chain.append(score)  # it adds to the logs
        chain.append(callbacks.Progress(counter, score.name if score else ""))
        if recipe.tensorboard:
            folder = str(run.path / "tensorboard")
            chain.append(keras.callbacks.TensorBoard(folder, write_graph=False))
    chain += [log, stopping, checkpoints]
    if valid is not None:
        valid = devices.for_fit(valid, among_workers=True)
    epochs = math.ceil(recipe.steps / recipe.steps_per_epoch)
    try:
        # Twice if training was stopped in the middle of an epoch.
        while counter.step < recipe.steps and not stopping.is_exhausted():
            epoch, done = divmod(counter.step, recipe.steps_per_epoch)
            batches = _training_batches(data, recipe, devices, counter.step)
            with devices.scope(), checkpoints.delayed_signals(worker.count):
                model.fit(
                    devices.for_fit(batches),
                    validation_data=valid,
                    steps_per_epoch=recipe.steps_per_epoch - done,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if done else epochs,
                    shuffle=False,  # the batches are shuffled
                    verbose=0,  # `Progress` prints
                    callbacks=chain,
                )
    except BaseException as error:
        for callback in reversed(chain):  # Keras does so after success only
            callback.on_train_end()
        if not isinstance(error, InputError):
            logger.info(
                f"training: stopped at step {counter.step:,}; the same command "
                f"resumes after step {checkpoints.saved_step:,}"
            )
        raise
    if stopping.is_exhausted():
        logger.info(
            f"early stopping: no improvement for {recipe.patience} epochs"
        )


def try_steps(
    config: TransformerConfig,
    data: PreparedCorpus,
    recipe: Recipe,
    devices: Devices,
) -> None:
    """Trains for a few steps, and logs the time and memory of a training."""
    _start(config, data, recipe, devices)
    model = compiled_model(config, recipe, devices)
    batches = _training_batches(data, recipe, devices, step=0)
    lengths = bucket_lengths(data.max_length)
    shapes = [f"[{recipe.batch_tokens // (2 * x)}, {x}]" for x in lengths]
    logger.info(f"batches: from {shapes[0]} to {shapes[-1]}")
    per_pass = batches.count_batches_of_pass()
    logger.info(f"steps: {per_pass:,} per pass over the data")
    # One batch, since a training reads the next ones during a step.
    for number in range(1 + _DRY_STEPS):
        if number == 1:  # the first step compiles
            start = time.monotonic()
        with devices.scope():
            model.fit(
                devices.for_fit(batches),
                steps_per_epoch=1,
                shuffle=False,
                verbose=0,
            )
    seconds = (time.monotonic() - start) / _DRY_STEPS
    logger.info(f"time: {seconds:.2g} s per step, mean of {_DRY_STEPS}")
    hours = seconds * recipe.steps / 3600
    logger.info(f"time: {hours:,.2g} hours for {recipe.steps:,} steps")
    with contextlib.suppress(ModuleNotFoundError):  # on Windows
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        logger.info(f"memory: {peak / 1e9:.1f} GB of main memory at the peak")


def _start(
    config: TransformerConfig,
    data: PreparedCorpus,
    recipe: Recipe,
    devices: Devices,
) -> None:
    """Sets the seed and determinism, and logs what follows."""
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        devices.make_deterministic()
    backend = keras.backend.backend()
    logger.info(f"strategy: {devices.describe()}, with {backend}")
    logger.info(f"model: {config.num_parameters:,} parameters")
    warmup = recipe.warmup_steps
    rate = recipe.learning_rate_scale * (config.d_model * warmup) ** -0.5
    logger.info(f"learning rate: highest {rate:.2g}, at step {warmup:,}")
    logger.info(f"train: {data.statistics.describe(recipe.max_length)}")
    tokens = 0.0
    for part in data.parts:
        counts = part.statistics
        tokens += part.weight * (counts.source_tokens + counts.target_tokens)
        if len(data.parts) > 1:
            text = counts.describe(recipe.max_length)
            logger.info(f"  {part}, weight {part.weight:g}: {text}")
    passes = recipe.steps * recipe.batch_tokens / tokens
    passes = f"at most {passes:,.1f}" if passes >= 0.1 else "less than 0.1"
    logger.info(f"train: {recipe.steps:,} steps, {passes} passes over the data")


def compiled_model(
    config: TransformerConfig, recipe: Recipe, devices: Devices
) -> Transformer:
    """Returns a new model that is ready for `fit`."""
    accumulation = {}
    if recipe.gradient_accumulation_steps > 1:
        steps = recipe.gradient_accumulation_steps
        accumulation["gradient_accumulation_steps"] = steps
    with devices.scope():
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
            jit_compile=recipe.jit_compile or "auto",
            **accumulation,
        )
        # Else its variables exist after the first step only.
        model.optimizer.build(model.trainable_variables)
    return model


def _training_batches(
    data: PreparedCorpus, recipe: Recipe, devices: Devices, step: int
) -> Batches:
    """Returns this worker's batches after a number of steps."""
    return Batches(
        data.shards,
        data.tokenizer,
        batch_tokens=recipe.batch_tokens // devices.worker.count,
        max_length=data.max_length,
        seed=recipe.seed,
        worker_share=devices.worker,
        parts=[(part.statistics.pairs, part.weight) for part in data.parts],
        rows_multiple=devices.rows_multiple,
        start=step,
    )


def _restore_or_start(model: Transformer, run: Run) -> int:
    """Restores the state of a run, or saves its first one; returns the step."""
    if run.state_path.exists():
        step = state.load_state(run, model)
        logger.info(f"training: resumed after step {step:,}")
        return step
    if "init_from" in run.request:
        initial_run = read_run(run.request["init_from"])
        checkpoint = initial_run.find_checkpoint()
        # The weights alone: the optimizer starts again, with warm-up.
        model.set_weights(initial_run.load_model(checkpoint).get_weights())
        logger.info(f"weights: {checkpoint}")
    # From now on the run does not need `init_from`.
    state.save_state(run, model, 0)
    return 0


def _broadcast(model: Transformer, step: int, devices: Devices) -> int:
    """Gives every worker the chief's state; returns the chief's step."""
    step = int(devices.broadcast(np.array(step)))
    for variable in state.model_variables(model).values():
        variable.assign(devices.broadcast(variable.numpy()))
    return step


def _validation_batches(
    texts: list[tuple[str, str]],
    data: PreparedCorpus,
    recipe: Recipe,
    devices: Devices,
) -> Batches | None:
    """Returns the validation batches; None if there are none."""
    if not texts:
        logger.info("no validation split: skipping validation")
        return None
    encoder = encoding.PairEncoder(data.tokenizer, data.max_length, data.task)
    shards = list(encoder.shards(texts))
    logger.info(f"valid: {encoder.statistics.describe(recipe.max_length)}")
    if not encoder.statistics.pairs:
        return None
    # No more memory than a part of a training batch takes.
    part = recipe.batch_tokens // recipe.gradient_accumulation_steps
    return Batches(
        shards,
        data.tokenizer,
        batch_tokens=max(part, 2 * recipe.max_length),
        max_length=recipe.max_length,
        rows_multiple=devices.rows_multiple,
    )
