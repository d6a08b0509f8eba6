"""The commands of `keras-transformer`.

A command imports TensorFlow when it needs it, so that mistakes, `--help`,
`presets` and what uses LiteRT answer at once, and without the extra
`tensorflow`.
"""

import os
import sys
import traceback
from collections.abc import Sequence

from keras_transformer.cli import (
    demo,
    inference,
    plot,
    terminal,
    training,
    translating,
)
from keras_transformer.cli.arguments import check_given, with_flags
from keras_transformer.cli.options import add_commands
from keras_transformer.cli.parser import CommandParser
from keras_transformer.cli.versions import ShowVersions
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages


def argument_parser() -> CommandParser:
    """Returns the parser; the option `command` is the function to call."""
    parser = CommandParser(
        prog="keras-transformer",
        description='"Attention Is All You Need": train, evaluate, translate, '
        "export.",
    )
    parser.add_argument("--version", action=ShowVersions)
    add_commands(
        parser,
        "COMMAND",
        groups={
            "train": (
                training.prepare,
                training.train,
                training.average,
                training.import_,
            ),
            "use": (
                translating.translate,
                translating.score,
                training.evaluate,
            ),
            "serve and export": (inference.serve, inference.export),
            "look": (plot.plot, training.presets, demo.demo),
        },
    )
    parser.finish()
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`.

    `argparse` raises SystemExit after `--help` and for invalid options, and
    SIGTERM with code 143.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    try:
        code = terminal.run(lambda: _run(arguments))
    except Exception:
        if not os.environ.get("TF_CONFIG"):
            raise
        traceback.print_exc()
        code = 1
    if code and os.environ.get("TF_CONFIG"):  # also set by --cluster
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
        name = options.command.__name__
        if name in ("evaluate", "translate"):
            # On CPU they translate a batch per core at the same time instead.
            os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
        try:
            check_given(options)
            options.command(options)
        except InputError as error:
            raise InputError(with_flags(str(error), options)) from error
