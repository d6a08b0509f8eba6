"""Writes a trace to a file, in the format that the file's name says."""

import os
from pathlib import Path

from keras_transformer.showing.tracing.steps import Trace
from keras_transformer.support.files import atomic_write, check_output

_FORMATS = {
    ".html": Trace.to_html,
    ".md": Trace.to_markdown,
    ".txt": Trace.__str__,
}


def check_trace_path(path: str | os.PathLike) -> None:
    """Raises what `save_trace` would raise for any trace.

    Args:
        path: The file.

    Raises:
        InputError: If its name has another ending, or its folder does not
            exist.
    """
    check_output(path, _FORMATS)


def save_trace(trace: Trace, path: str | os.PathLike) -> None:
    """Writes a trace, atomically.

    Args:
        trace: From `keras_transformer.trace`.
        path: A file ending in `.html`, `.md` or `.txt`.

    Raises:
        InputError: As `check_trace_path`.
    """
    check_trace_path(path)
    text = _FORMATS[Path(path).suffix.lower()](trace)
    with atomic_write(path) as partial:
        partial.write_text(text, "utf-8")
