"""The commands that show something: their flags, and what they do."""

import argparse
from pathlib import Path

from keras_transformer.cli.options import (
    add_checkpoint,
    add_run,
    add_search,
    open_translator,
)
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write
from keras_transformer.pages.attention import attention_page

_PICTURE = "file to write: .png, .svg or .pdf"


def add_attention_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `attention`."""
    add_run(parser)
    parser.add_argument("sentence", help="the source")
    parser.add_argument(
        "--output",
        required=True,
        metavar="FILE",
        help="file to write: .html, which has all layers, or .png, .svg or "
        ".pdf",
    )
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        help="which attention a picture shows (default: cross)",
    )
    parser.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="layer that a picture shows, counted from 1 (default: the last)",
    )
    add_checkpoint(parser)
    add_search(parser)


def attention(options: argparse.Namespace) -> None:
    """Shows the attention while a sentence is translated."""
    is_page = Path(options.output).suffix.lower() == ".html"
    if is_page and (options.kind or options.layer) is not None:
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {options.output}"
        )
    translator = open_translator([options.run], options)
    found = translator.attention(options.sentence)
    if is_page:
        page = attention_page(
            found, options.sentence, translator(options.sentence)
        )
        with atomic_write(options.output) as partial:
            partial.write_text(page, "utf-8")
    else:
        from keras_transformer.plotting import save_figure, translation_figure

        figure = translation_figure(
            found, options.kind or "cross", options.layer
        )
        save_figure(figure, options.output)
    print(f"the attention is shown in {options.output}")


def add_curve_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `curve`."""
    add_run(parser)
    parser.add_argument("--output", required=True, help=_PICTURE)


def curve(options: argparse.Namespace) -> None:
    """Plots the loss and the score of a run over its training."""
    from keras_transformer.plotting import save_figure, training_figure
    from keras_transformer.run import Run
    from keras_transformer.train.log import read_log

    run = Run.open(options.run)
    rows = read_log(run.log_path)
    figure = training_figure(rows, run.path.name, run.task.watched_label)
    save_figure(figure, options.output)
    print(f"{len(rows):,} epochs are plotted in {options.output}")


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `trace`."""
    add_run(parser)
    parser.add_argument("sentence", help="the source")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file to write, .html, .md or .txt (default: print it)",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=5,
        metavar="N",
        help="most probable tokens shown for each hypothesis (default: "
        "%(default)s)",
    )
    add_checkpoint(parser)
    add_search(parser)


def trace(options: argparse.Namespace) -> None:
    """Shows a greedy search and a beam search step by step."""
    from keras_transformer.tracing import check_trace_path, save_trace, trace

    if options.output is not None:
        check_trace_path(options.output)
    translator = open_translator([options.run], options)
    found = trace(translator, options.sentence, options.tokens)
    if options.output is None:
        print(found, end="")
    else:
        save_trace(found, options.output)
        print(f"the search is shown in {options.output}")
