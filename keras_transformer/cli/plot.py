"""`plot WHAT`: curves, attention, masks, searches."""

import argparse
from pathlib import Path

import keras_transformer as kt
from keras_transformer.cli.arguments import open_runs
from keras_transformer.cli.options import (
    MODEL,
    RUN,
    SEARCH,
    add_commands,
    command,
    flag,
)
from keras_transformer.plotting.figure_style import FIGURE_SUFFIXES
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.support.startup import import_tensorflow_quietly

_TEXT = flag("text", "the source", metavar="TEXT")
_PICTURE = flag(
    "--output FILE",
    "picture to write, .png, .svg or .pdf; one that exists is replaced",
    required=True,
)

# What no training has written, by a field of its recipe.
_UNTRAINED = {
    "averaged": "The mean of checkpoints",
    "imported_from": "An imported model",
}


@command(RUN, _PICTURE, suffixes=FIGURE_SUFFIXES)
def curve(options: argparse.Namespace) -> None:
    """The training of a run."""
    import_tensorflow_quietly()
    from keras_transformer.train.fitting.training_log import read_log

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
    suffixes=(".html", *FIGURE_SUFFIXES),
)
def attention(options: argparse.Namespace) -> None:
    """The attention during a translation."""
    is_page = Path(options.output).suffix.lower() == ".html"
    if is_page and (options.kind, options.layer) != (None, None):
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {options.output}"
        )
    found = open_runs(options).attention(options.text)
    if is_page:
        with atomic_write(options.output) as partial:
            partial.write_text(kt.plotting.attention_page(found), "utf-8")
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
    ),
    _PICTURE,
    SEARCH,
    suffixes=FIGURE_SUFFIXES,
)
def masks(options: argparse.Namespace) -> None:
    """What a translation's tokens may attend to."""
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
        "file to write, .html or .txt (default: print it)",
    ),
    flag(
        "--tokens N",
        "most probable tokens shown for each hypothesis",
        default=5,
    ),
    SEARCH,
    suffixes=(".html", ".txt"),
)
def trace(options: argparse.Namespace) -> None:
    """A search, step by step."""
    found = kt.trace(open_runs(options), options.text, options.tokens)
    if options.output is None:
        print(found, end="")
    else:
        found.save(options.output)
        print(f"the search is shown in {options.output}")


@command(
    lambda parser: add_commands(
        parser,
        "WHAT",
        curve,
        attention,
        masks,
        trace,
    )
)
def plot(options: argparse.Namespace) -> None:
    """Show a training, attention, masks, a search."""
    # Never called: a subcommand is required.
