import errno
import gzip
import io
import os
import shlex
import subprocess
import sys

import pytest
from commands import Chunks, set_stdin

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError


def fail_with(error):
    """Returns a command that raises."""

    def command():
        raise error

    return command


# === Exit codes ===


def test_success_is_0(capsys):
    assert terminal.run(lambda: print("done")) == 0
    assert capsys.readouterr() == ("done\n", "")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("It is wrong."), 2, "It is wrong."),
        (KeyboardInterrupt(), 130, "interrupted"),
        (
            PermissionError(errno.EACCES, "Permission denied", "file"),
            2,
            "Permission denied. Received: file",
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "file"),
            2,
            "The disk is full. Received: [Errno 28] No space left on device: "
            "'file'",
        ),
        (
            OSError("26686 requested and 26560 written"),  # as NumPy says it
            2,
            "The disk is full. Received: 26686 requested and 26560 written",
        ),
        (
            MemoryError("Unable to allocate 9 TiB"),
            2,
            "There is not enough memory. For translation, use a smaller "
            "--beam-size. For training, start a new run (with --init-from to "
            "keep the weights) with a smaller --batch-tokens or --max-length, "
            "with --gradient-accumulation-steps or a mixed --dtype. Received: "
            "Unable to allocate 9 TiB",
        ),
        (
            OSError(errno.EFBIG, "File too large", "file"),
            2,
            "A file exceeds the size limit; see `ulimit -f`. Received: "
            "[Errno 27] File too large: 'file'",
        ),
    ],
)
def test_errors_are_reported_without_a_traceback(capsys, error, code, message):
    assert terminal.run(fail_with(error)) == code
    assert capsys.readouterr() == ("", f"keras-transformer: {message}\n")


def test_a_reader_that_is_gone_is_141(capsys):
    assert terminal.run(fail_with(BrokenPipeError())) == 141
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError("bug"), RuntimeError("bug")])
def test_bugs_are_not_hidden(error):
    with pytest.raises(type(error), match="bug"):
        terminal.run(fail_with(error))


# === Advice on the errors of TensorFlow ===


@pytest.mark.parametrize(
    ("name", "message", "advice"),
    [
        (
            "ResourceExhaustedError",
            "OOM when allocating [9,9]",
            "with a smaller --batch-tokens or --max-length, with "
            "--gradient-accumulation-steps or a mixed --dtype.",
        ),
        (
            "InvalidArgumentError",
            "unsupported operations on XLA_GPU_JIT: X",
            "XLA cannot compile this model on this device. Train into another "
            "folder without --jit-compile.",
        ),
        (
            "ResourceExhaustedError",
            "a.index; No space left on device",
            "The disk is full.",
        ),
        ("UnavailableError", "Socket closed", "Another worker has stopped"),
        ("AbortedError", "connection reset", "Another worker has stopped"),
        ("PermissionDeniedError", "a; denied", "cannot be read or written."),
        ("NotFoundError", "a; missing", "cannot be read or written."),
    ],
)
def test_advice_on_errors_of_tensorflow(capsys, name, message, advice):
    import tensorflow as tf

    error = getattr(tf.errors, name)(None, None, message)
    assert terminal.run(fail_with(error)) == 2
    printed = capsys.readouterr().err
    assert advice in printed
    assert printed.endswith(f" Received: {message}\n")


def test_other_errors_of_tensorflow_are_bugs():
    import tensorflow as tf

    error = tf.errors.InvalidArgumentError(None, None, "shapes differ")
    with pytest.raises(tf.errors.InvalidArgumentError, match="shapes differ"):
        terminal.run(fail_with(error))


def test_an_error_in_a_graph_is_reduced_to_its_reason(capsys):
    import tensorflow as tf

    @tf.function
    def read(path):
        return tf.io.read_file(path)

    assert terminal.run(lambda: read(tf.constant("/nowhere/a"))) == 2
    assert capsys.readouterr().err == (
        "keras-transformer: A file cannot be read or written. "
        "Received: /nowhere/a; No such file or directory\n"
    )


# === Output ===


def test_output_is_utf8_in_every_locale(monkeypatch):
    output = io.BytesIO()
    stream = io.TextIOWrapper(output, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert terminal.run(lambda: print("schläft \udcff")) == 0
    assert output.getvalue() == "schläft \\udcff\n".encode()


def test_output_appears_line_by_line(monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output))

    def command():
        print("first")
        assert output.getvalue() == b"first\n"

    assert terminal.run(command) == 0


def test_output_without_a_line_end_is_written(monkeypatch):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output))
    assert terminal.run(lambda: print("first", end="")) == 0
    assert output.getvalue() == b"first"


CLI = (sys.executable, "-m", "keras_transformer")


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ("presets >&-", 2, "Standard output must be open."),
        ("--help >&-", 2, "Standard output must be open."),
        ("presets 2>&- >&-", 2, ""),
        ("presets <&-", 0, ""),
        pytest.param(
            "presets > /dev/full",
            2,
            "The disk is full.",
            marks=pytest.mark.skipif(
                not os.path.exists("/dev/full"), reason="there is no /dev/full"
            ),
        ),
    ],
)
def test_standard_streams_that_cannot_be_used(command, code, message):
    process = subprocess.run(
        f"{shlex.join(CLI)} {command}",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert process.returncode == code
    assert message in process.stderr
    assert len(process.stderr.splitlines()) == bool(message)


def test_closed_error_output_is_replaced():
    # Native code writes to descriptor 2, whatever file has it.
    script = (
        "import os, sys; from keras_transformer.cli import terminal; "
        "sys.exit(terminal.run(lambda: os.write(2, b'x')))"
    )
    command = f"{shlex.join([sys.executable, '-c', script])} 2>&-"
    assert subprocess.run(command, shell=True).returncode == 0


@pytest.mark.parametrize("command", ["presets", "--help"])
def test_a_pipe_that_nobody_reads(command):
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.run(
        [*CLI, command], stdout=write_end, stderr=subprocess.PIPE
    )
    os.close(write_end)
    assert process.stderr == b""
    # Rich prints the help, and ends with 1.
    assert process.returncode == (1 if command == "--help" else 141)


# === Arguments ===


def test_arguments_must_be_valid_unicode():
    terminal.check_arguments(["--data", "schläft"])
    with pytest.raises(InputError, match=r"UTF-8. Received: 'a\\udcff'"):
        terminal.check_arguments(["b", "a\udcff"])
    with pytest.raises(InputError, match=r"Received: 'a\\x00'"):
        terminal.check_arguments(["a\0"])


# === Files ===


def test_compressed_input(tmp_path):
    path = tmp_path / "a.txt"  # whatever its name says
    path.write_bytes(gzip.compress("über\nzwei\n".encode()))
    assert list(terminal.read_lines([path])) == [["über", "zwei"]]
    assert terminal.count_lines([path]) == 2


def test_lines_are_counted_where_they_can_be_read_again(tmp_path):
    first, second, pipe = (tmp_path / name for name in ("a", "b", "pipe"))
    first.write_text("a\nb")
    second.write_text("c\n\n")
    os.mkfifo(pipe)
    starts = []
    count = terminal.count_lines(
        [first, second], lambda lines, start: starts.append((start, lines))
    )
    assert count == 4
    assert starts == [(1, ["a"]), (2, ["b"]), (3, ["c", ""])]
    assert terminal.count_lines(None) is None
    assert terminal.count_lines([first, pipe]) is None
    line = terminal.name_line([first, second], 4)
    assert line == f"line 4 of {first}, {second}"
    assert terminal.name_line(None, 2) == "line 2"


def test_output_is_complete_or_not_there(tmp_path):
    path = tmp_path / "new" / "file"
    with pytest.raises(KeyError):
        with terminal.open_output(path) as stream:
            stream.write("a")
            raise KeyError
    assert not path.exists()
    with terminal.open_output(path) as stream:
        stream.write("a\r\n")
    assert path.read_bytes() == b"a\r\n"


def test_a_dialogue_has_no_progress_bar(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)

    def is_hidden(*arguments):
        with terminal.progress_of(*arguments, None) as bar:
            return bar.disable

    set_stdin(monkeypatch, Chunks([], is_terminal=True))
    assert is_hidden(None) and not is_hidden(["a"])
    set_stdin(monkeypatch, Chunks([]))
    assert not is_hidden(None)
