"""The command line: `keras-transformer COMMAND`."""

from keras_transformer.cli.commands import main

__all__ = ["main"]
