"""The commands that show something: `plot WHAT`."""

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

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
from keras_transformer.showing.figures import PICTURES
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_output

if TYPE_CHECKING:
    from keras_transformer.train.data.corpus import Corpus

_TEXT = flag("text", "the source")
_PICTURE = flag(
    "--output FILE", "picture to write: .png, .svg or .pdf", required=True
)
_POSITIVE = {"type": positive_integer}

# What no training has written, by a field of its recipe.
_UNTRAINED = {
    "averaged": "The mean of checkpoints",
    "imported_from": "An imported model",
}


@command(RUN, _PICTURE)
def curve(options: argparse.Namespace) -> None:
    """The training of a run."""
    from keras_transformer.train.log import read_log

    check_output(options.output, PICTURES)
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


@command(
    MODEL,
    _TEXT,
    flag(
        "--output FILE",
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
    """The attention during a translation."""
    check_output(options.output, (".html", *PICTURES))
    is_page = Path(options.output).suffix.lower() == ".html"
    if is_page and (options.kind, options.layer) != (None, None):
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {options.output}"
        )
    found = open_runs(options).attention(options.text)
    if is_page:
        with atomic_write(options.output) as partial:
            partial.write_text(kt.pages.attention_page(found), "utf-8")
    else:
        kind = options.kind or "cross"
        figure = kt.plotting.translation_figure(found, kind, options.layer)
        kt.plotting.save_figure(
            figure, options.output, title=found.source, description=found.output
        )
    print(f"the attention is shown in {options.output}")


@command(
    MODEL,
    _TEXT,
    flag(
        "--padding N",
        "padding after the tokens, as in a batch with longer texts",
        default=2,
        **_POSITIVE,
    ),
    _PICTURE,
    SEARCH,
)
def masks(options: argparse.Namespace) -> None:
    """What a translation's tokens may attend to."""
    check_output(options.output, PICTURES)
    translator = open_runs(options)
    found = translator.attention(options.text)
    figure = kt.plotting.masks_figure(
        found.source_tokens,
        found.target_tokens,
        options.padding,
        translator.model.config.attention_window,
    )
    kt.plotting.save_figure(
        figure, options.output, title=found.source, description=found.output
    )
    print(f"the masks are shown in {options.output}")


@command(
    MODEL,
    _TEXT,
    flag(
        "--output FILE",
        "file to write, .html, .md or .txt (default: print it)",
    ),
    flag(
        "--tokens N",
        "most probable tokens shown for each hypothesis",
        default=5,
        **_POSITIVE,
    ),
    SEARCH,
)
def trace(options: argparse.Namespace) -> None:
    """A search, step by step."""
    if options.output is not None:
        kt.tracing.check_trace_path(options.output)
    found = kt.trace(open_runs(options), options.text, options.tokens)
    if options.output is None:
        print(found, end="")
    else:
        kt.tracing.save_trace(found, options.output)
        print(f"the search is shown in {options.output}")


@command(
    flag("--d-model N", "width of the model", default=128, **_POSITIVE),
    flag("--length N", "number of positions", default=100, **_POSITIVE),
    _PICTURE,
)
def positions(options: argparse.Namespace) -> None:
    """The sinusoids that encode positions."""
    check_output(options.output, PICTURES)
    encoding = kt.layers.SinusoidalPositionalEncoding()
    encoding.build((None, None, options.d_model))
    vectors = encoding.vectors(range(options.length))
    figure = kt.plotting.positions_figure(vectors)
    kt.plotting.save_figure(figure, options.output)
    print(f"plotted in {options.output}")


@command(
    flag(
        "--d-model INT",
        "widths of models (default: 512)",
        default=[512],
        nargs="+",
        **_POSITIVE,
    ),
    flag(
        "--warmup-steps INT",
        "warm-up steps, each with each width (default: 4000)",
        default=[4000],
        nargs="+",
        **_POSITIVE,
    ),
    flag("--steps N", "number of steps", default=100_000, **_POSITIVE),
    _PICTURE,
)
def schedule(options: argparse.Namespace) -> None:
    """The paper's learning rate."""
    check_output(options.output, PICTURES)
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
    flag("--pairs N", "pairs, from the first on", default=10_000, **_POSITIVE),
    _PICTURE,
)
def corpus(options: argparse.Namespace) -> None:
    """Lengths and tokens of a corpus."""
    check_output(options.output, PICTURES)
    run = kt.Run.open(options.run)
    data = _corpus_of(run, options)
    pairs = list(itertools.islice(data.pairs(options.split), options.pairs + 1))
    part = "Sample of" if len(pairs) > options.pairs else "All of"
    figure = kt.plotting.corpus_figure(
        pairs[: options.pairs],
        run.tokenizer,
        data.task,
        f"{part} {options.split}",
    )
    kt.plotting.save_figure(figure, options.output)
    print(f"plotted in {options.output}")


def _corpus_of(run: "kt.Run", options: argparse.Namespace) -> "Corpus":
    """Returns the data that are given, or that the run was trained on."""
    recipe, data = run.recipe, options.data
    source, target = options.source, options.target
    if data is None:
        if not recipe.get("data"):
            raise InputError(
                "The run does not record the data that it was trained on. "
                f"Name them with --data. Received: {run.path}"
            )
        data = recipe["data"].split(" ")
        # Most are one; a folder's name may have a space.
        data = [recipe["data"]] if Path(recipe["data"]).exists() else data
        source, target = recipe.get("source"), recipe.get("target")
    return kt.train.open_corpus(data, source, target)


@command(
    lambda parser: add_commands(
        parser,
        "WHAT",
        curve,
        attention,
        masks,
        trace,
        positions,
        schedule,
        corpus,
    )
)
def plot(options: argparse.Namespace) -> None:
    """Show a training, attention, masks, a search, a corpus."""
    # Never called: a subcommand is required.
