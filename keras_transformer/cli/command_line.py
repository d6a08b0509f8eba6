"""A command line of cyclopts, with files of flags."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import UNSET, App, CycloptsError, Group, Parameter
from cyclopts.config import Dict
from cyclopts.help import ColumnSpec, DefaultFormatter, NameRenderer
from cyclopts.help.specs import DescriptionColumn

from keras_transformer.cli.flags import RARE
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import read_yaml
from keras_transformer.support.startup import import_file

_COLUMNS = (  # no flag is wrapped
    ColumnSpec(NameRenderer(30), style="cyclopts.name", max_width=30),
    DescriptionColumn,
)
# The flags that every command has, and those without a command.
GENERAL = Group("General", sort_key=9)
_RARELY = Group("General" + RARE, sort_key=10)


class _CommonFlags(DefaultFormatter):
    """Shows the help without the flags that are rarely needed."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        if not str(panel.title).endswith(RARE):
            super().__call__(console, options, panel)


def make_app(name: str, description: str) -> App:
    """Returns an app whose commands share these flags.

    Call it with `run_app`.
    """
    app = App(
        name=name,
        help=description,
        version_flags=[],
        default_parameter=Parameter(
            negative=(),
            consume_multiple=1,
            show_default=lambda value: str(value) if value else None,
        ),
        group_commands=GENERAL,
        suppress_keyboard_interrupt=False,
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )

    @app.meta.default
    def launch(
        *tokens: Annotated[
            str, Parameter(show=False, allow_leading_hyphen=True)
        ],
        config: Annotated[Path | None, Parameter(group=GENERAL)] = None,
        module: Annotated[Path | None, Parameter(group=_RARELY)] = None,
        quiet: Annotated[bool, Parameter(group=GENERAL)] = False,
        help_all: Annotated[bool, Parameter(group=GENERAL)] = False,
    ) -> None:
        """Run a command.

        Args:
            config: YAML file with the values of flags that are not given.
            module: Python file to import, which registers layers of your own.
            quiet: Show no progress bars.
            help_all: Show all flags and exit.
        """
        if quiet:
            os.environ["TQDM_DISABLE"] = "1"
        if help_all:
            app.help_formatter = DefaultFormatter(column_specs=_COLUMNS)
            tokens = (*tokens, "--help")
        if config:
            values = read_yaml(config.read_bytes(), config, as_texts=True)
            file = Dict(values, source=str(config), use_commands_as_keys=False)
            app.config = (file, _check_not_empty)
            # cyclopts would ignore them.
            general = {"config", "module", "quiet", "help-all", "help_all"}
            for key in values:
                if key in app or key in general:
                    raise InputError(
                        f"{config} must contain flags of one command only. "
                        f"Received: {key}"
                    )
        try:
            if module:
                import_file(module)
            app(tokens)
        except InputError as error:
            if error.argument is None:
                raise
            flag = _flag_of(error.argument, app, tokens)
            raise InputError(f"{flag} {error.message}") from error

    return app


def _check_not_empty(app: App, commands: Any, arguments: Any) -> None:
    """Raises if a value is empty, such as an unset variable of the shell."""
    for argument in arguments:
        # The text of a switch, such as --json, is empty.
        texts = [x.value for x in argument.tokens if x.implicit_value is UNSET]
        # `launch` passes all tokens on.
        if "" in texts and argument.show and argument.field_info.default != "":
            raise InputError(f"{argument.name} must not be empty.")


def _flag_of(argument: str, app: App, tokens: Sequence[str]) -> str:
    """Returns the flag of an argument of the command that tokens call."""
    _, apps, _ = app.parse_commands(tokens)
    flags = apps[-1].assemble_argument_collection()
    names = {flag.field_info.name: flag.name for flag in flags}
    names["module"] = "--module"  # of all commands
    return names.get(argument, argument)


def run_app(app: App, arguments: Sequence[str]) -> None:
    """Calls the command that arguments name.

    Raises:
        InputError: If the arguments are invalid, or the command raises it. Its
            message names a flag instead of an argument.
    """
    app.config = _check_not_empty
    app.help_formatter = _CommonFlags(column_specs=_COLUMNS)
    if not arguments or arguments[0].startswith("-"):
        app.resolved_commands()  # the help shows their descriptions
    try:
        app.meta(list(arguments))
    except CycloptsError as error:
        error.verbose = False
        raise InputError(str(error)) from error
