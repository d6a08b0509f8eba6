"""Runs pipelines: on this machine with sensible settings, or as options say."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence

import apache_beam as beam
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.direct.direct_runner import DirectRunner
from apache_beam.runners.runner import PipelineState

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores

_STOPPED = "Start the same command again: it resumes with what is missing."


def run_pipeline(
    build: Callable[[beam.Pipeline], None],
    arguments: Sequence[str],
    namespace: str,
) -> dict[str, int]:
    """Runs a pipeline to its end.

    DirectRunner has a process per core unless the arguments say otherwise.

    Args:
        build: Applies the transforms.
        arguments: The options of Beam, as on the command line.
        namespace: Of the counters that are returned.

    Returns:
        The counters, as far as the runner knows them.

    Raises:
        InputError: If the pipeline fails. The process ends with code 2 if a
            worker process of DirectRunner dies.
    """
    options = PipelineOptions(list(arguments))
    runner = options.view_as(StandardOptions).runner
    if (runner or "direct").lower() in ("direct", "directrunner"):
        options = PipelineOptions([*_direct_options(), *arguments])
        runner = DirectRunner()
        # Marked as interactive, it does not download Prism, a runner in Go.
        runner.is_interactive()
    pipeline = beam.Pipeline(runner=runner, options=options)
    build(pipeline)
    try:
        with _ending_with_workers():
            result = pipeline.run()
            state = result.wait_until_finish()
    except (RuntimeError, OSError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else type(error).__name__
        raise InputError(
            f"The pipeline failed. Received: {reason}. {_STOPPED}"
        ) from error
    if (state or PipelineState.DONE) != PipelineState.DONE:
        raise InputError(f"The pipeline ended. Received: {state}. {_STOPPED}")
    counters = result.metrics().query(
        MetricsFilter().with_namespace(namespace)
    )["counters"]
    return {one.key.metric.name: one.result for one in counters}


def _direct_options() -> list[str]:
    return [
        f"--direct_num_workers={available_cores()}",
        "--direct_running_mode=multi_processing",
        "--default_sdk_harness_log_level=ERROR",
    ]


@contextlib.contextmanager
def _ending_with_workers() -> Iterator[None]:
    """Ends this process when a worker dies, for which Beam waits forever."""
    previous = threading.excepthook

    def end(failure: threading.ExceptHookArgs) -> None:
        previous(failure)
        if failure.thread is not None and failure.thread.name == "run_worker":
            terminal.report(f"{failure.exc_value}. {_STOPPED}")
            os._exit(2)

    threading.excepthook = end
    try:
        yield
    finally:
        threading.excepthook = previous
