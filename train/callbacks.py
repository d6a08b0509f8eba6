"""Callbacks of the training program, in the order in which they run.

The first add values to the logs of an epoch; the last write them.
"""

import contextlib
import csv
import dataclasses
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.inference.translator import Translator
from keras_transformer.model import Transformer
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.support.logs import progress_bar
from keras_transformer.text.tokenizer_training import sample
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.state import save_state

logger = logging.getLogger(__name__)

# Overflowing float16 gradients halve the loss scale. Below this scale they are
# NaN rather than too large.
_LOWEST_LOSS_SCALE = 2.0**-30
COLUMNS = """
step loss nll perplexity learning_rate gradient_norm tokens_per_second
val_loss val_nll val_perplexity val_score
""".split()


class StepCounter(keras.callbacks.Callback):
    """Counts updates, ends training after the last, adds values to the logs.

    Keras counts epochs, and starts at 0 when training is resumed. The speed
    leaves out the first update of an epoch, which may trace the graph.
    """

    def __init__(self, step: int, last_step: int) -> None:
        super().__init__()
        self.step = step  # updates so far
        self.last_step = last_step

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._first: tuple[float, float] | None = None
        self._added: dict[str, float] = {}

    def on_train_batch_end(self, batch: int, logs: dict) -> None:
        self.step += 1
        self._added["step"] = self.step
        # Not after each update: JAX takes milliseconds to show the state.
        if self._first is None or self.is_last_of_epoch(batch):
            self._read_speed()
        logs.update(self._added)
        if self.step >= self.last_step:
            self.model.stop_training = True

    def is_last_of_epoch(self, batch: int) -> bool:
        """Returns whether an epoch ends after a batch, counted from 0."""
        is_last = batch + 1 == self.params["steps"]
        return is_last or self.step >= self.last_step

    def _read_speed(self) -> None:
        # On JAX and PyTorch Keras' mean, over sequences, has the same name.
        loss = [m for m in self.model.metrics if m.name == "loss"][-1]
        tokens = float(loss.count.numpy())
        now = time.monotonic()
        if self._first is None:
            self._first = (tokens, now)
        first_tokens, start = self._first
        if now > start:
            rate = (tokens - first_tokens) / (now - start)
            self._added["tokens_per_second"] = rate

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        logs.update(self._added)
        logs["learning_rate"] = float(self.model.optimizer.learning_rate)
        for prefix in ("", "val_"):
            if f"{prefix}nll" in logs:
                nll = min(logs[f"{prefix}nll"], 700.0)  # exp(710) overflows
                logs[f"{prefix}perplexity"] = math.exp(nll)


class SeedSteps(keras.callbacks.Callback):
    """Seeds each update, for dropout on PyTorch.

    Keras draws it with PyTorch's own generator, which other code uses, too.
    """

    def __init__(self, counter: StepCounter, seed: int) -> None:
        super().__init__()
        self.counter = counter
        self.seed = seed

    def on_train_batch_begin(
        self, batch: int, logs: dict | None = None
    ) -> None:
        import torch

        torch.manual_seed(2**32 * self.seed + self.counter.step)


class CheckFinite(keras.callbacks.Callback):
    """Raises InputError when training diverges.

    Keras' `TerminateOnNaN` ends training as if it had succeeded, and checks
    neither gradients nor the validation loss.
    """

    def on_train_batch_end(self, batch: int, logs: dict) -> None:
        self._check("loss", logs["loss"], logs)
        # TensorFlow alone has it.
        self._check("gradient norm", logs.get("gradient_norm", 0.0), logs)

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        self._check("validation loss", logs.get("val_loss", 0.0), logs)
        total = sum(np.sum(x, dtype=float) for x in self.model.get_weights())
        self._check("sum of all weights", total, logs)
        scale = getattr(self.model.optimizer, "dynamic_scale", None)
        if scale is not None and scale.numpy() < _LOWEST_LOSS_SCALE:
            self._check("gradient", math.inf, logs)

    def _check(self, name: str, value: float, logs: dict) -> None:
        if not math.isfinite(value):
            raise InputError(
                f"The {name} must be finite. Received: {value} at step "
                f"{logs['step']}. Train into a different folder with more "
                "warm-up steps, larger batches or clip_norm; instead of "
                "mixed_float16 use mixed_bfloat16 or float32."
            )


class CSVLog(keras.callbacks.Callback):
    """Writes `log.csv` atomically, one row per epoch.

    Drops the rows after `step`, at which the run is resumed; Keras' `CSVLogger`
    would keep them. All workers have the rows; only the chief writes them.
    """

    def __init__(self, path: Path, step: int, is_chief: bool = True) -> None:
        super().__init__()
        self.path = path
        self.is_chief = is_chief
        self.rows = [row for row in read_log(path) if row["step"] <= step]

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        self.rows.append({name: logs[name] for name in COLUMNS if name in logs})
        if not self.is_chief:
            return
        with (
            atomic_write(self.path) as partial,
            open(partial, "w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for row in self.rows:
                writer.writerow({**row, "step": int(row["step"])})


def read_log(path: Path) -> list[dict[str, float]]:
    """Returns the rows of `log.csv`; none if it does not exist."""
    if not path.exists():
        return []
    rows = csv.DictReader(path.read_text("utf-8").splitlines())
    return [{x: float(row[x]) for x in COLUMNS if row.get(x)} for row in rows]


class EarlyStopping(keras.callbacks.Callback):
    """Ends training when the validation loss no longer improves.

    Keras' own forgets the epochs before training was resumed; the log contains
    them. Without `patience` it never ends training.
    """

    def __init__(self, patience: int | None, log: CSVLog) -> None:
        super().__init__()
        self.patience = patience
        self.log = log

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.is_exhausted():
            self.model.stop_training = True

    def is_exhausted(self) -> bool:
        """Returns whether the epochs so far end training."""
        losses = [x["val_loss"] for x in self.log.rows if "val_loss" in x]
        before = losses[: -self.patience] if self.patience else []
        return bool(before) and min(losses) >= min(before)


class ValidationScore(keras.callbacks.Callback):
    """Decodes a sample greedily, and adds `val_score` to the logs."""

    def __init__(
        self,
        model: Transformer,
        run: Run,
        recipe: Recipe,
        pairs: Sequence[tuple[str, str]],
    ) -> None:
        super().__init__()
        greedy = dataclasses.replace(run.search, beam_size=1)
        task = run.task
        self.translator = Translator(model, run.tokenizer, greedy, task=task)
        places = sample(range(len(pairs)), recipe.scored_sentences, recipe.seed)
        self.sources = [pairs[place][0] for place in sorted(places)]
        self.references = [pairs[place][1] for place in sorted(places)]
        self.target = run.languages[1]
        self.metric = task.choose_metric(self.references, self.target)
        self.name = task.metrics[self.metric]

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        hypotheses = self.translator(self.sources)
        scores = self.translator.task.scores(
            hypotheses, self.references, self.target, [self.metric]
        )
        logs["val_score"] = scores[self.metric]


class Progress(keras.callbacks.Callback):
    """Logs a line per epoch; shows a bar on a terminal.

    Keras' `ProgbarLogger` shows no remaining time of the run, and fills log
    files with its updates.
    """

    def __init__(self, counter: StepCounter, score_name: str) -> None:
        super().__init__()
        self.counter = counter
        self.score_name = score_name  # of the validation score, if any
        self._bar = progress_bar(is_shown=False)

    def on_train_begin(self, logs: dict | None = None) -> None:
        self._bar = progress_bar(
            total=self.counter.last_step,
            initial=self.counter.step,
            unit="step",
            dynamic_ncols=True,
        )

    def on_train_batch_end(self, batch: int, logs: dict) -> None:
        self._bar.set_postfix_str(f"loss {logs['loss']:.3f}", refresh=False)
        self._bar.update()

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        words = [f"step {self.counter.step:,}/{self.counter.last_step:,}"]
        for name, label, form in (
            ("loss", "loss", ".3f"),
            ("perplexity", "perplexity", ".2f"),
            ("val_loss", "validation loss", ".3f"),
            ("val_perplexity", "validation perplexity", ".2f"),
            ("val_score", self.score_name, ".2f"),
            ("tokens_per_second", "tokens/s", ",.0f"),
        ):
            if name in logs:
                words.append(f"{label} {logs[name]:{form}}")
        with self._bar.external_write_mode():  # the line is above the bar
            logger.info("  ".join(words))

    def on_train_end(self, logs: dict | None = None) -> None:
        self._bar.close()


class Checkpoints(keras.callbacks.Callback):
    """Saves the weights, the best weights, and then the training state.

    In this order, so that a run that is killed in between repeats an epoch
    instead of losing a part of it. Keras' own callbacks write neither
    atomically nor the state of the optimizer.

    After a signal it saves the state at the end of the update or, if this is
    the last one of an epoch, of the epoch. It then ends training: Ctrl-C raises
    `KeyboardInterrupt`; SIGTERM (preemption) exits with code 143.
    """

    # `run` is None on workers other than the chief.
    def __init__(
        self,
        run: Run | None,
        max_to_keep: int,
        counter: StepCounter,
    ) -> None:
        super().__init__()
        self.run = run
        self.max_to_keep = max_to_keep
        self.counter = counter
        self.received_signals: list[int] = []
        self.saved_step = counter.step  # in the state, on every worker

    @contextlib.contextmanager
    def delayed_signals(self, workers: int = 1) -> Iterator[None]:
        """Receives Ctrl-C and SIGTERM, and obeys them after the update.

        A second Ctrl-C acts at once. So does every signal if there are several
        workers, since they can only save together.
        """
        is_main = threading.current_thread() is threading.main_thread()
        with contextlib.ExitStack() as stack:
            for number in (signal.SIGINT, signal.SIGTERM):
                # A shell starts background processes without Ctrl-C.
                is_ignored = signal.getsignal(number) == signal.SIG_IGN
                if is_main and workers == 1 and not is_ignored:
                    handler = signal.signal(number, self._receive)
                    stack.callback(signal.signal, number, handler)
            yield

    def _receive(self, number: int, frame: Any) -> None:
        if self.received_signals and number == signal.SIGINT:
            signal.default_int_handler(number, frame)  # KeyboardInterrupt
        self.received_signals.append(number)
        message = b"\nSaving after this step. Press Ctrl-C again to stop now.\n"
        os.write(2, message)  # `print` is not reentrant

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        is_last = self.counter.is_last_of_epoch(batch)
        if self.received_signals and not is_last:
            self._save_state()
            self._obey_signal()

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        step = self.counter.step
        if self.run is not None:
            self.run.save_checkpoint(self.model, step, self.max_to_keep)
            if "val_score" in logs:
                self.run.save_best(self.model, step, logs["val_score"])
        self._save_state()
        if self.received_signals:
            self._obey_signal()

    def _save_state(self) -> None:
        if self.run is not None:
            save_state(self.run, self.model, self.counter.step)
        self.saved_step = self.counter.step

    def _obey_signal(self) -> None:
        """Ends training, as the first signal demands."""
        if self.received_signals[0] == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + signal.SIGTERM)
