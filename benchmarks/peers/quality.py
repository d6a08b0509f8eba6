"""Trains for a given time on given batches, and writes checkpoints.

Shared by the scripts `*_quality.py`, which all train the preset multi30k.
`time_to_quality.py` writes what they have in common into a folder:

settings.json   the fields of `Settings`
shapes.npy      rows and length of each batch, `[steps, 2]`
ids.npy         the ids of one batch after the other: source, target, labels,
                `[3, ids]`
check.npy       a batch of the validation data, `[3, rows, length]`

Needs NumPy only.
"""

import argparse
import dataclasses
import json
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import workload

PAD = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    """How every system trains."""

    corpus: str  # its folder
    shape: workload.Shape
    warmup_steps: int
    learning_rate_scale: float
    seed: int
    seconds: float  # of training
    every_seconds: float  # between checkpoints
    every_steps: int  # between further checkpoints

    def learning_rate(self, step: Any, minimum: Callable = min) -> Any:
        """Returns the paper's learning rate at a step, counted from 1."""
        rising = step * self.warmup_steps**-1.5
        scale = self.learning_rate_scale * self.shape.d_model**-0.5
        return scale * minimum(step**-0.5, rising)

    def write(self, folder: pathlib.Path) -> None:
        """Writes settings.json."""
        text = json.dumps(dataclasses.asdict(self), indent=1)
        (folder / "settings.json").write_text(text + "\n")

    @classmethod
    def read(cls, folder: pathlib.Path) -> "Settings":
        """Returns what `write` wrote."""
        values = json.loads((folder / "settings.json").read_text())
        return cls(**{**values, "shape": workload.Shape(**values["shape"])})


def parse_options(description: str, *modes: str) -> argparse.Namespace:
    """Returns folder, mode and settings; the first mode is the default."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--dtype", choices=["float32"], default="float32")
    options = parser.parse_args()
    options.settings = Settings.read(options.data)
    return options


def read_batches(folder: pathlib.Path) -> Iterator[np.ndarray]:
    """Yields the batches, int32 `[3, rows, length]`."""
    ids, end = np.load(folder / "ids.npy", mmap_mode="r"), 0
    for rows, length in np.load(folder / "shapes.npy"):
        begin, end = end, end + rows * length
        yield ids[:, begin:end].reshape(3, rows, length).astype(np.int32)


class Recorder:
    """Measures a training, and writes its checkpoints, the first one now.

    The clock starts when the object is created, and stops while a checkpoint
    is written.

    Args:
        options: From `parse_options`.
        weights: Returns all weights by name, as the system calls them.
        loss: Returns the loss of a batch without dropout, with label
            smoothing, as the system computes it.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        weights: Callable[[], dict[str, np.ndarray]],
        loss: Callable[[np.ndarray], Any],
    ) -> None:
        self.options = options
        self.step = 0
        self._weights = weights
        self._loss = loss
        self._check = np.load(options.data / "check.npy")
        self._checkpoints: list[dict] = []
        options.output.mkdir(parents=True, exist_ok=True)
        self._write(0.0)
        self._begin = time.perf_counter()

    def after_step(self) -> bool:
        """Counts a step, whose update is done; returns whether to stop."""
        now = time.perf_counter()
        self.step += 1
        settings, seconds = self.options.settings, now - self._begin
        last, every = self._checkpoints[-1]["seconds"], settings.every_seconds
        is_over = seconds >= settings.seconds
        is_time = is_over or seconds // every > last // every
        if is_time or self.step % settings.every_steps == 0:
            self._write(seconds)
            self._begin += time.perf_counter() - now
        return is_over

    def report(self, system: str, version: str) -> None:
        """Prints the result as one line of JSON."""
        result = {
            "system": system,
            "version": version,
            "checkpoints": self._checkpoints,
        }
        print(json.dumps(result), flush=True)

    def _write(self, seconds: float) -> None:
        path = self.options.output / f"step-{self.step:06}.npz"
        np.savez(path, **self._weights())
        row = {"step": self.step, "seconds": seconds, "file": path.name}
        row["loss"] = float(self._loss(self._check))
        self._checkpoints.append(row)


def train(step: Callable[[np.ndarray], Any], recorder: Recorder) -> None:
    """Trains with a function that trains on one batch."""
    for batch in read_batches(recorder.options.data):
        step(batch)
        if recorder.after_step():
            return
