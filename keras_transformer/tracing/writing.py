"""Writes a trace to a file, in the format that the file's name says."""

import os
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write
from keras_transformer.tracing.steps import Trace

_FORMATS = {
    ".html": Trace.to_html,
    ".md": Trace.to_markdown,
    ".txt": Trace.__str__,
}


def check_trace_path(path: str | os.PathLike) -> None:
    """Raises what `save_trace` would raise for any trace.

    Raises:
        InputError: If the name of the file has another ending.
    """
    if Path(path).suffix.lower() not in _FORMATS:
        raise InputError(
            f"A trace is written to a file ending in {', '.join(_FORMATS)}. "
            f"Received: {path}"
        )


def save_trace(trace: Trace, path: str | os.PathLike) -> None:
    """Writes a trace, atomically.

    Args:
        trace: From `keras_transformer.trace`.
        path: A file ending in `.html`, `.md` or `.txt`.

    Raises:
        InputError: If the name of the file has another ending.
    """
    check_trace_path(path)
    text = _FORMATS[Path(path).suffix.lower()](trace)
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")
