"""The commands of `keras-transformer`, in the order of its help.

TensorFlow is imported by the commands that need it, so that `--help` and
`presets` answer at once, and without the extra `tensorflow`.
"""

import argparse

from keras_transformer import __version__
from keras_transformer.cli import inference, pictures, training

# Module and summary of each command. The module has a function with its name,
# and one that adds its flags.
_COMMANDS = {
    "prepare": (training, "tokenize a large corpus for training"),
    "train": (training, "train on a parallel corpus"),
    "evaluate": (training, "measure BLEU or F1 on a split"),
    "average": (training, "average the last checkpoints of a run"),
    "translate": (inference, "translate standard input line by line"),
    "parse": (inference, "parse standard input line by line"),
    "score": (inference, "score given translations"),
    "export": (inference, "write a SavedModel"),
    "serve": (inference, "start a web page to try a run"),
    "presets": (training, "list the presets and their parameters"),
    "trace": (pictures, "show a search step by step"),
    "attention": (pictures, "show the attention during a translation"),
    "curve": (pictures, "plot the training of a run"),
    "plot": (pictures, "plot a learning rate or a corpus"),
    "demo": (
        training,
        "train, evaluate, export and translate in a few minutes",
    ),
}


def argument_parser() -> argparse.ArgumentParser:
    """Returns the parser; the option `command` is the function to call."""
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description='"Attention Is All You Need": train, evaluate, translate, '
        "export.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (module, summary) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, allow_abbrev=False)
        if name != "presets":  # has no flags
            getattr(module, f"add_{name}_options")(command)
        command.set_defaults(command=getattr(module, name))
    return parser
