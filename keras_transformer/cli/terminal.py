"""Standard streams, signals and exit codes of the command line."""

import contextlib
import functools
import gc
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from keras_transformer.support import files
from keras_transformer.support.compressed import SUFFIXES, decompressed
from keras_transformer.support.errors import InputError
from keras_transformer.support.progress import progress_bar

if TYPE_CHECKING:
    from tqdm import tqdm

_INVALID = 2
_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_BROKEN_PIPE = 128 + 13  # SIGPIPE
_TERMINATED = 128 + 15  # SIGTERM
_WORDS = {_INTERRUPTED: "interrupted", _TERMINATED: "terminated"}

_IMPORTS = "<frozen importlib"  # in the name of the file of its code
_READ_SIZE = 1 << 16  # bytes; as many as a pipe holds

# What precedes the reason when TensorFlow fails in a graph.
_PREAMBLE = (
    r"Graph execution error|Detected at node|\s+File |\d+ root error|<stack"
)

_MEMORY = (
    "There is not enough memory. For translation, use a smaller --beam-size. "
    "For training, start a new run (with --init-from to keep the weights) with "
    "a smaller --batch-tokens or --max-length, with "
    "--gradient-accumulation-steps or a mixed --dtype."
)
_WORKER = (
    "Another worker has stopped or does not answer. If it printed no reason, "
    "start the same commands again: they resume from the last checkpoint."
)
_XLA = (
    "XLA cannot compile this model on this device. Train into another folder "
    "without --jit-compile."
)
_FILE = "A file cannot be read or written."
# By class name, since TensorFlow may not be imported.
_ADVICE = {
    "MemoryError": _MEMORY,
    "ResourceExhaustedError": _MEMORY,
    "UnavailableError": _WORKER,
    "AbortedError": _WORKER,
    "PermissionDeniedError": _FILE,
    "NotFoundError": _FILE,
}


def run(command: Callable[[], None]) -> int:
    """Runs a command, reports its error and returns its exit code.

    It is 2 after an error of the user or the system. SIGTERM raises
    `SystemExit(143)` in the command.
    """
    try:
        _prepare_streams()
        with _raise_on_signals():
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


def check_arguments(arguments: Sequence[str]) -> None:
    """Checks the encoding of the command line."""
    for argument in arguments:
        # Python puts lone surrogates where it cannot decode bytes.
        if re.search("[\0\ud800-\udfff]", argument):
            raise InputError(
                "Arguments and the names of files must be valid UTF-8. "
                f"Received: {argument!r}"
            )


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """Yields standard output, or a new file, which is written atomically.

    If the block raises InputError, it has what was written before.
    """
    if path is None:
        yield sys.stdout
        return
    files.check_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    problem = None
    with files.atomic_write(path) as partial:
        with open(partial, "w", encoding="utf-8", newline="") as stream:
            try:
                yield stream
            except InputError as error:
                if not stream.tell():
                    raise
                problem = error
            except (KeyboardInterrupt, SystemExit):
                report(f"{path} is not written")
                raise
    if problem:
        message = f"{problem}; what precedes it is done, and in {path}"
        raise InputError(message) from problem


def read_lines(paths: Sequence[Path] | None = None) -> Iterator[list[str]]:
    """Yields the lines of files, or of standard input as soon as they arrive.

    A list has all complete lines that could be read without waiting for more,
    at least one. Those before an invalid line are yielded before the error.
    """
    for path in paths or ():
        with open(path, "rb") as file, decompressed(file, path) as stream:
            yield from _decoded_lines(stream, str(path))
    if paths:
        return
    if sys.stdin is None:
        raise InputError(
            "Standard input must be open. Received: a closed one; use "
            "`< FILE`, a pipe or a terminal."
        )
    name, stream = "Standard input", sys.stdin.buffer
    if stream.isatty():  # with nothing yet to look at
        yield from _decoded_lines(stream, name)
        return
    with decompressed(stream, name) as lines:
        yield from _decoded_lines(lines, name)


def check_streams(inputs: Sequence[Path] | None, output: Path | None) -> None:
    """Checks the names of --input and --output."""
    for path in inputs or ():
        if path.is_dir():
            raise InputError(
                f"--input must be a text file. Received: {path}, a folder"
            )
        if not path.exists():
            raise InputError(f"No such file: --input {path}")
    if output is not None:
        if output.suffix in SUFFIXES:
            raise InputError(
                "--output is plain text. Choose a name without "
                f"{output.suffix}, and compress it after. Received: {output}"
            )
        files.check_creatable(output)
        files.check_new(output)


def count_lines(
    inputs: Sequence[Path] | None,
    check: Callable[[list[str], int], Any] | None = None,
) -> int | None:
    """Reads files to the end, to find what is wrong before they are used.

    `check` is called with lists of lines, and the number of the first line of
    each. Returns the number of lines; None if they can be read only once, as
    those of standard input and of pipes.
    """
    if not inputs or not all(path.is_file() for path in inputs):
        return None
    total = 0
    for lines in read_lines(inputs):
        if check is not None:
            check(lines, total + 1)
        total += len(lines)
    return total


def name_line(inputs: Sequence[Path] | None, number: int) -> str:
    """Names a line, of several files by its number in all of them."""
    names = ", ".join(map(str, inputs or ()))
    return f"line {number} of {names}" if names else f"line {number}"


def progress_of(
    inputs: Sequence[Path] | None, total: int | None, unit: str = "line"
) -> "tqdm":
    """Returns a progress bar, except where `read_lines` has a prompt."""
    is_shown = inputs is not None or sys.stdin is None or not sys.stdin.isatty()
    return progress_bar(total=total, unit=unit, leave=False, is_shown=is_shown)


def _decoded_lines(stream: BinaryIO, name: str) -> Iterator[list[str]]:
    number = 0
    for encoded in _read_encoded_lines(stream, name):
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


def _read_encoded_lines(stream: BinaryIO, name: str) -> Iterator[list[bytes]]:
    prompt = "> " if stream.isatty() else ""
    if prompt:
        report("enter one sentence per line, and Ctrl-D to end")
    unfinished: list[bytes] = []  # parts of a line whose end is not read yet
    has_ends = False  # of lines
    while True:
        print(prompt, end="", file=sys.stderr, flush=True)
        chunk = stream.read1(_READ_SIZE)
        if not chunk:
            break
        first, *others = chunk.split(b"\n")
        unfinished.append(first)
        if others:
            has_ends = True
            yield [b"".join(unfinished), *others[:-1]]
            unfinished = others[-1:]
    if prompt:
        print(file=sys.stderr)
    last = b"".join(unfinished)
    if not has_ends and b"\r" in last.rstrip(b"\r"):
        raise InputError(
            f"{name} must have lines that end with LF or CR LF. Received: "
            "lines that end with CR. Convert them, as tr '\\r' '\\n' does."
        )
    if last:
        yield [last]


def _prepare_streams() -> None:
    """Sets UTF-8 and line buffering."""
    if sys.stderr is None:  # closed
        sys.stderr = open(os.devnull, "w")
        os.dup2(sys.stderr.fileno(), 2)  # native code writes there
    if sys.stdout is None:  # the next file would get its file descriptor
        raise InputError(
            "Standard output must be open. Received: a closed one; use "
            "`> /dev/null` to discard the output."
        )
    if hasattr(sys.stdout, "reconfigure"):  # not in a notebook
        # UTF-8 in every locale, and line by line also into a pipe.
        sys.stdout.reconfigure(
            encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


@contextlib.contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Lets SIGTERM and Ctrl-C end a command like errors: it cleans up.

    In an import it ends at once.
    """
    stderr = os.dup(2)  # which imports redirect

    def end(number: int, frame: FrameType | None) -> None:
        if _may_lose_exceptions(frame):
            _end_process(stderr, number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(_TERMINATED)

    previous = _handle_signals(end)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(stderr)


def end_on_signals() -> None:
    """Lets SIGTERM and Ctrl-C end the process, which waits for no thread."""
    _handle_signals(functools.partial(_end_process, 2))


def _handle_signals(handler: Callable[..., None]) -> dict[int, Any]:
    """Sets the handler of both signals, and returns the previous ones."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {
        number: signal.signal(number, handler)
        for number in (signal.SIGTERM, signal.SIGINT)
        # A process that a shell starts in the background ignores Ctrl-C.
        if signal.getsignal(number) not in (None, signal.SIG_IGN)
    }


def _may_lose_exceptions(frame: FrameType | None) -> bool:
    """Whether a frame is in an import or in a callback of garbage collection.

    Packages catch all errors of an import, or crash; Python discards those of
    a callback, such as JAX has.
    """
    callbacks = [getattr(x, "__code__", None) for x in gc.callbacks]
    codes = [each.f_code for each, _ in traceback.walk_stack(frame)]
    return any(x in callbacks or _IMPORTS in x.co_filename for x in codes)


def _end_process(stderr: int, number: int, *frame: Any) -> None:
    code = 128 + number
    os.write(stderr, f"keras-transformer: {_WORDS[code]}\n".encode())
    os._exit(code)


def _describe(error: Exception) -> str | None:
    """Returns what to print of an error; None if it is a bug of ours."""
    if isinstance(error, InputError):
        return str(error)
    names = [cls.__name__ for cls in type(error).__mro__]
    advice = next((_ADVICE[name] for name in names if name in _ADVICE), None)
    # TensorFlow has no exception classes of its own for these.
    full = (
        r"No space left|\d+ requested and \d+ written"  # the latter is NumPy's
    )
    if re.search(full, str(error)):
        advice = "The disk is full."
    elif "File too large" in str(error):
        advice = "A file exceeds the size limit; see `ulimit -f`."
    elif "OpError" in names and re.search("XLA|tf2xla", str(error)):
        advice = advice or _XLA
    # In a graph, TensorFlow's reason follows where it failed.
    lines = [line for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if not re.match(_PREAMBLE, line)]
    reason = (reasons or lines or [type(error).__name__])[0].strip()
    if advice:
        return f"{advice} Received: {reason}"
    if isinstance(error, OSError) and error.filename:
        return f"{error.strerror}. Received: {error.filename}"
    return reason if isinstance(error, OSError) else None
