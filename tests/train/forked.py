"""Processes that start with Keras imported, which takes seconds."""

import multiprocessing
import os
import signal
import subprocess
import sys

import keras

BACKEND = keras.backend.backend()
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [BACKEND, "keras_transformer.cli.commands"]
    + [f"keras_transformer.train.{x}" for x in ("trainer", "fitting", "state")]
)


def _run(output, environment, function, arguments):
    os.environ.update(environment)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    # A test program in the background ignores SIGINT, as do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(function(*arguments))


class Forked:
    """A process that calls a function; what it prints goes to a file.

    The process ends with the exit code that the function returns. Methods are
    those of `subprocess.Popen`.
    """

    def __init__(self, function, *arguments, output, **environment):
        self._output = output
        self._process = _CONTEXT.Process(
            target=_run, args=(output, environment, function, arguments)
        )
        self._process.start()
        self.send_signal = lambda number: os.kill(self._process.pid, number)

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=300):
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a test's process", timeout)
        return self.poll()

    def printed(self):
        if not self._output.exists():
            return ""
        return self._output.read_text("utf-8", "replace")


def train_on_two_replicas(words):
    """Runs a command with two replicas on one processor."""
    from keras_transformer.cli import main

    if BACKEND == "jax":  # which has two devices in tests
        return main(words)
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    replicas = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, replicas)
    return main([*words, "--strategy", "mirrored"])
