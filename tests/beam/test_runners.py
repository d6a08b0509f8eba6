"""What is reported when a pipeline does not succeed."""

import os
import signal
import subprocess
import sys
import threading
import types

import pytest

from keras_transformer.beam import runners
from keras_transformer.beam.runners import make_pipeline, run_pipeline
from keras_transformer.support.errors import InputError


@pytest.fixture(autouse=True)
def _hook_of_threads(monkeypatch):
    """A failure leaves another one, for a process that ends."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("trace\nValueError: a\n\n", "Received: ValueError: a. Start the same"),
        ("trace\nx.InputError: bad line", "Received: x.InputError: bad line$"),
        ("", "Received: Failure. Start"),
    ],
)
def test_a_failure_of_any_class_is_reported(reason, expected):
    class Failure(Exception):
        pass

    def run():
        raise Failure(reason)

    with pytest.raises(InputError, match=f"The pipeline failed. {expected}"):
        run_pipeline(types.SimpleNamespace(run=run))


def test_a_job_that_was_cancelled_is_no_success():
    result = types.SimpleNamespace(wait_until_finish=lambda: "CANCELLED")
    pipeline = types.SimpleNamespace(run=lambda: result)
    with pytest.raises(InputError, match="ended. Received: CANCELLED. Start"):
        run_pipeline(pipeline)


@pytest.fixture
def worker():
    """A process that sleeps, with a name that is hard to parse."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(["a) b", *command[1:]], executable=command[0]) as it:
        yield it
        it.kill()


def test_a_failure_ends_the_workers(worker, monkeypatch):
    """Where there is no `ps`, as in small images."""
    monkeypatch.setenv("PATH", "")

    def run():
        raise RuntimeError("a")

    with pytest.raises(InputError, match="The pipeline failed"):
        run_pipeline(types.SimpleNamespace(run=run))
    assert worker.wait(10) == -signal.SIGTERM


def test_parents_of_processes(worker, monkeypatch, tmp_path):
    assert runners._parents()[worker.pid] == os.getpid()
    # Without /proc, as on macOS.
    monkeypatch.setattr(runners, "Path", lambda _: tmp_path)
    (tmp_path / "ps").write_text("#!/bin/sh\necho ' 7  3'; echo '12  7'\n")
    (tmp_path / "ps").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert runners._parents() == {7: 3, 12: 7}


def test_success_leaves_the_hook_of_threads():
    hook = threading.excepthook
    result = types.SimpleNamespace(wait_until_finish=lambda: None)
    pipeline = types.SimpleNamespace(run=lambda: result)
    assert run_pipeline(pipeline) is result
    assert threading.excepthook is hook


def test_another_runner_has_the_options_that_are_given():
    pipeline = make_pipeline(["--runner=PortableRunner", "--job_name=mine"])
    assert type(pipeline.runner).__name__ == "PortableRunner"
    options = pipeline.options.get_all_options(drop_default=True)
    assert options["job_name"] == "mine"
    assert "direct_num_workers" not in options
