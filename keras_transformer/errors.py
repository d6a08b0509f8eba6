"""The one exception for input that cannot be used, and advice on others."""

import re
import sys

# What comes before the reason if TensorFlow fails in a graph.
_PREAMBLE = r"Graph execution error|Detected at node|\s+File |\d+ root error"


class InputError(ValueError):
    """What the user gave cannot be used: a file, an option, a run folder.

    The message is written for the user: what was wrong, what was expected,
    what was received and what to do. The command line prints it without a
    traceback and exits with code 2; any other exception is a fault of ours.
    """


def advice_on(error: Exception) -> str | None:
    """Returns what to do about an error that is no fault of ours, or None."""
    # TensorFlow has no classes of its own for these.
    if "No space left" in str(error):
        return "The disk is full."
    if "File too large" in str(error):
        return "A file may not become as large as that; see `ulimit -f`."
    if "tensorflow" not in sys.modules:
        return None
    errors = sys.modules["tensorflow"].errors
    match error:
        case errors.ResourceExhaustedError():
            return (
                "The memory does not suffice. Translating needs less with a "
                "smaller --beam-size; a new training, perhaps with "
                "--init-from this one, with a smaller --batch-tokens or "
                "--max-length, with --accumulate or a mixed --dtype."
            )
        case errors.UnavailableError() | errors.AbortedError():
            return (
                "Another worker has ended or does not answer. If it printed "
                "no reason, start the same commands again, which go on after "
                "the last checkpoint."
            )
        case errors.PermissionDeniedError() | errors.NotFoundError():
            return "A file cannot be read or written."
    return None


def reason_of(error: Exception) -> str:
    """Returns the line of an error's message that says what happened."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if not re.match(_PREAMBLE, line)]
    return (said or lines or [type(error).__name__])[0].strip()
