import logging

import pytest

from keras_transformer.support.logs import ConsoleHandler, print_log_messages


@pytest.fixture
def package_logger():
    """The logger of the package, which is afterwards as it was."""
    logger = logging.getLogger("keras_transformer")
    state = logger.level, logger.propagate, logger.handlers[:]
    yield logger
    logger.setLevel(state[0])
    logger.propagate = state[1]
    logger.handlers[:] = state[2]


def test_messages_are_printed(capsys):
    logger = logging.getLogger("keras_transformer.train.trainer")
    logger.debug("not shown")
    logger.info("train: %s pairs", 12)
    logger.warning("runs/a is averaged from one checkpoint.")
    assert capsys.readouterr() == (
        "train: 12 pairs\n",
        "Warning: runs/a is averaged from one checkpoint.\n",
    )
    # The root logger prints nothing twice.
    assert not logging.getLogger("keras_transformer").propagate


def test_handlers_of_a_program_stay(package_logger):
    package_logger.handlers.clear()
    print_log_messages()
    print_log_messages()
    (handler,) = package_logger.handlers
    assert isinstance(handler, ConsoleHandler)
    package_logger.handlers[:] = [logging.NullHandler()]
    package_logger.setLevel(logging.ERROR)
    print_log_messages()
    assert len(package_logger.handlers) == 1
    assert package_logger.level == logging.ERROR


def test_errors_of_a_stream_are_passed_on(monkeypatch):
    class ClosedPipe:
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", ClosedPipe())
    with pytest.raises(BrokenPipeError):
        logging.getLogger("keras_transformer").info("train: 12 pairs")
