import errno
import gzip
import io
import os
import subprocess
import sys

import pytest

from keras_transformer import cli
from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError


def fail_with(error):
    """Returns a command that raises."""

    def command(arguments):
        raise error

    return command


# === Exit codes ===


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
            OSError(errno.ENOSPC, "No space left", "file"),
            2,
            "The disk is full. Received: [Errno 28] No space left: 'file'",
        ),
        (
            OSError("a\n26686 requested and 26560 written\nb"),  # as NumPy
            2,
            "The disk is full. Received: 26686 requested and 26560 written",
        ),
    ],
)
def test_errors_are_reported_without_a_traceback(capsys, error, code, message):
    assert terminal.run(fail_with(error)) == code
    assert capsys.readouterr() == ("", f"keras-transformer: {message}\n")


def test_a_reader_that_is_gone_is_141(capsys):
    assert terminal.run(fail_with(BrokenPipeError())) == 141
    assert capsys.readouterr() == ("", "")


def test_bugs_are_not_hidden():
    with pytest.raises(ValueError, match="bug"):
        terminal.run(fail_with(ValueError("bug")))


def test_a_bug_in_a_worker_does_not_wait_for_the_others(monkeypatch, capsys):
    codes, fail = [], fail_with(ValueError("bug"))
    run_app = "keras_transformer.cli.command_line.run_app"
    monkeypatch.setattr(run_app, lambda _, arguments: fail(arguments))
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(ValueError, match="bug"):
        cli.main([])
    assert not codes
    monkeypatch.setenv("TF_CONFIG", "{}")
    cli.main([])
    assert codes == [1]
    assert "ValueError: bug" in capsys.readouterr().err


# === Output ===


def test_output_is_utf8_in_every_locale_and_leaves_at_once(monkeypatch):
    output = io.BytesIO()
    stream = io.TextIOWrapper(output, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)

    def command(arguments):
        print("schläft")
        assert output.getvalue() == "schläft\n".encode()

    assert terminal.run(command) == 0


CLI = (sys.executable, "-m", "keras_transformer")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk():
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [*CLI, "presets"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert process.returncode == 2
    assert "The disk is full." in process.stderr
    assert process.stderr.count("\n") == 1


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


# === Files ===


def test_compressed_input(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("über\nzwei\n".encode()))
    assert list(terminal.read_lines([path])) == [["über", "zwei"]]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_output_is_complete_or_not_there(tmp_path, error):
    path = tmp_path / "new" / "file"
    with pytest.raises(error):
        with terminal.open_output(path) as stream:
            stream.write("a")
            raise error
    assert not path.exists()
    with terminal.open_output(path) as stream:
        stream.write("a\r\n")
    assert path.read_bytes() == b"a\r\n"
