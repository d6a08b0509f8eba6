"""The library's messages, through Python's `logging`."""

import logging
import sys


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
