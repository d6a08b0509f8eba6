"""The commands that use a run."""

import argparse
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import keras_transformer as kt
from keras_transformer.cli import terminal
from keras_transformer.cli.options import (
    MODELS,
    SEARCH,
    command,
    field_flags,
    flag,
    flags,
    open_translator,
)
from keras_transformer.decoding.search import BeamSearch, Sampling
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_new
from keras_transformer.support.startup import available_cores, decoding_workers
from keras_transformer.tasks import ParsingTask, TranslationTask

if TYPE_CHECKING:
    from keras_transformer.inference.texts import Translation

_N_BEST = flag(
    "--n-best N",
    "print the N best outputs of each line, each in one line as line number, "
    "score and output, separated by tabs",
)


@command(
    MODELS,
    SEARCH,
    flags(
        flag(
            "--sample", "draw translations at random, in place of beam search"
        ),
        field_flags(Sampling, without=BeamSearch.__dataclass_fields__),
        title="sampling",
    ),
    _N_BEST,
    flag("--prefix TEXT", "what every translation must begin with", default=""),
)
def translate(options: argparse.Namespace) -> None:
    """Translate standard input line by line."""
    translator = open_translator(options, TranslationTask())
    for number, found in _outputs(translator, options.prefix):
        # A model may spell line ends.
        texts = [" ".join(text.splitlines()) for text in found.texts]
        if options.n_best is None:
            print(texts[0])
        else:
            _print_n_best(number, found.scores, texts)


@command(
    MODELS,
    SEARCH,
    flag(
        "--tokenized",
        "the words of a line are separated by spaces already, as in the Penn "
        "Treebank",
    ),
    flag("--one-line", "print each tree in one line"),
    _N_BEST,
    flag("--svg FOLDER", "also draw the best tree of line N into FOLDER/N.svg"),
)
def parse(options: argparse.Namespace) -> None:
    """Parse standard input line by line."""
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
        # An empty line has no tree.
        tree = kt.parsing.Tree.from_string(text) if text else None
        if options.n_best is not None:
            _print_n_best(number, found.scores, found.texts)
        elif tree is None or options.one_line:
            print(text)
        else:
            print(f"{kt.parsing.pretty(tree)}\n")
        if tree is not None and options.svg is not None:
            with atomic_write(folder / f"{number}.svg") as partial:
                partial.write_text(kt.parsing.draw(tree), "utf-8")


def _outputs(
    translator: "kt.Translator", prefix: str = ""
) -> Iterator[tuple[int, "Translation"]]:
    """Yields number and output of each line of standard input.

    What may be wrong with an output is reported after it.
    """
    name, tokens, hint = (
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
                    f"({hint})"
                )
            elif found.repaired:
                terminal.report(
                    f"the {name} of line {number} was repaired: what the model "
                    f"wrote was not a {name} over the words of the line"
                )


def _print_n_best(number: int, scores: list[float], texts: list[str]) -> None:
    for score, text in zip(scores, texts, strict=True):
        print(f"{number}\t{score:.4f}\t{text}")


@command(MODELS, field_flags(BeamSearch, ("alpha",)))
def score(options: argparse.Namespace) -> None:
    """Score given translations."""
    translator = open_translator(options)
    numbers = itertools.count(1)
    for lines in terminal.read_lines():
        pairs = [line.split("\t") for line in lines]
        for pair, number in zip(pairs, numbers, strict=False):
            if len(pair) != 2:
                raise InputError(
                    "Each line must be a source, a tab and its translation. "
                    f"Received: line {number} with {len(pair) - 1} tabs"
                )
        sources, targets = zip(*pairs, strict=True)
        for found in translator.score(sources, targets):
            print(f"{found.score:.4f}\t{found.perplexity:.4f}")


@command(
    MODELS,
    flag("output", "new folder, e.g. exported/1"),
    SEARCH,
    flag("--n-best N", "translations returned per text", default=1),
    flag(
        "--signatures NAME",
        "signatures to write; serving_default is needed (default: all)",
        nargs="+",
    ),
    flag(
        "--serving-kit",
        "also write warm-up requests, settings and instructions for "
        "TensorFlow Serving",
    ),
)
def export(options: argparse.Namespace) -> None:
    """Write a SavedModel."""
    check_new(options.output)
    if options.serving_kit:
        kt.export.serving_kit.check_kit(options.output)
    translator = open_translator(options)
    output = Path(options.output)
    if not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )
    print(f"exporting {', '.join(options.runs)}")
    path = kt.export.save(
        translator, options.output, include=options.signatures
    )
    print(
        f"{path} holds a SavedModel, which was loaded in a new process and "
        "translates as the run does"
    )
    if options.serving_kit:
        for file in kt.export.write_kit(path, available_cores()):
            print(f"wrote {file}")


@command(
    MODELS,
    flag(
        "--host",
        "address to listen on (default: %(default)s, this computer)",
        default="127.0.0.1",
    ),
    flag("--port N", "port to listen on, 0 for any", default=8000),
    flag("--n-best N", "outputs shown per text", default=4),
    flag("--max-characters N", "length of the longest text", default=2_000),
    SEARCH,
)
def serve(options: argparse.Namespace) -> None:
    """Start a web page to try a run."""
    kt.web.check_installed()  # before the model is loaded
    name = re.sub(r"[^\w.-]", "-", Path(options.runs[0]).resolve().name)
    with kt.web.listen(options.host, options.port) as listening:
        translator = open_translator(options)
        kt.web.serve(translator, name, listening, options.max_characters)
