"""The commands that use a run: their flags, and what they do."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli import terminal
from keras_transformer.cli.options import (
    add_integer,
    add_model,
    add_sampling,
    add_search,
    open_translator,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_new
from keras_transformer.support.startup import available_cores, decoding_workers
from keras_transformer.tasks import ParsingTask, TranslationTask

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translation, Translator

_N_BEST = (
    "print the N best outputs of each line, each in one line as line number, "
    "score and output, separated by tabs"
)


def add_translate_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `translate`."""
    add_model(parser)
    add_search(parser)
    add_sampling(parser)
    add_integer(parser, "--n-best", None, _N_BEST)
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="what every translation must begin with",
    )


def translate(options: argparse.Namespace) -> None:
    """Translates standard input line by line."""
    translator = open_translator(options, TranslationTask())
    for number, found in _outputs(translator, options.prefix):
        # A model may spell line ends.
        texts = [" ".join(text.splitlines()) for text in found.texts]
        if options.n_best is None:
            print(texts[0])
        else:
            _print_n_best(number, found.scores, texts)


def add_parse_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `parse`."""
    add_model(parser)
    add_search(parser)
    parser.add_argument(
        "--tokenized",
        action="store_true",
        help="the words of a line are separated by spaces already, as in the "
        "Penn Treebank",
    )
    parser.add_argument(
        "--one-line", action="store_true", help="print each tree in one line"
    )
    add_integer(parser, "--n-best", None, _N_BEST)
    parser.add_argument(
        "--svg",
        metavar="FOLDER",
        help="also draw the best tree of line N into FOLDER/N.svg",
    )


def parse(options: argparse.Namespace) -> None:
    """Parses standard input line by line."""
    from keras_transformer.tasks.parsing import Tree, draw, pretty

    translator = open_translator(
        options, ParsingTask(split_words=not options.tokenized)
    )
    folder = Path(options.svg or ".")
    if options.svg is not None:
        folder.mkdir(parents=True, exist_ok=True)
        existing = sorted(folder.glob("*.svg"))
        if existing:
            raise InputError(
                f"{existing[0]} already exists. Nothing is overwritten: choose "
                "another folder for the pictures."
            )
    for number, found in _outputs(translator):
        text = found.texts[0]
        tree = (
            Tree.from_string(text) if text else None
        )  # an empty line has no tree
        if options.n_best is not None:
            _print_n_best(number, found.scores, found.texts)
        elif tree is None or options.one_line:
            print(text)
        else:
            print(f"{pretty(tree)}\n")
        if tree is not None and options.svg is not None:
            with atomic_write(folder / f"{number}.svg") as partial:
                partial.write_text(draw(tree), "utf-8")


def _outputs(
    translator: "Translator", prefix: str = ""
) -> Iterator[tuple[int, "Translation"]]:
    """Yields number and output of each line of standard input.

    What may be wrong with an output is reported after it.
    """
    name, tokens, flags = (
        ("translation", "tokens", "--extra-length, --length-factor")
        if translator.task.targets_are_text
        else ("tree", "symbols", "--extra-length")
    )
    limit, workers, number = translator.max_length, decoding_workers(), 0
    for lines in terminal.read_lines():
        prefixes = [prefix] * len(lines)
        for found in translator.translate(
            lines, workers=workers, prefixes=prefixes
        ):
            number += 1
            yield number, found
            if found.source_truncated:
                terminal.report(
                    f"line {number} was truncated: it has more than "
                    f"{limit - 1} tokens, which is all that the model reads"
                )
            if found.at_length_limit:
                terminal.report(
                    f"the {name} of line {number} may be incomplete: it has "
                    f"as many {tokens} as it may have, {limit} or fewer "
                    f"({flags})"
                )
            elif found.repaired:
                terminal.report(
                    f"the {name} of line {number} was repaired: what the model "
                    f"wrote was not a {name} over the words of the line"
                )


def _print_n_best(number: int, scores: list[float], texts: list[str]) -> None:
    for score, text in zip(scores, texts, strict=True):
        print(f"{number}\t{score:.4f}\t{text}")


def add_score_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `score`."""
    add_model(parser)
    add_search(parser, "alpha")


def score(options: argparse.Namespace) -> None:
    """Scores the translations that standard input has beside their sources."""
    translator = open_translator(options)
    number = 0
    for lines in terminal.read_lines():
        pairs = []
        for line in lines:
            number += 1
            pair = line.split("\t")
            if len(pair) != 2:
                raise InputError(
                    "Each line must be a source, a tab and its translation. "
                    f"Received: line {number} with {len(pair) - 1} tabs"
                )
            pairs.append(pair)
        sources, targets = zip(*pairs, strict=True)
        for found in translator.score(sources, targets):
            print(f"{found.score:.4f}\t{found.perplexity:.4f}")


def add_export_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `export`."""
    add_model(parser)
    parser.add_argument("output", help="new folder, e.g. exported/1")
    add_search(parser)
    add_integer(parser, "--n-best", 1, "translations returned per text")
    parser.add_argument(
        "--signatures",
        nargs="+",
        metavar="NAME",
        help="signatures to write; serving_default is needed (default: all)",
    )
    parser.add_argument(
        "--serving-kit",
        action="store_true",
        help="also write warm-up requests, settings and instructions for "
        "TensorFlow Serving",
    )


def export(options: argparse.Namespace) -> None:
    """Writes a SavedModel."""
    check_new(options.output)
    from keras_transformer.export import save
    from keras_transformer.export.serving_kit import check_kit, write_kit

    if options.serving_kit:
        check_kit(options.output)
    translator = open_translator(options)
    output = Path(options.output)
    if not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )
    print(f"exporting {', '.join(options.runs)}")
    path = save(translator, options.output, include=options.signatures)
    print(
        f"{path} holds a SavedModel, which was loaded in a new process and "
        "translates as the run does"
    )
    if options.serving_kit:
        for file in write_kit(path, available_cores()):
            print(f"wrote {file}")


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `serve`."""
    add_model(parser)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: %(default)s, this computer)",
    )
    add_integer(parser, "--port", 8000, "port to listen on, 0 for any")
    add_integer(parser, "--n-best", 4, "outputs shown per text")
    add_integer(parser, "--max-characters", 2_000, "length of the longest text")
    add_search(parser)


def serve(options: argparse.Namespace) -> None:
    """Starts a web page to try the runs with."""
    from keras_transformer.showing import web

    name = re.sub(r"[^\w.-]", "-", Path(options.runs[0]).resolve().name)
    with web.listen(options.host, options.port) as listening:
        translator = open_translator(options)
        web.serve(translator, name, listening, options.max_characters)
