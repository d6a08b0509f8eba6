"""A command line of cyclopts, with files of flags and hints for mistakes."""

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Group, Parameter, UnknownOptionError
from cyclopts.config import Dict
from cyclopts.exceptions import UnknownCommandError
from cyclopts.help import ColumnSpec, DefaultFormatter, NameRenderer
from cyclopts.help.specs import get_default_parameter_columns

from keras_transformer.cli import terminal
from keras_transformer.cli.flags import RARE
from keras_transformer.support.errors import InputError

# Names in other programs, and what they are called here. A hint fits a command
# that has all flags in it; the first that fits is given.
_COMMAND_HINTS = {
    "attention": "plot attention",
    "convert": "import, or export",
    "curve": "plot curve",
    "infer": "translate",
    "parse": "translate",
    "predict": "translate",
    "trace": "plot trace",
}
_FLAG_HINTS = {
    "--batch-size": ["--batch-tokens, which counts tokens"],
    "--epochs": ["--steps, with a checkpoint after each --steps-per-epoch"],
    "--gpus": ["--strategy, which uses all GPUs by default"],
    "--lr": ["--learning-rate-scale, a factor on the paper's learning rate"],
    "--model": ["--preset", "RUN, without a flag"],
    "--output-dir": ["--output"],
    "--resume": ["the same command again, which resumes"],
    "--save-dir": ["--output"],
}
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
        if "-" in tokens:
            raise InputError(
                "A standard stream has no name. Leave out --input to read "
                "standard input, and --output to write standard output. "
                "Received: -"
            )
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
            app.config = _read_config(config)
        _call(app, tokens)

    return app


def _default_text(value: Any) -> str | None:
    is_nothing = value is None or value is False or value == ""
    return None if is_nothing else str(value)


def run_app(app: App, arguments: Sequence[str]) -> None:
    """Calls the command that arguments name; InputError if it cannot."""
    terminal.check_arguments(arguments)
    app.help_formatter, app.config = ShortHelp(), None
    try:
        _call(app.meta, arguments)
    except CycloptsError as error:
        raise InputError(_explain(error)) from error


def _call(app: App, arguments: Sequence[str]) -> None:
    options = dict(exit_on_error=False, print_error=False)
    app(list(arguments), result_action="return_value", **options)


def _read_config(path: Path) -> Dict:
    """Reads the values of flags from a file, as they would be typed."""
    import yaml

    try:
        # The base loader leaves numbers, `no` and `true` as they are written.
        values = yaml.load(path.read_text("utf-8"), yaml.BaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(
            f"--config must be a YAML file. Received: {path}: "
            + " ".join(str(error).split())
        ) from error
    if not isinstance(values, dict):
        raise InputError(
            "--config must have a flag and its value on each line, such as "
            f"`steps: 1000`. Received: {path}"
        )
    return Dict(values, source=str(path), use_commands_as_keys=False)


def _explain(error: CycloptsError) -> str:
    """Returns the message of cyclopts, or one with a better hint."""
    error.verbose = False
    if isinstance(error, UnknownCommandError):
        word = error.unused_tokens[0]
        if word in _COMMAND_HINTS:
            hint = _COMMAND_HINTS[word]
            return f"There is no command {word}. Did you mean {hint}?"
    if not isinstance(error, UnknownOptionError):
        return str(error)
    known = [name for flag in error.argument_collection for name in flag.names]
    word = (error.token.keyword or error.token.value).partition("=")[0]
    place = ""
    if word.startswith("["):  # a name in a file
        word = "--" + word.strip("[]").replace("_", "-")
        place = f", which {error.token.source} has"
    return unknown_flag(word, known, place=place)


def unknown_flag(
    word: str, known: Sequence[str], advice: str = "", place: str = ""
) -> str:
    """Returns the message for a flag that is not known; advice without hint."""
    hints = difflib.get_close_matches(word, known, 1)
    if word in _FLAG_HINTS:
        hints = [
            hint
            for hint in _FLAG_HINTS[word]
            if set(re.findall(r"--[\w-]+", hint)) <= set(known)
        ]
    hint = f"Did you mean {hints[0]}?" if hints else advice
    return f"There is no flag {word}{place}. {hint}".rstrip()
