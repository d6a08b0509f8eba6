"""What the library shows: messages through `logging`, and progress bars."""

import logging
import os
import sys
from collections.abc import Iterable
from typing import Any


class ConsoleHandler(logging.Handler):
    """Prints warnings on the current stderr, other messages on stdout."""

    def emit(self, record: logging.LogRecord) -> None:
        message = self.format(record)
        if record.levelno >= logging.WARNING:
            print(f"Warning: {message}", file=sys.stderr, flush=True)
        else:
            print(message, flush=True)


def print_log_messages() -> None:
    """Prints the messages of the logger "keras_transformer" from INFO on.

    A logger that has handlers is not changed.
    """
    logger = logging.getLogger("keras_transformer")
    if not logger.handlers:
        logger.addHandler(ConsoleHandler())
        logger.setLevel(logging.INFO)
        logger.propagate = False


def progress_bar(
    iterable: Iterable | None = None, is_shown: bool = True, **options: Any
) -> Any:
    """Returns a bar of tqdm on a terminal; `TQDM_DISABLE` hides all bars."""
    from tqdm import tqdm

    is_hidden = not is_shown or bool(os.environ.get("TQDM_DISABLE"))
    return tqdm(iterable, disable=is_hidden or None, **options)
