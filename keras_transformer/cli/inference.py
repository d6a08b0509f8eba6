"""The commands that use a run: their flags, and what they do."""

import argparse
import re
from pathlib import Path

from keras_transformer.cli import terminal
from keras_transformer.cli.options import (
    add_checkpoint,
    add_dtype,
    add_runs,
    add_sampling,
    add_search,
    open_translator,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_new
from keras_transformer.support.startup import available_cores, decoding_workers


def add_translate_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `translate`."""
    add_runs(parser)
    add_checkpoint(parser)
    add_dtype(parser)
    add_search(parser)
    add_sampling(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="print N translations per line, each as line number, score and "
        "text, separated by tabs",
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="what every translation must begin with",
    )


def translate(options: argparse.Namespace) -> None:
    """Translates standard input line by line."""
    print_scores = options.n_best is not None
    n = options.n_best if print_scores else 1
    translator = open_translator(options.runs, options, n, options.dtype)
    if not translator.task.targets_are_text:
        raise InputError(
            "The runs must be for translation. Received: runs for "
            f"{translator.task.name}. Use `keras-transformer parse`."
        )
    limit = translator.tensors.ids.max_length
    workers = decoding_workers()
    number = 0
    for lines in terminal.read_lines():
        prefixes = [options.prefix] * len(lines)
        for translation in translator.translate(
            lines, workers=workers, prefixes=prefixes
        ):
            number += 1
            texts = [_one_line(text) for text in translation.texts]
            if print_scores:
                for score, text in zip(translation.scores, texts, strict=True):
                    print(f"{number}\t{score:.4f}\t{text}")
            else:
                print(texts[0])
            if translation.source_truncated:
                terminal.report(
                    f"line {number} was truncated: it has more than "
                    f"{limit - 1} tokens, which is all that the model reads"
                )
            if translation.at_length_limit:
                terminal.report(
                    f"the translation of line {number} may be incomplete: it "
                    f"has as many tokens as it may have, {limit} or fewer "
                    "(--extra-length, --length-factor)"
                )


def add_parse_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `parse`."""
    add_runs(parser)
    add_checkpoint(parser)
    add_dtype(parser)
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
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help="print N trees per line, each in one line as line number, score "
        "and tree, separated by tabs",
    )
    parser.add_argument(
        "--svg",
        metavar="FOLDER",
        help="also draw the best tree of line N into FOLDER/N.svg",
    )


def parse(options: argparse.Namespace) -> None:
    """Parses standard input line by line."""
    from keras_transformer.cli.parse import open_parser, parse_lines

    print_scores = options.n_best is not None
    parser = open_parser(options, options.n_best if print_scores else 1)
    parse_lines(parser, options.one_line, print_scores, options.svg)


def add_score_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `score`."""
    add_runs(parser)
    add_checkpoint(parser)
    add_search(parser, "alpha")


def score(options: argparse.Namespace) -> None:
    """Scores the translations that standard input has beside their sources."""
    translator = open_translator(options.runs, options)
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
    add_runs(parser)
    parser.add_argument("output", help="new folder, e.g. exported/1")
    add_checkpoint(parser)
    add_dtype(parser)
    add_search(parser)
    parser.add_argument(
        "--n-best",
        type=int,
        default=1,
        metavar="N",
        help="translations returned per text (default: %(default)s)",
    )
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
    translator = open_translator(
        options.runs, options, options.n_best, options.dtype
    )
    output = Path(options.output)
    if not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )
    print(f"exporting {', '.join(options.runs)}")
    path = save(
        translator,
        options.output,
        include=options.signatures,
    )
    print(
        f"{path} holds a SavedModel, which was loaded in a new process and "
        "translates as the run does"
    )
    if options.serving_kit:
        for file in write_kit(path, available_cores()):
            print(f"wrote {file}")


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `serve`."""
    add_runs(parser)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: %(default)s, this computer)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        metavar="N",
        help="port to listen on, 0 for any (default: %(default)s)",
    )
    parser.add_argument(
        "--n-best",
        type=int,
        default=4,
        metavar="N",
        help="outputs shown per text (default: %(default)s)",
    )
    parser.add_argument(
        "--max-characters",
        type=int,
        default=2_000,
        metavar="N",
        help="length of the longest text (default: %(default)s)",
    )
    add_checkpoint(parser)
    add_dtype(parser)
    add_search(parser)


def serve(options: argparse.Namespace) -> None:
    """Starts a web page to try the runs with."""
    from keras_transformer.showing import web

    name = re.sub(r"[^\w.-]", "-", Path(options.runs[0]).resolve().name)
    with web.listen(options.host, options.port) as listening:
        translator = open_translator(
            options.runs, options, options.n_best, options.dtype
        )
        web.serve(translator, name, listening, options.max_characters)


def _one_line(text: str) -> str:
    """Returns a text without line ends, which a model may spell."""
    return " ".join(text.splitlines())
