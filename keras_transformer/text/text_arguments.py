"""Converts texts that callers pass to Python strings."""

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from keras_transformer.support.errors import InputError


def read_texts(texts: Any, name: str = "texts") -> tuple[list[str], bool]:
    """Returns a list of Python strings, and whether `texts` is a single one.

    Args:
        texts: One text, or an iterable of texts. A text is a `str`, UTF-8
            `bytes`, or a scalar string tensor or array. NumPy arrays and
            string tensors of shape `[B]` are iterables of texts.
        name: Name of the argument in messages.

    Raises:
        InputError: If a text is something else, or not valid Unicode.
    """
    texts = _unwrap(texts)
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        return [read_text(texts, name)], True
    return [read_text(t, f"{name}[{i}]") for i, t in enumerate(texts)], False


def read_targets(
    targets: Any, name: str, sources: Sequence[str], is_single: bool
) -> list[str]:
    """Returns one text for each source, which are results of `read_texts`."""
    targets, is_text = read_texts(targets, name)
    expected = "one text" if is_single else f"a list of {len(sources)}"
    received = "one text" if is_text else f"a list of {len(targets)}"
    if received != expected:
        raise InputError(
            f"must be {expected}, as the sources are. Received: {received}",
            argument=name,
        )
    return targets


def read_text(value: Any, name: str) -> str:
    """Returns one text as a Python string; see `read_texts`."""
    value = _unwrap(value)
    try:
        if isinstance(value, bytes):
            return value.decode("utf-8")
        value.encode("utf-8")  # a lone surrogate fails
        return str(value)
    except (UnicodeError, AttributeError) as error:
        raise InputError(
            "A text must be a `str`, UTF-8 `bytes` or a scalar string tensor, "
            f"of valid Unicode. Received: {name}={reprlib.repr(value):.80} "
            f"({error}). Decode bytes with the right encoding."
        ) from error


def _unwrap(value: Any) -> Any:
    """Returns a tensor as an array, and a scalar array as its element."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return value
