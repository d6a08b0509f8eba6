"""`python -m keras_transformer.beam COMMAND`: pipelines of Beam.

The flags of Beam are passed on to it: `--runner`, and all others.
"""

import importlib
import logging
import sys
from collections.abc import Sequence

from keras_transformer.cli import terminal
from keras_transformer.cli.parser import CommandParser
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

# Each module has `add_arguments(parser)` and `run(options, beam_arguments)`.
_COMMANDS = {
    "prepare": "keras_transformer.train.beam.command",
    "translate": "keras_transformer.beam.command",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `terminal.run`."""
    return terminal.run(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> None:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    terminal.check_arguments(arguments)
    program = "python -m keras_transformer.beam"
    parser = CommandParser(prog=program, description=__doc__)
    parser.add_argument("command", choices=_COMMANDS)
    name = parser.parse_args(arguments[:1]).command
    with explain_missing_packages(InputError):
        logging.disable(logging.WARNING)  # about clouds that are not used
        from apache_beam.options.pipeline_options import PipelineOptions

        command = importlib.import_module(_COMMANDS[name])
        logging.disable(logging.NOTSET)
        parser = CommandParser(
            prog=f"{program} {name}", description=command.__doc__
        )
        command.add_arguments(parser)
        parser.finish()
        PipelineOptions([]).get_all_options(
            add_extra_args_fn=lambda beam_parser: parser.passed_on.extend(
                beam_parser._option_string_actions
            )
        )
        options, beam_arguments = parser.parse_known_args(arguments[1:])
        command.run(options, beam_arguments)


if __name__ == "__main__":
    sys.exit(main())
