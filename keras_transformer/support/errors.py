"""The exception for invalid user input."""


class InputError(ValueError):
    """Raised for invalid input: a file, an option, a run folder.

    The message says what was wrong, what was expected, what was received and
    what to do. The command line prints it without a traceback and exits with
    code 2. Any other exception is a bug of this package.
    """
