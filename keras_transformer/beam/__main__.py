"""`python -m keras_transformer.beam translate`: bulk translation."""

import logging
import sys
from collections.abc import Sequence

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see `terminal.run`."""
    words = sys.argv[1:] if arguments is None else arguments
    return terminal.run(lambda: _run(words))


def _run(words: Sequence[str]) -> None:
    with explain_missing_packages(InputError):
        logging.disable(logging.WARNING)  # about clouds that are not used
        from keras_transformer.beam.translate_command import translate
        from keras_transformer.cli.command_line import make_app, run_app

        logging.disable(logging.NOTSET)
    app = make_app("python -m keras_transformer.beam", "Bulk translation.")
    app.command(translate)
    run_app(app, words)


if __name__ == "__main__":
    sys.exit(main())
