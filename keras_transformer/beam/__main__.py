"""`python -m keras_transformer.beam translate`: bulk translation."""

import logging
import sys
from collections.abc import Sequence

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see `terminal.run`."""
    return terminal.run(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> None:
    with explain_missing_packages(InputError):
        logging.disable(logging.WARNING)  # about clouds that are not used
        from cyclopts import App, CycloptsError, Parameter

        from keras_transformer.beam.translate_command import translate

        logging.disable(logging.NOTSET)
    app = App(
        name="python -m keras_transformer.beam",
        default_parameter=Parameter(negative=(), consume_multiple=True),
        result_action="return_value",
    )
    app.command(translate)
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise InputError(str(error)) from error


if __name__ == "__main__":
    sys.exit(main())
