"""The command line: `keras-transformer COMMAND`."""

import os
import traceback
from collections.abc import Sequence

from keras_transformer.cli import terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`."""
    is_worker = bool(os.environ.get("TF_CONFIG"))
    try:
        code = terminal.run(_run_command, arguments)
    except Exception:
        if not is_worker:
            raise
        traceback.print_exc()
        code = 1
    if code and is_worker:
        # At exit TensorFlow waits, for minutes, for workers that have stopped;
        # a supervisor is to restart this one at once.
        os._exit(code)
    return code


def _run_command(arguments: Sequence[str]) -> None:
    from keras_transformer.cli.command_line import run_app
    from keras_transformer.cli.commands import app

    run_app(app, arguments)
