"""A command line of cyclopts, with files of flags."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.config import Yaml
from cyclopts.help import ColumnSpec, DefaultFormatter, NameRenderer
from cyclopts.help.specs import get_default_parameter_columns

from keras_transformer.cli.flags import RARE
from keras_transformer.support.errors import InputError

_LONGEST_FLAG = 30  # characters
# The flags that every command has, and those without a command.
GENERAL = Group("General", sort_key=9)


class FullHelp(DefaultFormatter):
    """Shows all flags, none of which is wrapped on 80 columns."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        is_of_flags = panel.format == "parameter"
        self.column_specs = _wide_columns if is_of_flags else None
        super().__call__(console, options, panel)


def _wide_columns(*arguments: Any) -> tuple[ColumnSpec, ...]:
    *marker, names, description = get_default_parameter_columns(*arguments)
    width = max(names.max_width, _LONGEST_FLAG)
    names = ColumnSpec(
        renderer=NameRenderer(width), style=names.style, max_width=width
    )
    return *marker, names, description


class ShortHelp(FullHelp):
    """Leaves out the groups of flags that are rarely needed."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        if not str(panel.title).endswith(RARE):
            super().__call__(console, options, panel)


def make_app(name: str, description: str) -> App:
    """Returns an app whose commands all have --config, --quiet, --help-all.

    Call it with `run_app`.
    """
    app = App(
        name=name,
        help=description,
        version_flags=[],
        default_parameter=Parameter(
            negative=(), consume_multiple=1, show_default=_default_text
        ),
        group_commands=GENERAL,
        suppress_keyboard_interrupt=False,
    )

    @app.meta.default
    def launch(
        *tokens: Annotated[
            str, Parameter(show=False, allow_leading_hyphen=True)
        ],
        config: Annotated[Path | None, Parameter(group=GENERAL)] = None,
        quiet: Annotated[bool, Parameter(group=GENERAL)] = False,
        help_all: Annotated[bool, Parameter(group=GENERAL)] = False,
    ) -> None:
        """Run a command.

        Args:
            config: YAML file with the values of flags that are not given.
            quiet: Show no progress bars.
            help_all: Show all flags and exit.
        """
        if quiet:
            os.environ["TQDM_DISABLE"] = "1"
        if help_all:
            app.help_formatter = FullHelp()
            tokens = (*tokens, "--help")
        commands, apps, unused = app.parse_commands(tokens)
        if apps[-1].default_command is None and not unused:
            words = " ".join([name, *commands])
            raise InputError(f"A command is missing. See {words} --help.")
        if config:
            app.config = _Flags(
                config,
                must_exist=True,
                use_commands_as_keys=False,
            )
        _call(app, tokens)

    return app


def _default_text(value: Any) -> str | None:
    is_nothing = value is None or value is False or value == ""
    return None if is_nothing else str(value)


def run_app(app: App, arguments: Sequence[str]) -> None:
    """Calls the command that arguments name; InputError if it cannot."""
    app.help_formatter, app.config = ShortHelp(), None
    try:
        _call(app.meta, arguments)
    except CycloptsError as error:
        error.verbose = False
        raise InputError(str(error)) from error


def _call(app: App, arguments: Sequence[str]) -> None:
    options = dict(exit_on_error=False, print_error=False)
    app(list(arguments), result_action="return_value", **options)


class _Flags(Yaml):
    """A file with the values of flags as they would be typed."""

    def _load_config(self, path: Path) -> Any:
        import yaml

        try:
            # It leaves numbers, `no` and `true` as they are written.
            return yaml.load(path.read_text("utf-8"), yaml.BaseLoader)
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            message = f"{path} must be a YAML file. Received: {error}"
            raise CycloptsError(msg=message) from error
