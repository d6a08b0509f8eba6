"""Parses standard input with the runs of parsers."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.cli import terminal
from keras_transformer.cli.options import open_translator
from keras_transformer.inference.run import Run
from keras_transformer.inference.translator import Translation, Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.support.startup import decoding_workers
from keras_transformer.tasks import ParsingTask
from keras_transformer.tasks.parsing import Tree, pretty
from keras_transformer.tasks.parsing.drawing import draw


def open_parser(options: argparse.Namespace, num_trees: int) -> Translator:
    """Returns what parses sentences, as the flags of `parse` ask for.

    Raises:
        InputError: If the runs are for another task.
    """
    run = Run.open(options.runs[0])
    if run.task.name != ParsingTask.name:
        raise InputError(
            "A parser is trained on a treebank, a folder with train.mrg. "
            f"Received: {run.path}, which is for {run.task.name}"
        )
    opened = open_translator(options.runs, options, num_trees, options.dtype)
    return Translator(
        opened.models,
        opened.tokenizer,
        opened.search,
        num_trees,
        ParsingTask(split_words=not options.tokenized),
    )


def parse_lines(
    parser: Translator,
    one_line: bool,
    print_scores: bool,
    pictures: str | None,
) -> None:
    """Prints the trees of each line of standard input.

    Args:
        parser: From `open_parser`.
        one_line: Whether a tree is printed in one line. By default it has
            several, and an empty line follows.
        print_scores: Whether to print all trees of a line, each in one line
            as line number, score and tree, separated by tabs.
        pictures: Folder in which `N.svg` becomes the best tree of line N.

    Raises:
        InputError: If the folder has pictures already.
    """
    if pictures is not None:
        Path(pictures).mkdir(parents=True, exist_ok=True)
        existing = sorted(Path(pictures).glob("*.svg"))
        if existing:
            raise InputError(
                f"{existing[0]} already exists. Nothing is overwritten: choose "
                "another folder for the pictures."
            )
    for number, parsed in _numbered_trees(parser):
        text = parsed.texts[0]
        tree = (
            Tree.from_string(text) if text else None
        )  # an empty line has no tree
        if print_scores:
            for score, other in zip(parsed.scores, parsed.texts, strict=True):
                print(f"{number}\t{score:.4f}\t{other}")
        elif tree is None or one_line:
            print(text)
        else:
            print(f"{pretty(tree)}\n")
        if tree is not None and pictures is not None:
            file = Path(pictures) / f"{number}.svg"
            with atomic_write(file) as partial:
                partial.write_text(draw(tree), "utf-8")


def _numbered_trees(parser: Translator) -> Iterator[tuple[int, Translation]]:
    number = 0
    limit = parser.tensors.ids.max_length
    for lines in terminal.read_lines():
        for parsed in parser.translate(lines, workers=decoding_workers()):
            number += 1
            yield number, parsed
            if parsed.source_truncated:
                terminal.report(
                    f"line {number} was truncated: it has more than "
                    f"{limit - 1} tokens, which is all that the model reads"
                )
            if parsed.at_length_limit:
                terminal.report(
                    f"the tree of line {number} may be incomplete: it has as "
                    f"many symbols as it may have, {limit} or fewer "
                    "(--extra-length)"
                )
            elif parsed.repaired:
                terminal.report(
                    f"the tree of line {number} was repaired: what the model "
                    "wrote was not a tree over the words of the line"
                )
