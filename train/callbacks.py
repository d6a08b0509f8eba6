"""What happens beside the updates: figures, validation, logs, checkpoints.

The trainer runs them in the order of this file: those at the front add to the
figures of an epoch, `logs`, and those behind write them.
"""

import csv
import io
import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_transformer.decoding import BeamSearch
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write
from keras_transformer.text import Tokenizer
from keras_transformer.train import state
from keras_transformer.train.bleu import corpus_scores
from keras_transformer.train.run import TrainingRun
from keras_transformer.translator import Translator

COLUMNS = (
    "step",
    "loss",
    "nll",
    "perplexity",
    "learning_rate",
    "gradient_norm",
    "tokens_per_second",
    "val_loss",
    "val_nll",
    "val_perplexity",
    "val_bleu",
)
_SAMPLES = 3
# In float16 a gradient that overflows updates nothing and halves the loss
# scale. One that still does after so many times is NaN at any scale.
_MOST_OVERFLOWS = 50


class Steps(keras.callbacks.Callback):
    """Counts updates, averages their figures, and ends after the last.

    Args:
        first: Updates that were done before.
        last: Updates after which training ends.
        position: What follows in each worker's data.

    Attributes:
        step: Updates so far.
        position: `[workers, 2]`: what follows in each worker's data.
    """

    def __init__(self, first: int, last: int, position: np.ndarray) -> None:
        super().__init__()
        self.step = first
        self.last = last
        self.position = position
        self._overflows = 0  # one after the other

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._sums = dict.fromkeys(("loss", "nll", "gradient_norm"), 0.0)
        self._tokens = self._updates = self._norms = 0.0
        self._start = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.step += 1
        self.position = np.asarray(logs["position"]).astype("int64")
        if not math.isfinite(logs["loss"]):
            raise _diverged("loss", logs["loss"], self.step)
        # The first update of a run is slow, since it compiles.
        if self._updates == 0:
            self._start, self._untimed = time.monotonic(), logs["tokens"]
        self._tokens += logs["tokens"]
        self._updates += 1
        self._sums["loss"] += logs["loss"] * logs["tokens"]
        self._sums["nll"] += logs["nll"] * logs["tokens"]
        if math.isfinite(logs["gradient_norm"]):
            self._sums["gradient_norm"] += logs["gradient_norm"]
            self._norms += 1
            self._overflows = 0
        else:
            self._overflows += 1
            float16 = self.model.compute_dtype == "float16"
            if self._overflows > (_MOST_OVERFLOWS if float16 else 0):
                raise _diverged("gradient", logs["gradient_norm"], self.step)
        if self.step >= self.last:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        seconds = time.monotonic() - self._start
        logs["step"] = self.step
        logs["loss"] = self._sums["loss"] / self._tokens
        logs["nll"] = self._sums["nll"] / self._tokens
        logs["perplexity"] = math.exp(min(logs["nll"], 700.0))
        # Under mixed_float16 some gradients overflow, and update nothing.
        if self._norms:
            logs["gradient_norm"] = self._sums["gradient_norm"] / self._norms
        if self._updates > 1:
            timed = self._tokens - self._untimed
            logs["tokens_per_second"] = timed / seconds


def _diverged(what: str, value: float, step: int) -> InputError:
    return InputError(
        f"The {what} became {value} at step {step}. Train into another folder "
        "with more warm-up steps, larger batches or a clip norm; under "
        "mixed_float16, with mixed_bfloat16 or float32."
    )


class Validation(keras.callbacks.Callback):
    """Adds the validation loss to an epoch's figures; may end training.

    Args:
        batches: What `distribute` gives, of a finite dataset.
        losses: Those of the epochs before.
        patience: Epochs without a better loss after which training ends;
            None: never.

    Attributes:
        losses: Those of the epochs so far.
    """

    def __init__(
        self, batches: Any, losses: np.ndarray, patience: int | None
    ) -> None:
        super().__init__()
        self.batches = batches
        self.losses = losses.tolist()
        self.patience = patience

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        logs.update(self.model.validate(self.batches))
        if not math.isfinite(logs["val_loss"]):
            raise _diverged("validation loss", logs["val_loss"], logs["step"])
        logs["val_perplexity"] = math.exp(min(logs["val_nll"], 700.0))
        self.losses.append(logs["val_loss"])
        if self.is_over():
            self.model.stop_training = True

    def is_over(self) -> bool:
        """Returns whether the last `patience` epochs had no better loss."""
        if self.patience is None or len(self.losses) <= self.patience:
            return False
        before, since = (
            self.losses[: -self.patience],
            self.losses[-self.patience :],
        )
        return min(since) >= min(before)


class Bleu(keras.callbacks.Callback):
    """Adds the BLEU of greedy translations to an epoch's figures.

    Args:
        tokenizer: The tokenizer.
        pairs: Validation sources and references.
        target: Language code of the references.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        pairs: Sequence[tuple[str, str]],
        target: str,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.sources, self.references = zip(*pairs, strict=True)
        self.target = target
        self._samples: list[tuple[str, str, str]] = []
        self._translator: Translator | None = None

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self._translator is None:
            self._translator = Translator(
                self.model.transformer, self.tokenizer, BeamSearch(1)
            )
        found = self._translator(self.sources)
        scores = corpus_scores(found, self.references, target=self.target)
        logs["val_bleu"] = scores["bleu"]
        texts = zip(self.sources, found, self.references, strict=True)
        self._samples = list(itertools.islice(texts, _SAMPLES))

    def latest_samples(self) -> list[tuple[str, str, str]]:
        """Returns source, translation and reference of some sentences."""
        return self._samples


class Log(keras.callbacks.Callback):
    """Writes `log.csv`, a line an epoch.

    Args:
        path: Where. Lines of a run that is resumed are kept.
        step: Updates that were done before; what is beyond them is dropped.

    Attributes:
        rows: The lines, oldest first.
    """

    def __init__(self, path: Path, step: int) -> None:
        super().__init__()
        self.path = path
        self.rows = [row for row in read_log(path) if row["step"] <= step]

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        row = {name: logs[name] for name in COLUMNS if name in logs}
        self.rows.append(row)
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in self.rows:
            writer.writerow(
                {k: int(v) if k == "step" else float(v) for k, v in row.items()}
            )
        with atomic_write(self.path) as partial:
            partial.write_text(text.getvalue(), "utf-8")


def read_log(path: Path) -> list[dict[str, float]]:
    """Returns the lines of `log.csv`; none if it does not exist.

    Raises:
        InputError: If it is damaged, or has no column `step`.
    """
    if not path.exists():
        return []
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if "step" not in (reader.fieldnames or ()):
                raise ValueError(f"columns {reader.fieldnames}, none is step")
            return [
                {name: float(value) for name, value in row.items() if value}
                for row in reader
            ]
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{path} must be a log of training. Received: {error}. Move it "
            "away: training goes on without it."
        ) from error


class Progress(keras.callbacks.Callback):
    """Shows a bar on a terminal, and prints a line an epoch.

    Args:
        first: Updates that were done before.
        last: Updates after which training ends.
    """

    def __init__(self, first: int, last: int) -> None:
        super().__init__()
        self.first, self.last = first, last
        self._bar = tqdm(disable=True)

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._bar = tqdm(
            total=self.last,
            initial=self.first,
            unit="step",
            disable=None,  # but on a terminal
            dynamic_ncols=True,
        )
        self._start = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._tokens, self._epoch_start = 0.0, time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._tokens += logs["tokens"]
        if not self._bar.disable:
            rate = self._tokens / (time.monotonic() - self._epoch_start)
            self._bar.set_postfix_str(
                f"loss {logs['loss']:.3f}, {rate:,.0f} tokens/s", refresh=False
            )
        self._bar.update()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        words = [f"step {logs['step']:,}/{self.last:,}"]
        for name, label, form in (
            ("loss", "loss", ".3f"),
            ("perplexity", "perplexity", ".2f"),
            ("val_loss", "validation loss", ".3f"),
            ("val_perplexity", "perplexity", ".2f"),
            ("val_bleu", "BLEU", ".2f"),
            ("tokens_per_second", "tokens/s", ",.0f"),
        ):
            if name in logs:
                words.append(f"{label} {logs[name]:{form}}")
        if "tokens_per_second" in logs and logs["step"] < self.last:
            left = self.last - logs["step"]
            seconds = (time.monotonic() - self._start) * left
            seconds /= max(logs["step"] - self.first, 1)
            words.append(f"left {tqdm.format_interval(seconds)}")
        tqdm.write("  ".join(words))
        sys.stdout.flush()

    def on_train_end(self, logs: dict | None = None) -> None:
        self._bar.close()


def check_tensorboard() -> None:
    """Raises InputError if TensorBoard is not installed."""
    try:
        import tensorboard  # noqa: F401  (tf.summary is made of it)
    except ImportError as error:
        raise InputError(
            "TensorBoard is not installed. TrainingRun "
            'pip install "keras-transformer-nmt[tensorboard]"'
        ) from error


class TensorBoard(keras.callbacks.Callback):
    """Writes the figures of every epoch, and samples, for TensorBoard.

    Args:
        path: Folder of the event files.
        samples: Returns (source, translation, reference) of some sentences.
    """

    def __init__(self, path: Path, samples: Callable[[], list]) -> None:
        super().__init__()
        self.samples = samples
        self._writer = tf.summary.create_file_writer(str(path))

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        step = logs["step"]
        with self._writer.as_default(step):
            for name in COLUMNS[1:]:
                if name in logs:
                    tf.summary.scalar(name, logs[name])
            for number, texts in enumerate(self.samples(), start=1):
                lines = zip(
                    ("source", "translation", "reference"), texts, strict=True
                )
                text = "\n\n".join(f"**{name}** {text}" for name, text in lines)
                tf.summary.text(f"sample_{number}", text)
        self._writer.flush()

    def on_train_end(self, logs: dict | None = None) -> None:
        self._writer.close()


class Checkpoints(keras.callbacks.Callback):
    """Saves the weights, the best ones too, and then the state.

    In this order, so that a run which is killed in between repeats an epoch
    rather than lose a part of it.

    Args:
        run: Where.
        keep: Checkpoints kept.
        steps: Knows the step and the position.
        validation: Knows the validation losses; None without validation.
    """

    def __init__(
        self,
        run: TrainingRun,
        keep: int,
        steps: Steps,
        validation: Validation | None,
    ) -> None:
        super().__init__()
        self.run = run
        self.keep = keep
        self.steps = steps
        self.validation = validation

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        step = self.steps.step
        self.run.save_checkpoint(self.model.transformer, step, self.keep)
        if "val_bleu" in logs:
            self.run.save_best(self.model.transformer, step, logs["val_bleu"])
        losses = self.validation.losses if self.validation else ()
        now = state.state_of(self.model, step, self.steps.position, losses)
        state.save(self.run.state_path, now)
