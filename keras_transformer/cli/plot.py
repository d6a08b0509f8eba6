"""`plot WHAT`: a training, the attention, masks, or a search."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import keras_transformer as kt
from keras_transformer.cli.flags import (
    ModelFlags,
    PositiveInteger,
    RunFlag,
)
from keras_transformer.cli.training import check_trained
from keras_transformer.inference.opening import read_run
from keras_transformer.plotting.figure_style import FIGURE_SUFFIXES
from keras_transformer.plotting.heat_maps import check_layer
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    atomic_write,
    check_creatable,
    check_output,
)
from keras_transformer.support.startup import import_tensorflow_quietly

if TYPE_CHECKING:
    from keras_transformer.inference.base import BaseTranslator

SourceArgument = Annotated[
    str, Parameter(help="The source.", allow_leading_hyphen=True)
]
FigureFlag = Annotated[
    Path,
    Parameter(
        help="Picture to write, .png, .svg or .pdf; one that exists is "
        "replaced."
    ),
]


def curve(run: RunFlag, *, output: FigureFlag) -> None:
    """The training of a run."""
    _check_file(output, FIGURE_SUFFIXES)
    folder = read_run(run)
    check_trained(folder)
    import_tensorflow_quietly()
    from keras_transformer.train.fitting.training_log import read_log

    rows = read_log(folder.log_path)
    figure = kt.plotting.training_figure(
        rows, folder.path.name, folder.task.watched_label
    )
    kt.plotting.save_figure(figure, output)
    print(f"Wrote {output} with {len(rows):,} epochs")


def attention(
    run: RunFlag,
    text: SourceArgument,
    *,
    output: Path,
    kind: Literal["encoder", "decoder", "cross"] | None = None,
    layer: PositiveInteger | None = None,
    model: ModelFlags = ModelFlags(),
) -> None:
    """The attention during a translation.

    Args:
        output: A page with all layers, .html, or a picture, .png, .svg or
            .pdf; one that exists is replaced.
        kind: Which attention a picture shows (default: cross).
        layer: Layer that a picture shows, counted from 1 (default: the last).
    """
    _check_file(output, (".html", *FIGURE_SUFFIXES))
    is_page = output.suffix.lower() == ".html"
    if is_page and (kind, layer) != (None, None):
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {output}"
        )
    kind = kind or "cross"
    config = read_run(run).config
    stack = config.encoder if kind == "encoder" else config.decoder
    check_layer(layer, stack.num_layers)
    result = _open(run, model).attention(text)
    if is_page:
        with atomic_write(output) as partial:
            partial.write_text(kt.plotting.attention_page(result), "utf-8")
    else:
        figure = kt.plotting.translation_figure(result, kind, layer)
        kt.plotting.save_figure(figure, output, result.source, result.output)
    print(f"Wrote {output}")


def masks(
    run: RunFlag,
    text: SourceArgument,
    *,
    output: FigureFlag,
    padding: PositiveInteger = 2,
    model: ModelFlags = ModelFlags(),
) -> None:
    """What a translation's tokens may attend to.

    Args:
        padding: Padding after the tokens, as in a batch with longer texts.
    """
    _check_file(output, FIGURE_SUFFIXES)
    window = read_run(run).config.attention_window
    result = _open(run, model).attention(text)
    figure = kt.plotting.masks_figure(
        result.source_tokens, result.target_tokens, padding, window
    )
    kt.plotting.save_figure(figure, output, result.source, result.output)
    print(f"Wrote {output}")


def trace(
    run: RunFlag,
    text: SourceArgument,
    *,
    output: Path | None = None,
    tokens: PositiveInteger = 5,
    model: ModelFlags = ModelFlags(),
) -> None:
    """A search, step by step.

    Args:
        output: File to write, .html or .txt; one that exists is replaced
            (default: standard output).
        tokens: Most probable tokens shown for each hypothesis.
    """
    if output is not None:
        _check_file(output, (".html", ".txt"))
    translator = _open(run, model)
    result = kt.trace(translator, text, tokens)
    if output is None:
        print(result, end="")
    else:
        result.save(output)
        print(f"Wrote {output}")


def _check_file(path: Path, suffixes: Collection[str]) -> None:
    check_creatable(path)
    check_output(path, suffixes)


def _open(run: Path, model: ModelFlags) -> "BaseTranslator":
    read_run(run)  # refuses an export
    return model.open([run])
