"""Runs pipelines: on this machine with sensible settings, or as options say."""

import argparse
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import apache_beam as beam
from apache_beam.options import pipeline_options
from apache_beam.runners.direct.direct_runner import DirectRunner
from apache_beam.runners.runner import PipelineResult, PipelineState
from cyclopts import App, Parameter

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores

# A flag of Beam, or its value.
BeamFlags = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]

_STOPPED = "Start the same command again: it resumes with what is missing."


def check_flags(app: App, arguments: Sequence[str]) -> None:
    """Refuses flags that are neither the command's nor Beam's or a runner's.

    The commands themselves take all words that they do not know.
    """
    commands = [word for word in arguments if word in ("prepare", "translate")]
    if not commands:
        return
    known = ["--help"]

    def add_names(parser: argparse.ArgumentParser) -> None:
        known.extend(parser._option_string_actions)

    options = pipeline_options.PipelineOptions([])
    options.get_all_options(add_extra_args_fn=add_names)
    for parameters in (app[commands[0]], app.meta):
        for parameter in parameters.assemble_argument_collection():
            known += parameter.names
    for word in arguments:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known:
            see = f"See {app.name[0]} {commands[0]} --help."
            raise InputError(f"There is no flag {name}. {see}")


def make_pipeline(arguments: Sequence[str]) -> beam.Pipeline:
    """Returns an empty pipeline with options as on the command line.

    DirectRunner has a process per core unless they say otherwise.
    """
    options = pipeline_options.PipelineOptions(list(arguments))
    runner = options.view_as(pipeline_options.StandardOptions).runner
    if (runner or "direct").lower() in ("direct", "directrunner"):
        defaults = [
            f"--direct_num_workers={available_cores()}",
            "--direct_running_mode=multi_processing",
            "--default_sdk_harness_log_level=ERROR",
        ]
        options = pipeline_options.PipelineOptions([*defaults, *arguments])
        runner = DirectRunner()
        # Marked as interactive, it does not download Prism, a runner in Go.
        runner.is_interactive()
    try:
        return beam.Pipeline(runner=runner, options=options)
    except (ValueError, ImportError) as error:
        raise InputError(
            f"Beam must have valid options. Received: {' '.join(arguments)}. "
            f"It says: {error}"
        ) from error


def run_pipeline(pipeline: beam.Pipeline) -> PipelineResult:
    """Runs a pipeline to its end, and returns its result.

    If a worker process of DirectRunner dies, for which Beam waits forever, that
    is an InputError. It also waits for those that have not started yet: this
    thread is free for signals. After both the caller must end the process.
    """
    ends: queue.SimpleQueue[PipelineResult | InputError] = queue.SimpleQueue()
    previous = threading.excepthook

    def run() -> None:
        try:
            ends.put(_run_to_end(pipeline))
        except InputError as error:
            ends.put(error)

    def note(failure: threading.ExceptHookArgs) -> None:
        # Beam's name for the thread that waits for a worker process.
        if failure.thread is not None and failure.thread.name == "run_worker":
            ends.put(InputError(f"{failure.exc_value}. {_STOPPED}"))
        else:
            previous(failure)

    threading.excepthook = note
    threading.Thread(target=run, daemon=True).start()
    try:
        end = ends.get()
        if isinstance(end, InputError):
            raise end
        threading.excepthook = previous
        return end
    except BaseException:
        _end_workers()  # whose threads would print their tracebacks
        raise
    finally:
        folder = getattr(pipeline, "local_tempdir", None)
        shutil.rmtree(folder or "", ignore_errors=True)


def _run_to_end(pipeline: beam.Pipeline) -> PipelineResult:
    try:
        result = pipeline.run()
        state = result.wait_until_finish() or PipelineState.DONE
    except Exception as error:  # each runner has its own classes
        message = f"The pipeline failed. {_describe(error)}"
        raise InputError(message) from error
    if state != PipelineState.DONE:
        raise InputError(f"The pipeline ended. Received: {state}. {_STOPPED}")
    return result


def _end_workers() -> None:
    """Ends the processes that this one has started, and those of them."""
    parents = _parents()
    family = [os.getpid()]
    for process in family:
        family += [x for x, parent in parents.items() if parent == process]
    for process in family[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


def _parents() -> dict[int, int]:
    """Returns the parent of every process."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):  # there is none on macOS
        with contextlib.suppress(OSError):  # it has ended
            # Behind the name, which may have any characters.
            _, parent = file.read_bytes().rpartition(b")")[2].split()[:2]
            parents[int(file.parent.name)] = int(parent)
    if not parents and shutil.which("ps"):
        command = ["ps", "-Ao", "pid=,ppid="]
        table = subprocess.run(command, capture_output=True, check=False).stdout
        parents = dict(map(int, row.split()) for row in table.splitlines())
    return parents


def _describe(error: Exception) -> str:
    """Returns the reason, which ends the traceback of a worker, and advice."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = lines[-1].strip() if lines else type(error).__name__
    if InputError.__name__ in reason:  # it would fail again
        return f"Received: {reason}"
    return f"Received: {reason}. {_STOPPED}"
