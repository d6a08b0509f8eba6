"""The SHA-256 of a file of weights, an attribute of the file."""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import h5py


def write_checksum(file: "h5py.File") -> None:
    """Adds the checksum of all weights and attributes to a file."""
    file.attrs["sha256"] = _checksum(file)


def check_checksum(file: "h5py.File") -> None:
    """Raises ValueError if a file has changed since it was written."""
    if file.attrs["sha256"] != _checksum(file):
        raise ValueError("a different SHA-256 than when it was written")


def _checksum(file: "h5py.File") -> str:
    digest = hashlib.sha256()

    def add(name: str, value: "h5py.Dataset | h5py.Group") -> None:
        if hasattr(value, "shape"):  # a group of weights has none
            digest.update(name.encode() + value[()].tobytes())

    file.visititems(add)
    for name, value in sorted(file.attrs.items()):
        if name != "sha256":
            digest.update(f"{name}={value}".encode())
    return digest.hexdigest()
