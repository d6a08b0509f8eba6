"""`plot WHAT`: curves, attention, masks, searches, corpora."""

import argparse
import itertools
from pathlib import Path

import keras_transformer as kt
from keras_transformer.cli.arguments import open_corpus, open_runs
from keras_transformer.cli.options import (
    DATA,
    MODEL,
    RUN,
    SEARCH,
    add_commands,
    command,
    flag,
)
from keras_transformer.plotting.figures import PICTURES
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


@command(RUN, _PICTURE, suffixes=PICTURES)
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
    suffixes=(".html", *PICTURES),
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
    ),
    _PICTURE,
    SEARCH,
    suffixes=PICTURES,
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
        "file to write, .html, .md or .txt (default: print it)",
    ),
    flag(
        "--tokens N",
        "most probable tokens shown for each hypothesis",
        default=5,
    ),
    SEARCH,
    suffixes=(".html", ".md", ".txt"),
)
def trace(options: argparse.Namespace) -> None:
    """A search, step by step."""
    found = kt.trace(open_runs(options), options.text, options.tokens)
    if options.output is None:
        print(found, end="")
    else:
        kt.tracing.save_trace(found, options.output)
        print(f"the search is shown in {options.output}")


@command(
    flag("--d-model N", "width of the model", default=128),
    flag("--length N", "number of positions", default=100),
    _PICTURE,
    suffixes=PICTURES,
)
def positions(options: argparse.Namespace) -> None:
    """The sinusoids that encode positions."""
    import_tensorflow_quietly()
    encoding = kt.layers.SinusoidalPositionalEncoding()
    encoding.build((None, None, options.d_model))
    vectors = encoding.vectors(range(options.length))
    figure = kt.plotting.positions_figure(vectors)
    kt.plotting.save_figure(figure, options.output)
    print(f"plotted in {options.output}")


@command(
    flag(
        "--d-model N",
        "widths of models (default: 512)",
        default=[512],
        nargs="+",
    ),
    flag(
        "--warmup-steps N",
        "warm-up steps, each with each width (default: 4000)",
        default=[4000],
        nargs="+",
    ),
    flag("--steps N", "number of steps", default=100_000),
    _PICTURE,
    suffixes=PICTURES,
)
def schedule(options: argparse.Namespace) -> None:
    """The paper's learning rate."""
    import_tensorflow_quietly()
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
    flag("--pairs N", "pairs, from the first on", default=10_000),
    _PICTURE,
    suffixes=PICTURES,
)
def corpus(options: argparse.Namespace) -> None:
    """Lengths and tokens of a corpus."""
    import_tensorflow_quietly()
    run = kt.Run.open(options.run)
    data = open_corpus(options)
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
