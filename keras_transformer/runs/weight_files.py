"""Files of weights: Keras' HDF5 files with a step and a checksum."""

import functools
import hashlib
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.support import files
from keras_transformer.support.errors import explain_damage

if TYPE_CHECKING:
    import h5py
    import keras

_HDF5_OVERHEAD = 8 * 1024  # bytes per variable; 2 KiB were measured

_explain_damage = functools.partial(
    explain_damage,
    expected="a checkpoint of the model in config.json",
    advice="Delete it to fall back to the previous one.",
)


def load_weights(model: "keras.Model", path: Path) -> None:
    """Loads the weights of a file into a model.

    Raises InputError if they are damaged, not finite, or a different model's.
    """
    import h5py
    from keras import ops

    with _explain_damage(path):
        with h5py.File(path) as file:
            if file.attrs["sha256"] != checksum(file):
                raise ValueError("a different SHA-256 than when it was written")
        model.load_weights(path)
        for weight in model.weights:
            # Keras accepts the integers of quantized layers.
            if not ops.all(ops.isfinite(weight.value)):
                raise ValueError(f"NaN or infinity in {weight.path}")


def save_weights(
    model: "keras.Model", path: Path, step: int, **attributes: float
) -> None:
    """Writes the weights of a model after a step, atomically."""
    import h5py

    from keras_transformer.fit.keras_overrides import save_without_optimizer

    path.parent.mkdir(exist_ok=True)
    sizes = [4 * math.prod(w.shape) + _HDF5_OVERHEAD for w in model.weights]
    with files.atomic_write(path) as partial:
        # HDF5 aborts the process when it finds the disk full.
        files.reserve_disk_space(partial, sum(sizes))
        # The training state contains the optimizer, which is twice as large.
        save_without_optimizer(model, partial)
        with h5py.File(partial, "a") as file:
            file.attrs.update(step=step, **attributes)
            file.attrs["sha256"] = checksum(file)


def step_of(path: Path) -> int:
    """Returns the training step of a file."""
    numbered = re.match(r"step-(\d+)", path.name)
    return int(numbered[1] if numbered else read_attribute(path, "step"))


def read_attribute(path: Path, name: str) -> Any:
    """Returns an attribute that `save_weights` wrote, as "score"."""
    import h5py

    with _explain_damage(path), h5py.File(path) as file:
        return file.attrs[name]


def checksum(file: "h5py.File") -> str:
    """Returns the SHA-256 of all weights and attributes."""
    digest = hashlib.sha256()

    def add(name: str, value: "h5py.Dataset | h5py.Group") -> None:
        if hasattr(value, "shape"):  # a group of weights has none
            digest.update(name.encode() + value[()].tobytes())

    file.visititems(add)
    for name, value in sorted(file.attrs.items()):
        if name != "sha256":
            digest.update(f"{name}={value}".encode())
    return digest.hexdigest()
