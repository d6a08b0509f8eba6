"""A command line of cyclopts, with files of flags."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter
from cyclopts.config import Yaml
from cyclopts.help import ColumnSpec, DefaultFormatter, NameRenderer
from cyclopts.help.specs import DescriptionColumn

from keras_transformer.cli.flags import RARE, accept_empty, as_flags
from keras_transformer.support.errors import InputError

_COLUMNS = (  # no flag is wrapped
    ColumnSpec(NameRenderer(30), style="cyclopts.name", max_width=30),
    DescriptionColumn,
)
# The flags that every command has, and those without a command.
GENERAL = Group("General", sort_key=9)


def make_app(name: str, description: str) -> App:
    """Returns an app whose commands all have --config, --quiet, --help-all.

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
            validator=_check_not_empty,
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
            str,
            Parameter(
                show=False, allow_leading_hyphen=True, validator=accept_empty
            ),
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
            app.help_formatter = DefaultFormatter(column_specs=_COLUMNS)
            tokens = (*tokens, "--help")
        if config:
            file = _Flags(config, must_exist=True, use_commands_as_keys=False)
            app.config = file
            for key in map(str, file.config):
                if key in app or key.replace("-", "_") in launch.__kwdefaults__:
                    raise InputError(
                        "A file of flags must contain flags of one command "
                        f"alone. Received: {key} in {config}"
                    )
        try:
            app(tokens)
        except InputError as error:
            _, apps, _ = app.parse_commands(tokens)
            flags = apps[-1].assemble_argument_collection()
            names = {flag.field_info.name: flag.name for flag in flags}
            raise InputError(as_flags(str(error), names)) from error

    return app


def run_app(app: App, arguments: Sequence[str]) -> None:
    """Calls the command that arguments name.

    Raises:
        InputError: If the arguments are invalid, or the command raises it. Its
            message names flags instead of arguments.
    """
    if wrong := [x for x in arguments if re.search("[\udc80-\udcff]", x)]:
        raise InputError(
            f"Arguments must be {sys.getfilesystemencoding()}, the encoding of "
            f"the locale. Received: {wrong[0]!a}. Set LC_ALL=C.UTF-8 for UTF-8."
        )
    app.config, app.help_formatter = None, _CommonFlags(column_specs=_COLUMNS)
    if not arguments or arguments[0].startswith("-"):
        app.resolved_commands()  # the help shows their descriptions
    try:
        app.meta(list(arguments))
    except CycloptsError as error:
        error.verbose = False
        raise InputError(str(error)) from error


def _check_not_empty(kind: Any, value: Any) -> None:
    if "" in (value if isinstance(value, list | tuple) else [value]):
        raise ValueError("It must not be empty.")


class _CommonFlags(DefaultFormatter):
    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        if not str(panel.title).endswith(RARE):
            super().__call__(console, options, panel)


class _Flags(Yaml):
    """A file with the values of flags as they would be typed."""

    def _load_config(self, path: Path) -> Any:
        import yaml

        class Loader(yaml.BaseLoader):
            # It keeps numbers, `no` and `true` as text, and leaves out null.
            def construct_mapping(self, node: Any, deep: bool = False) -> dict:
                values = super().construct_mapping(node, deep)
                return {x: y for x, y in values.items() if y is not None}

        null = "tag:yaml.org,2002:null"
        form = re.compile("(~|null|Null|NULL|)$")
        Loader.add_implicit_resolver(null, form, ["~", "n", "N", ""])
        Loader.add_constructor(null, lambda *_: None)
        try:
            return yaml.load(path.read_text("utf-8"), Loader)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            message = f"{path} must be a YAML file. Received: {error}"
            raise CycloptsError(msg=message) from error
