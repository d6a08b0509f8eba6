"""The exceptions for invalid user input."""

import contextlib
import os
from collections.abc import Iterator


class InputError(ValueError):
    """Raised for invalid input: a file, an option, a run folder.

    The message states what was expected, what was received and what to do. The
    command line prints it and exits with code 2. Any other exception is a bug.

    Args:
        message: The message. With `argument` it continues that name, as in
            "must be positive. Received: 0".
        argument: The argument of which the value is invalid. The command line
            prints its flag instead.
    """

    def __init__(self, message: str, argument: str | None = None) -> None:
        super().__init__(f"{argument} {message}" if argument else message)
        self.message = message
        self.argument = argument


class MissingPackageError(InputError, ModuleNotFoundError):
    """Raised if an optional package is not installed."""


@contextlib.contextmanager
def name_file(path: str | os.PathLike) -> Iterator[None]:
    """Puts the name of a file before the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path} cannot be used. {error}") from error


@contextlib.contextmanager
def explain_damage(
    path: str | os.PathLike, expected: str, advice: str = ""
) -> Iterator[None]:
    """Turns the errors of a damaged file into an `InputError` with its name.

    Errors of the system are not damage: the file was not read.
    """
    try:
        yield
    except (MissingPackageError, MemoryError):
        raise
    except Exception as error:  # a damaged file may raise anything
        if getattr(error, "errno", None):
            raise
        if isinstance(error, InputError):
            raise InputError(f"{path} cannot be used. {error}") from error
        problem = " ".join(str(error).split())[:200]
        if not isinstance(error, ValueError | OSError):
            problem = f"{type(error).__name__}: {problem}"
        message = f"{path} must be {expected}. Received: {problem}. {advice}"
        raise InputError(message.strip()) from error
