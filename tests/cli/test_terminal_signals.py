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
    yield
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
    cleaned = []

    def command(arguments):
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
    assert cleaned
    assert capsys.readouterr() == ("", f"keras-transformer: {message}\n")


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(15, 143, "terminated"), (2, 130, "interrupted")],
)
def test_a_process_that_ends_waits_for_no_thread(number, code, message):
    script = (
        "import os, threading, time\n"
        "from keras_transformer.cli import terminal\n"
        "terminal.end_on_signals()\n"
        "threading.Thread(target=time.sleep, args=[60]).start()\n"
        f"os.kill(os.getpid(), {number})\n"
        "time.sleep(60)"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )
    assert process.returncode == code
    assert process.stderr == f"keras-transformer: {message}\n"
