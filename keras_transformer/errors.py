"""The one exception for input that cannot be used."""


class InputError(ValueError):
    """What the user gave cannot be used: a file, an option, a run folder.

    The message is written for the user: what was wrong, what was expected,
    what was received and what to do. The command line prints it without a
    traceback and exits with code 2; any other exception is a fault of ours.
    """
