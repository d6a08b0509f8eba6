"""Standard streams, signals and exit codes of the command line."""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from keras_transformer.support import files
from keras_transformer.support.compressed import decompressed
from keras_transformer.support.errors import InputError
from keras_transformer.support.progress import progress_bar

if TYPE_CHECKING:
    from tqdm import tqdm

_INVALID = 2
_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_BROKEN_PIPE = 128 + 13  # SIGPIPE
_TERMINATED = 128 + 15  # SIGTERM
_WORDS = {_INTERRUPTED: "interrupted", _TERMINATED: "terminated"}

_READ_SIZE = 1 << 16  # bytes; as many as a pipe holds

# In messages of the system and TensorFlow, and of NumPy.
_FULL_DISK = r".*(No space left|\d+ requested and \d+ written).*"


def run(command: Callable[[], None]) -> int:
    """Runs a command, reports its error and returns its exit code.

    It is 2 after an error of the user or the system. SIGTERM raises
    `SystemExit(143)` in the command.
    """
    try:
        if hasattr(sys.stdout, "reconfigure"):  # not in a notebook
            # UTF-8 in every locale, and line by line also into a pipe.
            sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
        with _raise_on_sigterm():
            command()
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
        return _BROKEN_PIPE
    except Exception as error:
        message = _describe(error)
        if message is None:  # a bug of ours
            raise
        report(message)
        return _INVALID


def report(message: str) -> None:
    """Prints a message of this program on standard error."""
    print(f"keras-transformer: {message}", file=sys.stderr)


def check_output(path: Path | None) -> None:
    """Checks the name of a text file to write; None is standard output."""
    if path is not None:
        files.check_new(path)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Yields standard output, or a new file; an InputError leaves its lines."""
    if path is None:
        yield sys.stdout
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        files.atomic_write(path) as partial,
        open(partial, "w", encoding="utf-8", newline="") as stream,
    ):
        try:
            yield stream
        except InputError:
            if stream.tell():
                os.replace(partial, path)
                report(f"what precedes the error is in {path}")
            raise


def read_lines(paths: Sequence[Path] | None = None) -> Iterator[list[str]]:
    """Yields the lines of files, or of standard input as soon as they arrive.

    A list has all complete lines that could be read without waiting for more,
    at least one. Those before an invalid line are yielded before the error.
    """
    for path in paths or ():
        with open(path, "rb") as file, decompressed(file, path) as stream:
            yield from _decoded_lines(stream, str(path))
    if not paths:
        yield from _decoded_lines(sys.stdin.buffer, "Standard input")


def count_lines(inputs: Sequence[Path] | None) -> int | None:
    """Returns the number of lines of files; None if they are read only once.

    Standard input and pipes are. A file that is damaged is found here, before
    a model is opened.
    """
    if not inputs or any(path.is_fifo() for path in inputs):
        return None
    return sum(map(len, read_lines(inputs)))


def name_line(inputs: Sequence[Path] | None, number: int) -> str:
    """Names a line, of several files by its number in all of them."""
    names = ", ".join(map(str, inputs or ()))
    return f"line {number} of {names}" if names else f"line {number}"


def progress_of(
    inputs: Sequence[Path] | None, total: int | None, unit: str = "line"
) -> "tqdm":
    """Returns a progress bar, except where `read_lines` has a prompt."""
    is_shown = inputs is not None or not sys.stdin.isatty()
    return progress_bar(total=total, unit=unit, leave=False, is_shown=is_shown)


def _decoded_lines(stream: BinaryIO, name: str) -> Iterator[list[str]]:
    number = 0
    for encoded in _read_encoded_lines(stream):
        lines = []
        for line in encoded:
            number += 1
            # Some editors write a byte order mark before the first line.
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            try:
                lines.append(line.decode(encoding).rstrip("\r"))
            except UnicodeDecodeError as error:
                if lines:
                    yield lines
                raise InputError(
                    f"{name} must be UTF-8. Received: line {number}, "
                    f"{error.reason} at byte {error.start + 1}"
                ) from error
        yield lines


def _read_encoded_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    prompt = "> " if stream.isatty() else ""
    if prompt:
        report("enter one sentence per line, and Ctrl-D to end")
    unfinished: list[bytes] = []  # parts of a line whose end is not read yet
    while True:
        print(prompt, end="", file=sys.stderr, flush=True)
        chunk = stream.read1(_READ_SIZE)
        if not chunk:
            break
        first, *others = chunk.split(b"\n")
        unfinished.append(first)
        if others:
            yield [b"".join(unfinished), *others[:-1]]
            unfinished = others[-1:]
    if prompt:
        print(file=sys.stderr)
    if last := b"".join(unfinished):
        yield [last]


@contextlib.contextmanager
def _raise_on_sigterm() -> Iterator[None]:
    """Lets SIGTERM end a command as Ctrl-C does: it cleans up."""
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def end_on_signals() -> None:
    """Lets SIGTERM and Ctrl-C end the process, which waits for no thread."""

    def end(number: int, frame: Any) -> None:
        report(_WORDS[128 + number])
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)


def _describe(error: Exception) -> str | None:
    """Returns what to print of an error; None if it is a bug of ours."""
    if line := re.search(_FULL_DISK, str(error)):
        return f"The disk is full. Received: {line[0]}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror}. Received: {error.filename}"
    return str(error) if isinstance(error, InputError | OSError) else None
