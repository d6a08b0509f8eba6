"""Trains a Transformer on a parallel corpus, with `model.fit`."""

import dataclasses
import math
import shutil
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer import optimizers
from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import Perplexity, TokenAccuracy, TokenNLL
from keras_transformer.model import Transformer
from keras_transformer.presets import preset as find_preset
from keras_transformer.text import Tokenizer
from keras_transformer.train import pipeline
from keras_transformer.train.run import Run, check_is_free
from keras_transformer.train.sources import Corpus

_DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train: everything beside the architecture and the data.

    Args:
        vocab_size: Tokens of the shared vocabulary.
        steps: Updates.
        steps_per_epoch: Updates between checkpoints, each with a pass over
            the validation data.
        batch_tokens: Source plus target tokens in a batch, padding included.
        warmup_steps: Steps over which the learning rate rises.
        label_smoothing: Probability taken from the right token.
        max_length: Longest source or target trained on, in tokens; longer
            pairs are dropped.
        keep: Checkpoints kept.
        seed: Of the weights, the dropout and the order of the data.
        dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
    """

    vocab_size: int
    steps: int
    batch_tokens: int
    warmup_steps: int
    label_smoothing: float
    steps_per_epoch: int = 500
    max_length: int = 128
    keep: int = 5
    seed: int = 1
    dtype: str = "float32"

    @classmethod
    def from_preset(cls, name: str, **overrides) -> "Recipe":
        """Returns the recipe of a preset; None leaves a value as it is."""
        chosen = find_preset(name)
        values = {
            "vocab_size": chosen.vocab_size,
            "steps": chosen.steps,
            "batch_tokens": chosen.batch_tokens,
            "warmup_steps": chosen.warmup_steps,
            "label_smoothing": chosen.label_smoothing,
        }
        given = {k: v for k, v in overrides.items() if v is not None}
        return cls(**{**values, **given})

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "steps",
            "steps_per_epoch",
            "batch_tokens",
            "warmup_steps",
            "max_length",
            "keep",
        ):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name} must be positive. Received: "
                    f"{name}={getattr(self, name)}"
                )
        if not 0.0 <= self.label_smoothing < 1.0:
            raise InputError(
                "label_smoothing must be in [0, 1). Received: "
                f"label_smoothing={self.label_smoothing}"
            )
        if not 0 <= self.seed < 2**32:
            raise InputError(
                f"seed must be from 0 to 2^32 - 1. Received: seed={self.seed}"
            )
        if self.batch_tokens < 2 * self.max_length:
            raise InputError(
                "batch_tokens counts source and target: it must be at least "
                f"2 * max_length = {2 * self.max_length}. Received: "
                f"batch_tokens={self.batch_tokens}"
            )
        if self.dtype not in _DTYPES:
            raise InputError(
                f"dtype must be one of {', '.join(_DTYPES)}. Received: "
                f"dtype={self.dtype!r}"
            )


def train(
    corpus: Corpus,
    output: str | Path,
    preset: str = "small",
    recipe: Recipe | None = None,
) -> Run:
    """Trains on the `train` split, and validates on `valid` if there is one.

    Args:
        corpus: From `open_corpus`.
        output: Folder of the run; it must be new or empty.
        preset: Name of the architecture.
        recipe: How to train. Default: the preset's.

    Returns:
        The run, with its last checkpoints.

    Raises:
        InputError: If the input cannot be used, or the loss becomes NaN.
    """
    recipe = recipe or Recipe.from_preset(preset)
    check_is_free(output)
    keras.utils.set_random_seed(recipe.seed)
    splits = [s for s in ("train", "valid") if s in corpus.splits]
    for split in splits:
        say(f"{split}: {corpus.check(split):,} pairs in {corpus.name}")
    say(f"tokenizer: learning a vocabulary of {recipe.vocab_size:,} from train")
    tokenizer = Tokenizer.train(corpus.texts("train"), recipe.vocab_size)
    batches = _batches(corpus, tokenizer, recipe)

    config = TransformerConfig.from_preset(
        preset,
        vocab_size=tokenizer.vocab_size,
        max_length=recipe.max_length,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    model = Transformer(config, dtype=recipe.dtype)
    say(f"model: {preset}, {config.num_parameters:,} parameters")
    compile_model(model, recipe)
    run = Run.create(
        output,
        config,
        {
            "preset": preset,
            "data": corpus.name,
            "source": corpus.source,
            "target": corpus.target,
            **dataclasses.asdict(recipe),
        },
        tokenizer,
    )
    say(
        f"training: {recipe.steps:,} steps, a checkpoint every "
        f"{recipe.steps_per_epoch:,}"
    )
    try:
        _fit(model, batches, recipe, run)
    except BaseException:
        if not run.checkpoints():  # a folder that no command could use
            shutil.rmtree(run.path)
        raise
    return run


def compile_model(model: Transformer, recipe: Recipe) -> None:
    """Gives the model the paper's optimiser and loss, and our metrics."""
    pad_id = model.config.pad_id
    model.compile(
        optimizer=optimizers.adam(model.config.d_model, recipe.warmup_steps),
        loss=LabelSmoothedCrossEntropy(recipe.label_smoothing, pad_id),
        metrics=[TokenNLL(pad_id), Perplexity(pad_id), TokenAccuracy(pad_id)],
        # XLA would compile anew for each length of batch.
        jit_compile=False,
    )


def _batches(
    corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe
) -> dict[str, tf.data.Dataset]:
    """Returns the batches of each split; says what is dropped."""
    sizes = dict(batch_tokens=recipe.batch_tokens, max_length=recipe.max_length)
    pairs = corpus.pairs("train")
    survey = _survey(corpus, "train", tokenizer, recipe.max_length)
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
    batches = {
        "train": pipeline.training_batches(
            pairs, tokenizer, seed=recipe.seed, **sizes
        )
    }
    if "valid" in corpus.splits:
        if _survey(corpus, "valid", tokenizer, recipe.max_length).pairs:
            batches["valid"] = pipeline.evaluation_batches(
                corpus.pairs("valid"), tokenizer, **sizes
            )
        else:
            say("valid: no pair is left, so there is no validation")
    return batches


def _survey(
    corpus: Corpus, split: str, tokenizer: Tokenizer, max_length: int
) -> pipeline.Survey:
    survey = pipeline.survey(corpus.pairs(split), tokenizer, max_length)
    say(
        f"{split}: {survey.pairs:,} pairs kept, "
        f"{survey.source_tokens:,} source and "
        f"{survey.target_tokens:,} target tokens; dropped "
        f"{survey.dropped_long:,} longer than {max_length} tokens and "
        f"{survey.dropped_empty:,} with an empty side; the longest text has "
        f"{survey.longest:,} tokens"
    )
    return survey


def _fit(
    model: Transformer,
    batches: dict[str, tf.data.Dataset],
    recipe: Recipe,
    run: Run,
) -> None:
    log = keras.callbacks.CSVLogger(run.path / "log.csv")
    try:
        model.fit(
            batches["train"],
            steps_per_epoch=recipe.steps_per_epoch,
            epochs=math.ceil(recipe.steps / recipe.steps_per_epoch),
            validation_data=batches.get("valid"),
            shuffle=False,  # the pipeline does
            callbacks=[
                _EndAfter(recipe.steps),
                _Checkpoints(run, recipe.keep),
                log,
            ],
        )
    finally:
        if log.csv_file:  # which Keras leaves open after an error
            log.csv_file.close()


class _EndAfter(keras.callbacks.Callback):
    """Ends training after so many steps, and with an error at a NaN."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        step = int(self.model.optimizer.iterations)
        loss = float((logs or {}).get("loss", 0.0))
        if not math.isfinite(loss):
            raise InputError(
                f"The loss became {loss} at step {step}. Train with more "
                "warm-up steps or larger batches; under mixed_float16, with "
                "mixed_bfloat16 or float32."
            )
        if step >= self.steps:
            self.model.stop_training = True


class _Checkpoints(keras.callbacks.Callback):
    """Saves the weights at the end of every epoch."""

    def __init__(self, run: Run, keep: int) -> None:
        super().__init__()
        self.run = run
        self.keep = keep

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        step = int(self.model.optimizer.iterations)
        self.run.save_checkpoint(self.model, step, self.keep)


def say(text: str) -> None:
    """Prints a line of progress at once."""
    print(text, flush=True)
