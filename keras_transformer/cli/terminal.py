"""Standard streams, signals and exit codes of the command line."""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.support.logs import progress_bar
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.support.text_files import arriving_lines

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_TERMINATED = 128 + 15  # SIGTERM
_WORDS = {_INTERRUPTED: "interrupted", _TERMINATED: "terminated"}

# Messages about a full disk, of the system, TensorFlow and NumPy.
_FULL_DISK = r".*(No space left|\d+ requested and \d+ written).*"


def run(
    command: Callable[[Sequence[str]], None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Runs a command, reports its error and returns its exit code.

    The code is 2 after an error of the user or the system. From now on SIGTERM
    raises `SystemExit(143)`. The default arguments are those of the program.
    """
    try:
        if hasattr(sys.stdout, "reconfigure"):  # not in a notebook
            # UTF-8 in every locale, and line by line also into a pipe.
            sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
        with explain_missing_packages():
            command(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        report(_WORDS[_INTERRUPTED])
        return _INTERRUPTED
    except SystemExit as error:
        if error.code in _WORDS:
            report(_WORDS[error.code])
        raise
    except BrokenPipeError:
        return 128 + 13  # SIGPIPE
    except Exception as error:
        if line := re.search(_FULL_DISK, str(error)):
            report(f"The disk is full. Received: {line[0]}")
        elif isinstance(error, OSError) and error.filename:
            report(f"{error.strerror}. Received: {error.filename}")
        elif isinstance(error, InputError | OSError):
            report(str(error))
        else:  # a bug
            raise
        return 2


def report(message: str) -> None:
    """Prints a message of this program on standard error."""
    print(f"keras-transformer: {message}", file=sys.stderr)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Yields standard output or a new file.

    While it yields standard output, `print` writes to standard error. A file
    appears when it is complete.
    """
    if path is None:
        stdout = sys.stdout
        with contextlib.redirect_stdout(sys.stderr):
            yield stdout
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        atomic_write(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as stream,
    ):
        yield stream


def read_lines(paths: Sequence[Path] | None = None) -> Iterator[list[str]]:
    """Yields the lines of files, or of standard input, as they arrive."""
    for path in paths or ():
        with open(path, "rb") as file:
            yield from arriving_lines(file, path)
    if not paths:
        lists = arriving_lines(sys.stdin.buffer, "Standard input")
        if sys.stdin.isatty():
            lists = _prompted(lists)
        yield from lists


def _prompted(lists: Iterator[list[str]]) -> Iterator[list[str]]:
    """Prints a prompt before each list."""
    report("enter one sentence per line, and Ctrl-D to end")
    print("> ", end="", file=sys.stderr, flush=True)
    for lines in lists:
        yield lines
        print("> ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def read_with_progress(
    inputs: Sequence[Path] | None,
) -> Iterator[tuple[list[str], int, Any]]:
    """Yields lists of lines, the number of the first, and a progress bar.

    Files are read once before, to count lines and to find invalid ones.
    """
    total = None
    number = 1
    if inputs and not any(path.is_fifo() for path in inputs):
        total = sum(map(len, read_lines(inputs)))
    has_prompt = not inputs and sys.stdin.isatty()
    with progress_bar(
        total=total, unit="line", leave=False, is_shown=not has_prompt
    ) as bar:
        for lines in read_lines(inputs):
            yield lines, number, bar
            number += len(lines)


def end_on_signals() -> None:
    """Makes SIGTERM and Ctrl-C end the process without waiting for threads."""

    def end(number: int, frame: Any) -> None:
        report(_WORDS[128 + number])
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
