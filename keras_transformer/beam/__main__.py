"""`python -m keras_transformer.beam translate|prepare`: pipelines of Beam.

What a command does not know is passed to Beam: `--runner`, and all its options.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

# Each module has `add_arguments(parser)` and `run(options, beam_arguments)`.
_COMMANDS = {
    "translate": "keras_transformer.beam.command",
    "prepare": "keras_transformer.train.beam_preparation",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`."""
    return terminal.run(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m keras_transformer.beam", description=__doc__
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    with explain_missing_packages(InputError):
        for name, module in _COMMANDS.items():
            command = importlib.import_module(module)
            subparser = commands.add_parser(
                name, description=command.__doc__, allow_abbrev=False
            )
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.run)
        options, beam_arguments = parser.parse_known_args(arguments)
        options.run(options, beam_arguments)


if __name__ == "__main__":
    sys.exit(main())
