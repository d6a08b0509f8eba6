"""The library's messages, through Python's `logging`."""

import logging
import sys


class ConsoleHandler(logging.Handler):
    """Prints messages: warnings on standard error, others on standard output.

    It uses the streams that `sys` has now, and passes their errors on.
    """

    def emit(self, record: logging.LogRecord) -> None:
        message = self.format(record)
        if record.levelno >= logging.WARNING:
            print(f"Warning: {message}", file=sys.stderr, flush=True)
        else:
            print(message, flush=True)


def print_log_messages() -> None:
    """Prints the messages of the logger "keras_transformer" from INFO on.

    A program silences them with `setLevel` of this logger, or stores them with
    handlers of its own; a logger that has handlers already is left alone.
    """
    logger = logging.getLogger("keras_transformer")
    if not logger.handlers:
        logger.addHandler(ConsoleHandler())
        logger.setLevel(logging.INFO)
        logger.propagate = False
