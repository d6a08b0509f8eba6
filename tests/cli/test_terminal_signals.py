"""SIGTERM and Ctrl-C: exit codes, and what is said."""

import os
import signal
import subprocess
import sys

import pytest
from documents import ROOT

from keras_transformer.cli import terminal


@pytest.fixture
def handlers(monkeypatch):
    """Those of a terminal; a program in the background ignores Ctrl-C."""
    numbers = signal.SIGTERM, signal.SIGINT
    previous = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: [signal.getsignal(number) for number in numbers]
    for number, handler in zip(numbers, previous, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_a_signal_ends_a_command_that_cleans_up(
    handlers, capsys, number, code, message
):
    previous, cleaned = handlers(), []

    def command():
        try:
            os.kill(os.getpid(), number)
            pytest.fail("the signal was ignored")
        finally:
            cleaned.append(True)

    if number == signal.SIGTERM:
        with pytest.raises(SystemExit) as stopped:
            terminal.run(command)
        assert stopped.value.code == code
    else:
        assert terminal.run(command) == code
    assert cleaned and handlers() == previous
    assert capsys.readouterr() == ("", f"keras-transformer: {message}\n")


def test_ctrl_c_is_ignored_where_it_was_before(handlers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert terminal.run(lambda: os.kill(os.getpid(), signal.SIGINT)) == 0


# The signal comes where Python or a package discards exceptions.
IN_IMPORT = """
import os
try:
    os.kill(os.getpid(), NUMBER)
except BaseException:
    pass
"""
LOST = {
    "import": "with quiet_native_code(): import in_import",
    "collection": (
        "gc.callbacks.append(lambda *_: os.kill(os.getpid(), NUMBER)); "
        "gc.collect()"
    ),
    "thread": (  # which Python waits for at the end
        "terminal.end_on_signals(); "
        "threading.Thread(target=time.sleep, args=[60]).start(); "
        "os.kill(os.getpid(), NUMBER)"
    ),
}


@pytest.mark.parametrize("place", LOST)
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(15, 143, "terminated"), (2, 130, "interrupted")],
)
def test_no_signal_is_lost(tmp_path, place, number, code, message):
    source = IN_IMPORT.replace("NUMBER", str(number))
    (tmp_path / "in_import.py").write_text(source)
    script = (
        "import gc, os, signal, threading, time\n"
        "from keras_transformer.cli import terminal\n"
        "from keras_transformer.support.startup import quiet_native_code\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def command():\n"
        f"    {LOST[place].replace('NUMBER', str(number))}\n"
        "    print('lost')\n"
        "terminal.run(command)"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (process.returncode, process.stdout) == (code, "")
    assert process.stderr == f"keras-transformer: {message}\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_output_that_a_signal_discards(tmp_path, capsys, error):
    path = tmp_path / "file"
    with pytest.raises(error):
        with terminal.open_output(path) as stream:
            stream.write("a")
            raise error
    assert not path.exists()
    message = f"keras-transformer: {path} is not written\n"
    assert capsys.readouterr().err == message
