"""`python -m keras_transformer.bulk translate`: bulk translation."""

import logging
import sys
from collections.abc import Sequence

from keras_transformer.cli import terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see `terminal.run`."""
    return terminal.run(_run_command, arguments)


def _run_command(arguments: Sequence[str]) -> None:
    logging.disable(logging.WARNING)  # about clouds that are not used
    from keras_transformer.bulk.translate_command import translate
    from keras_transformer.cli.command_line import make_app, run_app

    logging.disable(logging.NOTSET)
    app = make_app("python -m keras_transformer.bulk", "Bulk translation.")
    app.command(translate)
    run_app(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
