"""The parser of the command line: short help, and what a mistyped word means.

`options.py` says what the commands and their flags are.
"""

import argparse
import difflib
import itertools
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

# Other words for commands and flags, and what they are here.
_SYNONYMS = {
    "parse": "translate",
    "trace": "plot trace",
    "attention": "plot attention",
    "curve": "plot curve",
    "--data": "DATA, without a flag",
}


class CommandParser(argparse.ArgumentParser):
    """A parser that suggests commands and flags, with usage in one line.

    `--help` leaves out the flags that are marked as rare, `--help-all` does
    not.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(allow_abbrev=False, **keywords)
        self.commands: dict[str, CommandParser] = {}
        self.passed_on: list[str] = []  # flags of another program
        self.shows_all = False

    def finish(self) -> None:
        """Called when the parser has all its flags."""
        if any(map(_is_rare, self._actions)):
            self.add_argument(
                "--help-all",
                action=_HelpAll,
                nargs=0,
                default=argparse.SUPPRESS,
                help="show all flags and exit",
            )
        # What is read comes first, what is written follows.
        needed = [action for action in self._actions if action.required]
        needed.sort(key=lambda action: bool(action.option_strings))
        words = [self.prog, *map(_usage, needed)]
        words += ["..."] if self.commands else ["[FLAG ...]"]
        self.usage = " ".join(words).replace("%", "%%")

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> Any:
        """Parses; refuses what is unknown before what is missing."""
        args = list(sys.argv[1:] if args is None else args)
        words = list(itertools.takewhile(lambda word: word != "--", args))
        if self.commands:
            own = list(itertools.takewhile(_is_flag, words))
            for word in words[len(own) :][:1]:
                if word not in self.commands:
                    self._refuse("command", word, [*self.commands, *_SYNONYMS])
            words = own
        flags = [*self._option_string_actions, *self.passed_on]
        known = [*flags, *("--data" for a in self._actions if a.dest == "data")]
        for word in filter(_is_flag, words):
            if word.partition("=")[0] not in flags:
                self._refuse("flag", word, known)
        return super().parse_known_args(args, namespace)

    def format_help(self) -> str:
        """Returns the help, without the rare flags unless all are wanted."""
        hidden = [] if self.shows_all else filter(_is_rare, self._actions)
        texts = {action: action.help for action in hidden}
        for action in texts:
            action.help = argparse.SUPPRESS
        try:
            return super().format_help()
        finally:
            for action, text in texts.items():
                action.help = text

    def _refuse(self, kind: str, word: str, known: list[str]) -> NoReturn:
        name = word.partition("=")[0]
        own = (*self.commands, *self._option_string_actions)
        found = [name] if name in known else []
        found = found or difflib.get_close_matches(name, known, 1)
        hint = f"See {self.prog} --help."
        if found:
            word = found[0]
            word = _SYNONYMS.get(word, word) if word not in own else word
            hint = f"Did you mean {word}?"
        self.error(f"there is no {kind} {name}. {hint}")


class _HelpAll(argparse.Action):
    """Prints the help with all flags."""

    def __call__(self, parser: CommandParser, *_: Any) -> None:
        parser.shows_all = True
        parser.print_help()
        parser.exit()


def _is_flag(word: str) -> bool:
    # As argparse: neither a number nor a text is a flag.
    return re.fullmatch(r"-[^\d\s.]\S*", word) is not None


def _is_rare(action: argparse.Action) -> bool:
    return getattr(action, "is_rare", False)


def _usage(action: argparse.Action) -> str:
    name = action.metavar or action.dest
    if action.nargs == "+":
        name += "..."
    return " ".join([*action.option_strings[-1:], name])
