"""Parses standard input with the run of a parser."""

from collections.abc import Iterator
from pathlib import Path

from keras_transformer.cli import terminal
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write
from keras_transformer.parsing import Tree, pretty
from keras_transformer.parsing.drawing import draw
from keras_transformer.run import Run
from keras_transformer.search import BeamSearch
from keras_transformer.startup import decoding_workers
from keras_transformer.tasks import ParsingTask
from keras_transformer.translator import Translator


def open_parser(
    run: Run,
    checkpoint: str | None,
    search: BeamSearch,
    dtype: str,
    split_words: bool,
) -> Translator:
    """Returns what parses sentences.

    Args:
        run: The run.
        checkpoint: As in `Run.find_checkpoint`.
        search: The search.
        dtype: As in `Run.load_model`.
        split_words: As in `ParsingTask`.

    Raises:
        InputError: If the run is for another task.
    """
    if run.task.name != ParsingTask.name:
        raise InputError(
            "A parser is trained on a treebank, a folder with train.mrg. "
            f"Received: {run.path}, which is for {run.task.name}"
        )
    model = run.load_model(run.find_checkpoint(checkpoint), dtype)
    task = ParsingTask(split_words)
    return Translator(model, run.tokenizer, search, task=task)


def parse_lines(
    parser: Translator, one_line: bool, pictures: str | None
) -> None:
    """Prints the tree of each line of standard input.

    Args:
        parser: From `open_parser`.
        one_line: Whether a tree is printed in one line. By default it has
            several, and an empty line follows.
        pictures: Folder in which `N.svg` becomes the tree of line N.

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
    for number, text in _numbered_trees(parser):
        if not text:  # an empty line has no tree
            print()
            continue
        tree = Tree.parse(text)
        print(text if one_line else f"{pretty(tree)}\n")
        if pictures is not None:
            file = Path(pictures) / f"{number}.svg"
            with atomic_write(file) as partial:
                partial.write_text(draw(tree), "utf-8")


def _numbered_trees(parser: Translator) -> Iterator[tuple[int, str]]:
    number = 0
    limit = parser.tensors.ids.max_length
    for lines in terminal.read_lines():
        for parsed in parser.translate(lines, workers=decoding_workers()):
            number += 1
            yield number, parsed.texts[0]
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
