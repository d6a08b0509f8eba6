"""The commands that show something: their flags, and what they do."""

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli.options import (
    add_data,
    add_integer,
    add_model,
    add_output,
    add_run,
    add_search,
    add_split,
    open_translator,
    positive_integer,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PICTURE = "file to write: .png, .svg or .pdf"


def add_attention_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `attention`."""
    add_model(parser, several=False)
    parser.add_argument("sentence", help="the source")
    add_output(parser, "a page with all layers, .html, or .png, .svg or .pdf")
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        help="which attention a picture shows (default: cross)",
    )
    text = "layer that a picture shows, counted from 1 (default: the last)"
    add_integer(parser, "--layer", None, text)
    add_search(parser)


def attention(options: argparse.Namespace) -> None:
    """Shows the attention while a sentence is translated."""
    from keras_transformer.showing import plotting
    from keras_transformer.showing.pages import attention_page
    from keras_transformer.showing.plotting.figures import PICTURES

    check_output(options.output, (".html", *PICTURES))
    is_page = Path(options.output).suffix.lower() == ".html"
    if is_page and (options.kind, options.layer) != (None, None):
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {options.output}"
        )
    translator = open_translator(options)
    found = translator.attention(options.sentence)
    if is_page:
        with atomic_write(options.output) as partial:
            partial.write_text(attention_page(found), "utf-8")
    else:
        kind = options.kind or "cross"
        figure = plotting.translation_figure(found, kind, options.layer)
        plotting.save_figure(figure, options.output)
    print(f"the attention is shown in {options.output}")


def add_curve_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `curve`."""
    add_run(parser)
    add_output(parser, _PICTURE)


def curve(options: argparse.Namespace) -> None:
    """Plots the loss and the score of a run over its training."""
    from keras_transformer.inference.run import Run
    from keras_transformer.showing.plotting import save_figure, training_figure
    from keras_transformer.showing.plotting.figures import PICTURES
    from keras_transformer.train.log import read_log

    check_output(options.output, PICTURES)
    run = Run.open(options.run)
    if "averaged" in run.recipe:
        raise InputError(
            "The mean of checkpoints has no curve. Plot the run that they are "
            f"from. Received: {run.path}"
        )
    rows = read_log(run.log_path)
    figure = training_figure(rows, run.path.name, run.task.watched_label)
    save_figure(figure, options.output)
    print(f"{len(rows):,} epochs are plotted in {options.output}")


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of `trace`."""
    add_model(parser, several=False)
    parser.add_argument("sentence", help="the source")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file to write, .html, .md or .txt (default: print it)",
    )
    text = "most probable tokens shown for each hypothesis"
    add_integer(parser, "--tokens", 5, text, positive_integer)
    add_search(parser)


def trace(options: argparse.Namespace) -> None:
    """Shows a greedy search and a beam search step by step."""
    from keras_transformer.showing.tracing import (
        check_trace_path,
        save_trace,
        trace,
    )

    if options.output is not None:
        check_trace_path(options.output)
    translator = open_translator(options)
    found = trace(translator, options.sentence, options.tokens)
    if options.output is None:
        print(found, end="")
    else:
        save_trace(found, options.output)
        print(f"the search is shown in {options.output}")


def add_plot_options(parser: argparse.ArgumentParser) -> None:
    """Adds what can be plotted, and its flags."""
    subparsers = parser.add_subparsers(required=True, metavar="WHAT")
    for name, add_options, function, summary in (
        ("schedule", _add_schedule, _schedule, "the paper's learning rate"),
        ("corpus", _add_corpus, _corpus, "lengths and tokens of a corpus"),
    ):
        subparser = subparsers.add_parser(
            name, help=summary, allow_abbrev=False
        )
        add_options(subparser)
        add_output(subparser, _PICTURE)
        subparser.set_defaults(figure=function)


def plot(options: argparse.Namespace) -> None:
    """Plots learning rates, or what a model reads."""
    from keras_transformer.showing.plotting import save_figure
    from keras_transformer.showing.plotting.figures import PICTURES

    check_output(options.output, PICTURES)
    save_figure(options.figure(options), options.output)
    print(f"plotted in {options.output}")


def _add_schedule(parser: argparse.ArgumentParser) -> None:
    for flag, default, text in (
        ("--d-model", 512, "widths of models"),
        ("--warmup-steps", 4000, "warm-up steps, each with each width"),
    ):
        parser.add_argument(
            flag,
            nargs="+",
            type=positive_integer,
            default=[default],
            metavar="INT",
            help=f"{text} (default: {default})",
        )
    add_integer(parser, "--steps", 100_000, "number of steps", positive_integer)


def _schedule(options: argparse.Namespace) -> "Figure":
    from keras_transformer.schedules import WarmupInverseSquareRoot
    from keras_transformer.showing.plotting import schedule_figure

    schedules = {
        f"d_model {width}, {warmup:,} warm-up steps": (
            WarmupInverseSquareRoot(width, warmup)
        )
        for width in options.d_model
        for warmup in options.warmup_steps
    }
    return schedule_figure(schedules, options.steps)


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    add_data(parser)
    add_split(parser, "train", "split to plot")
    text = "pairs, from the first on"
    add_integer(parser, "--pairs", 10_000, text, positive_integer)


def _corpus(options: argparse.Namespace) -> "Figure":
    from keras_transformer.inference.run import Run
    from keras_transformer.showing.plotting import corpus_figure
    from keras_transformer.train.data.corpus import open_corpus

    corpus = open_corpus(options.data, options.source, options.target)
    pairs = itertools.islice(corpus.pairs(options.split), options.pairs)
    return corpus_figure(pairs, Run.open(options.run).tokenizer, corpus.task)
