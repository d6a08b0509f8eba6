"""`python -m keras_transformer.beam COMMAND`: work in bulk on Apache Beam."""

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Sequence

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

_PROGRAM = "python -m keras_transformer.beam"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`."""
    words = sys.argv[1:] if arguments is None else arguments
    return terminal.run(lambda: _run(words))


def _run(arguments: Sequence[str]) -> None:
    with explain_missing_packages(InputError):
        logging.disable(logging.WARNING)  # about clouds that are not used
        from keras_transformer.beam.prepare_command import prepare
        from keras_transformer.beam.runners import check_flags
        from keras_transformer.beam.translate_command import translate
        from keras_transformer.cli.command_line import make_app, run_app

        logging.disable(logging.NOTSET)
        app = make_app(_PROGRAM, "Work in bulk on Apache Beam.")
        app.command(prepare, group="Commands")
        app.command(translate, group="Commands")
        check_flags(app, arguments)
        run_app(app, _general_flags_first(arguments))


def _general_flags_first(arguments: Sequence[str]) -> list[str]:
    """Moves the flags of every command before it, which takes all others."""
    options = dict(allow_abbrev=False, exit_on_error=False)
    parser = argparse.ArgumentParser(add_help=False, **options)
    parser.add_argument("--config")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--help-all", action="store_true")
    try:
        general, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise InputError(f"{error.argument_name}: {error.message}.") from error
    first = [f"--config={general.config}"] if general.config else []
    first += ["--quiet"] * general.quiet + ["--help-all"] * general.help_all
    return [*first, *others]


if __name__ == "__main__":
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Python waits for Beam's threads, and they for workers that never answer.
    os._exit(code)
