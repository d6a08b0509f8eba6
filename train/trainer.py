"""The training program: `Transformer.fit` on a corpus, into a run folder."""

import contextlib
import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import optimizers
from keras_transformer.config import TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import TokenNLL
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.train import callbacks, state
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.log import CSVLog, read_log
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import Job, default_values, open_run
from keras_transformer.train.run import TrainingRun
from keras_transformer.train.strategy import (
    broadcast_from_chief,
    describe,
    distribute,
    gather_from_workers,
    open_strategy,
    worker,
)
from keras_transformer.train.workers import open_shared_run


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
            preset, otherwise `"small"`.
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
    keeps_architecture = preset is None and init_from is not None
    preset, values = default_values(corpus, Path(output), preset, init_from)
    if recipe is None:
        recipe = Recipe.from_preset(preset, **values)
    strategy = strategy or open_strategy("single")
    job = Job(
        corpus,
        Path(output),
        preset,
        recipe,
        architecture or {},
        init_from and Path(init_from),
        worker(strategy)[1],
        keeps_architecture,
    )
    _check(job)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    print(f"strategy: {describe(strategy)}")
    with contextlib.ExitStack() as stack:
        run = prepared = None
        if worker(strategy)[0] == 0:
            run, prepared = stack.enter_context(open_run(job))
            print(f"model: {preset}, {run.config.num_parameters:,} parameters")
        shared = run
        if job.workers > 1:
            shared, prepared = open_shared_run(strategy, job, run, prepared)
        model = _compiled_model(shared.config, recipe, strategy)
        resumed = _restore(model, job, run, strategy)
        if run and resumed.step < recipe.steps:
            # With init_from the vocabulary is that of the other run.
            vocab_size = run.config.vocab_size
            settings = job.settings() | {"vocab_size": vocab_size}
            if run.recipe != settings:
                run = run.with_recipe(settings)
        _fit(model, job, prepared, run, strategy, resumed)
    return run


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
    splits = ", ".join(corpus.splits)
    if "train" not in corpus.splits:
        raise InputError(
            f"Training needs a split train. Received: {corpus.name} with "
            f"{splits}"
        )
    if recipe.patience is not None and "valid" not in corpus.splits:
        raise InputError(
            "patience needs a split valid, whose loss it monitors. Received: "
            f"patience={recipe.patience}, splits {splits}"
        )
    if corpus.prepared is not None:
        corpus.prepared.check_recipe(recipe.vocab_size, recipe.max_length)
    pipeline.check_budget(recipe.batch_tokens, recipe.max_length, job.workers)
    if recipe.tensorboard:
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            raise InputError(
                "TensorBoard is not installed. Run "
                'pip install "keras-transformer-nmt[tensorboard]"'
            ) from error
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
    model: Transformer,
    job: Job,
    run: TrainingRun | None,
    strategy: tf.distribute.Strategy,
) -> state.State:
    """Assigns the state of the chief's run on every worker.

    Returns:
        The state without its variables, which would stay in memory.
    """
    resumed = state.get_state(model, 0, np.zeros((job.workers, 2), np.int64))
    if run is not None and run.state_path.exists():
        resumed = state.load_state(run.state_path, run.id)
        print(f"training: resumed after step {resumed.step:,}")
    elif run is not None and job.init_from is not None:
        past = TrainingRun.open(job.init_from)
        checkpoint = past.find_checkpoint()
        # The weights alone: the optimizer starts anew, with its warm-up.
        model.set_weights(past.load_model(checkpoint).get_weights())
        print(f"weights: {checkpoint}")
        resumed = state.get_state(model, 0, resumed.position)
    resumed = state.State(
        int(broadcast_from_chief(strategy, resumed.step)),
        broadcast_from_chief(strategy, resumed.position),
        resumed.names,
        [broadcast_from_chief(strategy, v) for v in resumed.variables],
    )
    state.set_state(model, resumed)
    if run is not None and not run.state_path.exists():
        # From now on there is a state to resume from.
        state.save_state(run.state_path, resumed, run.id)
    return resumed._replace(names=[], variables=[])


def _fit(
    model: Transformer,
    job: Job,
    prepared: Prepared | None,
    run: TrainingRun | None,
    strategy: tf.distribute.Strategy,
    resumed: state.State,
) -> None:
    recipe = job.recipe
    if resumed.step >= recipe.steps:
        print(f"training: all {recipe.steps:,} steps are done")
        return
    counter = callbacks.StepCounter(resumed.step, recipe.steps)
    training_data = _TrainingData(job, prepared, strategy, counter, resumed)
    valid = _validation_batches(job, prepared)
    chain = [counter, callbacks.CheckFinite(counter)]
    stopping = None
    if valid is not None:
        valid = distribute(valid, strategy, among_workers=True)
    if valid is not None and recipe.patience is not None:
        rows = read_log(run.log_path) if run is not None else []
        losses = [
            row["val_loss"]
            for row in rows
            if row["step"] <= resumed.step and "val_loss" in row
        ]
        losses = broadcast_from_chief(strategy, losses).tolist()
        stopping = callbacks.EarlyStopping(recipe.patience, losses)
        chain.append(stopping)
    if run is not None:
        chain += _chief_callbacks(job, run, counter, valid is not None)
    checkpoints = callbacks.Checkpoints(
        run, recipe.max_to_keep, counter, training_data.gather_positions
    )
    chain.append(checkpoints)

    def is_done() -> bool:
        if stopping is not None and stopping.is_exhausted():
            print(f"training: no better loss for {recipe.patience} epochs")
            return True
        return counter.step >= recipe.steps

    try:
        # Twice if training was stopped in the middle of an epoch.
        while not is_done():
            epoch, done = divmod(counter.step, recipe.steps_per_epoch)
            epochs = math.ceil(recipe.steps / recipe.steps_per_epoch)
            model.fit(
                training_data.batches(),
                validation_data=valid,
                steps_per_epoch=recipe.steps_per_epoch - done,
                initial_epoch=epoch,
                epochs=epoch + 1 if done else epochs,
                shuffle=False,  # the pipeline shuffles
                verbose=0,  # `Progress` prints
                callbacks=chain,
            )
    except BaseException as error:
        for callback in chain:  # Keras does not, and a bar would stay open
            callback.on_train_end()
        expected = KeyboardInterrupt | SystemExit | OSError | tf.errors.OpError
        if isinstance(error, expected):
            print(
                f"training: stopped at step {counter.step:,}; the same command "
                f"resumes after step {checkpoints.saved_step:,}"
            )
        raise


class _TrainingData:
    """The training batches of this worker, and the position in them."""

    def __init__(
        self,
        job: Job,
        prepared: Prepared,
        strategy: tf.distribute.Strategy,
        counter: callbacks.StepCounter,
        resumed: state.State,
    ) -> None:
        index, workers = share = worker(strategy)
        self._stream_arguments = dict(
            shards=prepared.shards,
            tokenizer=prepared.tokenizer,
            batch_tokens=job.recipe.batch_tokens // workers,
            max_length=prepared.max_length,
            seed=job.recipe.seed,
            share=share,
        )
        self._strategy = strategy
        self._counter = counter
        self._position = tuple(resumed.position[index].tolist())
        self._stream = None

    def batches(self) -> Any:
        """Returns the batches after those of the steps so far."""
        if self._stream is not None:
            self._position = self._current_position()
        self._first_step = self._counter.step
        self._stream = pipeline.BatchStream(
            **self._stream_arguments, start=self._position
        )
        return distribute(self._stream.dataset, self._strategy)

    def gather_positions(self) -> np.ndarray:
        """Returns every worker's position, `[workers, 2]`."""
        return gather_from_workers(self._strategy, self._current_position())

    def _current_position(self) -> tuple[int, int]:
        return self._stream.position(self._counter.step - self._first_step)


def _validation_batches(job: Job, prepared: Prepared) -> tf.data.Dataset | None:
    """Returns the validation batches; None if there are none."""
    if "valid" not in job.corpus.splits:
        return None
    recipe = job.recipe
    batches = pipeline.evaluation_batches(
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


def _chief_callbacks(
    job: Job,
    run: TrainingRun,
    counter: callbacks.StepCounter,
    validates: bool,
) -> list[keras.callbacks.Callback]:
    """Returns what translates, prints and logs, in order."""
    recipe, corpus = job.recipe, job.corpus
    chain: list[keras.callbacks.Callback] = [
        CSVLog(run.log_path, counter.step),
        callbacks.Progress(counter, run.task.watched_label),
    ]
    folder = run.path / "tensorboard"
    if recipe.tensorboard:
        chain.append(
            keras.callbacks.TensorBoard(str(folder), write_graph=False)
        )
    if validates and recipe.scored_sentences:
        pairs = corpus.sample("valid", recipe.scored_sentences, recipe.seed)
        score = callbacks.ValidationScore(
            corpus.task, run.tokenizer, pairs, corpus.target
        )
        chain.insert(0, score)
        if recipe.tensorboard:
            chain.append(callbacks.SampleTexts(folder / "samples", score))
    return chain
