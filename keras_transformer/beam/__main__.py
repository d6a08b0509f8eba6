"""`python -m keras_transformer.beam COMMAND`: work in bulk on Apache Beam."""

import difflib
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

if TYPE_CHECKING:
    from cyclopts import App

_PROGRAM = "python -m keras_transformer.beam"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`."""
    return terminal.run(
        lambda: _run(sys.argv[1:] if arguments is None else arguments)
    )


def _run(arguments: Sequence[str]) -> None:
    with explain_missing_packages(InputError):
        logging.disable(logging.WARNING)  # about clouds that are not used
        from keras_transformer.beam.prepare_command import prepare
        from keras_transformer.beam.runners import flags_of_beam
        from keras_transformer.beam.translate_command import translate
        from keras_transformer.cli.command_line import make_app, run_app

        logging.disable(logging.NOTSET)
        app = make_app(_PROGRAM, "Work in bulk on Apache Beam.")
        app.command(prepare, group="Commands")
        app.command(translate, group="Commands")
        _check_flags(app, arguments, flags_of_beam())
        run_app(app, arguments)


def _check_flags(
    app: "App", arguments: Sequence[str], of_beam: Sequence[str]
) -> None:
    """Raises InputError if a flag is neither the command's nor Beam's.

    The commands themselves take all words that they do not know.
    """
    commands = [word for word in arguments if word in ("prepare", "translate")]
    if not commands:
        return
    known = ["--help", *of_beam]
    for parameters in (app[commands[0]], app.meta):
        for parameter in parameters.assemble_argument_collection():
            known += parameter.names
    for word in arguments:
        name = word.partition("=")[0]
        if name.startswith("--") and name not in known:
            similar = difflib.get_close_matches(name, known, 1)
            hint = f"See {_PROGRAM} {commands[0]} --help."
            if similar:
                hint = f"Did you mean {similar[0]}?"
            raise InputError(f"There is no flag {name}. {hint}")


if __name__ == "__main__":
    sys.exit(main())
