"""Compiles a model, gives it the state of its run, and fits it."""

import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_transformer import optimizers
from keras_transformer.config import TransformerConfig
from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.translator import Translator
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import TokenNLL
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.train import strategy as strategies
from keras_transformer.train.data import batching, pools
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import check_budget
from keras_transformer.train.fitting import callbacks, training_state
from keras_transformer.train.fitting.training_log import CSVLog
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import RunOpener, TrainingData
from keras_transformer.train.strategy import Worker
from keras_transformer.train.training_settings import TrainingSettings

logger = logging.getLogger(__name__)


def run_training(
    settings: TrainingSettings,
    corpus: Corpus,
    output: Path,
    strategy: tf.distribute.Strategy,
    dry_run: bool = False,
) -> Run | None:
    """Trains a run whose settings are checked; see `train`."""
    recipe, worker = settings.recipe, strategies.worker(strategy)
    check_budget(recipe.batch_tokens, recipe.max_length, worker.count)
    keras.utils.set_random_seed(recipe.seed)
    if recipe.deterministic:
        tf.config.experimental.enable_op_determinism()
    logger.info(f"strategy: {strategies.describe(strategy)}")
    if dry_run and worker.count > 1:
        raise InputError(
            "A dry run takes one worker. Received: TF_CONFIG with "
            f"{worker.count} workers"
        )
    opener = RunOpener(settings, corpus, output, worker.count)
    with contextlib.ExitStack() as stack:
        run = data = None
        if worker.is_chief:
            run, data = stack.enter_context(opener.open())
            parameters = run.config.num_parameters
            preset = settings.preset or "no preset"
            logger.info(f"model: {preset}, {parameters:,} parameters")
        if worker.count > 1:
            run, data = opener.open_as_chief_did(strategy, worker, run, data)
        model = compiled_model(run.config, recipe, strategy)
        step, positions = _restore(model, run, settings.init_from, worker)
        if step < recipe.steps:
            position = tuple(positions[worker.index].tolist())
            fitting = Fitting(model, run, recipe, data, worker)
            if dry_run:
                from keras_transformer.train.dry_run import try_steps

                try_steps(fitting)
                return None
            fitting.fit(step, position)
        else:
            done = f"training: all {recipe.steps:,} steps are done"
            logger.info(f"{done}: the run is at step {step:,}")
    return run if worker.is_chief else None


def compiled_model(
    config: TransformerConfig, recipe: Recipe, strategy: tf.distribute.Strategy
) -> Transformer:
    """Returns a new model with the loss and the optimizer of a recipe."""
    with strategy.scope():
        # The training state refers to variables by name.
        model = Transformer(config, dtype=recipe.dtype, name="transformer")
        rate = config.d_model, recipe.warmup_steps, recipe.learning_rate_scale
        pad_id = config.pad_id
        model.compile(
            optimizers.adam(
                *rate, global_clipnorm=recipe.clip_norm, name="adam"
            ),
            LabelSmoothedCrossEntropy(recipe.label_smoothing, pad_id=pad_id),
            metrics=[TokenNLL(pad_id=pad_id)],
            gradient_accumulation_steps=recipe.gradient_accumulation_steps,
            jit_compile=recipe.jit_compile,
        )
    return model


def _restore(
    model: Transformer, run: Run, init_from: Path | None, worker: Worker
) -> tuple[int, np.ndarray]:
    """Gives the model of every worker the state of the chief's run.

    Returns the updates so far, and the next batch of each worker's data.
    """
    step, positions = 0, np.zeros((worker.count, 2), np.int64)
    is_resumed = run.state_path.exists()
    if worker.is_chief and is_resumed:
        step, positions = training_state.load_state(run, model)
        logger.info(f"training: resumed after step {step:,}")
    elif worker.is_chief and init_from is not None:
        past = Run.open(init_from)
        checkpoint = past.find_checkpoint()
        # The weights alone: the optimizer starts again, with warm-up.
        model.set_weights(past.load_model(checkpoint).get_weights())
        logger.info(f"weights: {checkpoint}")
    if worker.count > 1:
        broadcast = functools.partial(
            strategies.broadcast_from_chief, model.distribute_strategy
        )
        step, positions = int(broadcast(np.array(step))), broadcast(positions)
        for variable in training_state.model_variables(model).values():
            variable.assign(broadcast(variable.numpy()))
    if worker.is_chief and not is_resumed:
        # From now on there is a state to resume from.
        training_state.save_state(run, model, step, positions)
    return step, positions


@dataclasses.dataclass(frozen=True)
class Fitting:
    """Fits a compiled model to the data of its run."""

    model: Transformer  # with the state of the run
    run: Run  # which the chief alone writes
    recipe: Recipe
    data: TrainingData
    worker: Worker

    def fit(self, step: int, position: tuple[int, int]) -> None:
        """Trains after a step, with the batches from a position on."""
        recipe, strategy = self.recipe, self.model.distribute_strategy
        train, worker = self.data.train, self.worker
        order = self.training_order()
        pairs = batching.PairIds(
            train.shards, train.tokenizer, train.max_length
        )
        valid = self._validation_batches()
        counter = callbacks.StepCounter(step, recipe.steps)

        def next_position() -> tuple[int, int]:
            return order.advance(position, counter.step - step)

        def gather_positions() -> np.ndarray:
            own = np.array(next_position())
            return strategies.gather_from_workers(strategy, own)

        if recipe.jit_compile:
            lengths = len(pools.bucket_lengths(train.max_length))
            logger.info(
                f"XLA: batches have up to {lengths} lengths; the first of each "
                "takes seconds longer, to compile its program"
            )
        log = CSVLog(self.run.path / "log.csv", step, worker.is_chief)
        stopping = callbacks.EarlyStopping(recipe.patience, log)
        run = self.run if worker.is_chief else None
        checkpoints = callbacks.Checkpoints(
            run, recipe.max_to_keep, counter, gather_positions
        )
        chain = [counter, callbacks.CheckFinite()]
        if worker.is_chief:
            chain += self._reports(counter, valid is not None)
        chain += [log, stopping, checkpoints]
        if valid is not None:
            valid = strategies.distribute(valid, strategy, among_workers=True)
        epochs = math.ceil(recipe.steps / recipe.steps_per_epoch)
        with _ended_callbacks(chain, checkpoints):
            # Twice if training was stopped in the middle of an epoch.
            while counter.step < recipe.steps and not stopping.is_exhausted():
                epoch, done = divmod(counter.step, recipe.steps_per_epoch)
                batches = batching.make_batches(pairs, order, next_position())
                self.model.fit(
                    strategies.distribute(batches, strategy),
                    validation_data=valid,
                    steps_per_epoch=recipe.steps_per_epoch - done,
                    initial_epoch=epoch,
                    epochs=epoch + 1 if done else epochs,
                    shuffle=False,  # the batches are shuffled
                    verbose=0,  # `Progress` prints
                    callbacks=chain,
                )
        if stopping.is_exhausted():
            logger.info(
                f"early stopping: no improvement for {recipe.patience} epochs"
            )

    def training_order(self) -> batching.BatchOrder:
        """Returns the order of this worker's batches."""
        train, seed = self.data.train, self.recipe.seed
        size = self.recipe.batch_tokens // self.worker.count, train.max_length
        parts = [(x.pairs, entry.weight) for entry, x in train.parts]
        shards = train.shards
        return batching.BatchOrder(shards, *size, seed, self.worker, parts)

    def _validation_batches(self) -> tf.data.Dataset | None:
        """Returns the validation batches; None if there are none."""
        recipe, data = self.recipe, self.data
        if not data.valid_texts:
            return None
        shards, statistics = data.valid
        if not statistics.pairs:
            return None
        # As much memory as a part of a training batch needs.
        part = recipe.batch_tokens // recipe.gradient_accumulation_steps
        sizes = max(part, 2 * recipe.max_length), recipe.max_length
        return batching.one_pass(shards, data.train.tokenizer, *sizes)

    def _reports(
        self, counter: callbacks.StepCounter, validates: bool
    ) -> list[keras.callbacks.Callback]:
        """Returns the callbacks that score, log and plot, in this order."""
        recipe, run = self.recipe, self.run
        chain: list[keras.callbacks.Callback] = []
        folder, data = run.path / "tensorboard", self.data
        if validates and recipe.scored_sentences:
            greedy = dataclasses.replace(run.default_search, beam_size=1)
            task, target = data.train.task, run.recipe["target"]
            translator = Translator(
                self.model, run.tokenizer, greedy, task=task
            )
            pairs = data.sample_valid(recipe.scored_sentences, recipe.seed)
            samples = folder / "samples" if recipe.tensorboard else None
            score = callbacks.ValidationScore(
                translator, pairs, target, samples
            )
            chain.append(score)
        chain.append(callbacks.Progress(counter, run.task.watched_label))
        if recipe.tensorboard:
            board = keras.callbacks.TensorBoard(str(folder), write_graph=False)
            chain.append(board)
        return chain


@contextlib.contextmanager
def _ended_callbacks(
    chain: list[keras.callbacks.Callback], checkpoints: callbacks.Checkpoints
) -> Iterator[None]:
    """Ends all callbacks if training is stopped, and says how to resume.

    Keras does not end them, and a bar would stay open.
    """
    try:
        yield
    except BaseException as error:
        expected = KeyboardInterrupt | SystemExit | OSError | tf.errors.OpError
        # The stack runs all, the last one first, even if one of them fails.
        with contextlib.ExitStack() as stack:
            if isinstance(error, expected):
                stack.callback(
                    logger.info,
                    f"training: stopped at step {checkpoints.counter.step:,}; "
                    "the same command resumes after step "
                    f"{checkpoints.saved_step:,}",
                )
            for callback in reversed(chain):
                stack.callback(callback.on_train_end)
        raise
