"""The command line: `keras-transformer COMMAND`."""

import os
import sys
import traceback
from collections.abc import Sequence

from keras_transformer.cli import inference, terminal, training
from keras_transformer.cli.commands import argument_parser
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import (
    explain_missing_packages,
    import_tensorflow_quietly,
)

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`.

    `argparse` raises SystemExit after `--help` and for invalid options, and
    SIGTERM with code 143.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    if not os.environ.get("TF_CONFIG"):
        return terminal.run(lambda: _run(arguments))
    try:
        code = terminal.run(lambda: _run(arguments))
    except Exception:
        traceback.print_exc()
        code = 1
    if code:
        # At exit TensorFlow waits, for minutes, for workers that have stopped;
        # a supervisor is to restart this one at once.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _run(arguments: Sequence[str]) -> None:
    terminal.check_arguments(arguments)
    with explain_missing_packages(InputError):
        options = argument_parser().parse_args(arguments)
        if options.command in (
            training.evaluate,
            inference.parse,
            inference.translate,
        ):
            # On CPU they translate a batch per core at the same time instead.
            os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
        if options.command is not training.presets:
            import_tensorflow_quietly()
        options.command(options)
