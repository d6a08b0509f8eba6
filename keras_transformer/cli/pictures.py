"""The commands that show something."""

import argparse
import itertools
from pathlib import Path

import keras_transformer as kt
from keras_transformer.cli.given import open_runs
from keras_transformer.cli.options import (
    DATA,
    MODEL,
    RUN,
    SEARCH,
    add_commands,
    command,
    flag,
    positive_integer,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output

_SENTENCE = flag("sentence", "the source")
_PICTURE = flag(
    "--output PATH", "file to write: .png, .svg or .pdf", required=True
)

# What no training has written, by a field of its recipe.
_UNTRAINED = {
    "averaged": "The mean of checkpoints",
    "imported_from": "An imported model",
}


@command(
    MODEL,
    _SENTENCE,
    flag(
        "--output FILE",
        "file to write, .html, .md or .txt (default: print it)",
    ),
    flag(
        "--tokens N",
        "most probable tokens shown for each hypothesis",
        default=5,
        type=positive_integer,
    ),
    SEARCH,
)
def trace(options: argparse.Namespace) -> None:
    """Show a search step by step."""
    if options.output is not None:
        kt.tracing.check_trace_path(options.output)
    found = kt.trace(open_runs(options), options.sentence, options.tokens)
    if options.output is None:
        print(found, end="")
    else:
        kt.tracing.save_trace(found, options.output)
        print(f"the search is shown in {options.output}")


@command(
    MODEL,
    _SENTENCE,
    flag(
        "--output PATH",
        "a page with all layers, .html, or .png, .svg or .pdf",
        required=True,
    ),
    flag(
        "--kind",
        "which attention a picture shows (default: cross)",
        choices=("encoder", "decoder", "cross"),
    ),
    flag(
        "--layer N",
        "layer that a picture shows, counted from 1 (default: the last)",
    ),
    SEARCH,
)
def attention(options: argparse.Namespace) -> None:
    """Show the attention during a translation."""
    check_output(options.output, (".html", *kt.plotting.PICTURES))
    is_page = Path(options.output).suffix.lower() == ".html"
    if is_page and (options.kind, options.layer) != (None, None):
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {options.output}"
        )
    found = open_runs(options).attention(options.sentence)
    if is_page:
        with atomic_write(options.output) as partial:
            partial.write_text(kt.pages.attention_page(found), "utf-8")
    else:
        kind = options.kind or "cross"
        figure = kt.plotting.translation_figure(found, kind, options.layer)
        kt.plotting.save_figure(figure, options.output)
    print(f"the attention is shown in {options.output}")


@command(RUN, _PICTURE)
def curve(options: argparse.Namespace) -> None:
    """Plot the training of a run."""
    from keras_transformer.train.log import read_log

    run = kt.Run.open(options.run)
    for name, model in _UNTRAINED.items():
        if name in run.recipe:
            raise InputError(
                f"{model} has no curve. Plot a run that was trained. Received: "
                f"{run.path}"
            )
    rows = read_log(run.log_path)
    label = run.task.watched_label
    figure = kt.plotting.training_figure(rows, run.path.name, label)
    kt.plotting.save_figure(figure, options.output)
    print(f"{len(rows):,} epochs are plotted in {options.output}")


_POSITIVE_INTEGERS = {"nargs": "+", "type": positive_integer}


@command(
    flag(
        "--d-model INT",
        "widths of models (default: 512)",
        default=[512],
        **_POSITIVE_INTEGERS,
    ),
    flag(
        "--warmup-steps INT",
        "warm-up steps, each with each width (default: 4000)",
        default=[4000],
        **_POSITIVE_INTEGERS,
    ),
    flag(
        "--steps N", "number of steps", default=100_000, type=positive_integer
    ),
    _PICTURE,
)
def schedule(options: argparse.Namespace) -> None:
    """The paper's learning rate."""
    schedules = {
        f"d_model {width}, {warmup:,} warm-up steps": (
            kt.WarmupInverseSquareRoot(width, warmup)
        )
        for width in options.d_model
        for warmup in options.warmup_steps
    }
    figure = kt.plotting.schedule_figure(schedules, options.steps)
    kt.plotting.save_figure(figure, options.output)
    print(f"plotted in {options.output}")


@command(
    RUN,
    DATA,
    flag("--split", "split to plot", default="train"),
    flag(
        "--pairs N",
        "pairs, from the first on",
        default=10_000,
        type=positive_integer,
    ),
    _PICTURE,
)
def corpus(options: argparse.Namespace) -> None:
    """Lengths and tokens of a corpus."""
    check_output(options.output, kt.plotting.PICTURES)
    data = kt.train.open_corpus(options.data, options.source, options.target)
    pairs = itertools.islice(data.pairs(options.split), options.pairs)
    tokenizer = kt.Run.open(options.run).tokenizer
    figure = kt.plotting.corpus_figure(pairs, tokenizer, data.task)
    kt.plotting.save_figure(figure, options.output)
    print(f"plotted in {options.output}")


@command(lambda parser: add_commands(parser, "WHAT", schedule, corpus))
def plot(options: argparse.Namespace) -> None:
    """Plot a learning rate or a corpus."""
    # Never called: a subcommand is required.
