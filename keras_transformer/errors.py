"""The one exception for input that cannot be used, and TensorFlow's own."""

import sys


class InputError(ValueError):
    """What the user gave cannot be used: a file, an option, a run folder.

    The message is written for the user: what was wrong, what was expected,
    what was received and what to do. The command line prints it without a
    traceback and exits with code 2; any other exception is a fault of ours.
    """


def advice_on(error: Exception) -> str | None:
    """Returns what to do about an error of TensorFlow; None of another's."""
    if "tensorflow" not in sys.modules:
        return None
    errors = sys.modules["tensorflow"].errors
    if "No space left" in str(error):  # TensorFlow's, of no class of its own
        return "The disk is full."
    match error:
        case errors.ResourceExhaustedError():
            return (
                "The memory does not suffice. Training needs less with a "
                "smaller --batch-tokens or --max-length, --accumulate or a "
                "mixed --dtype; translating with a smaller --beam-size."
            )
        case errors.UnavailableError() | errors.AbortedError():
            return (
                "Another worker does not answer. Start the same commands "
                "again, which go on after the last checkpoint."
            )
        case errors.PermissionDeniedError() | errors.NotFoundError():
            return "A file cannot be read or written."
    return None
