"""`plot WHAT`: a training, the attention, or a search."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import keras_transformer as kt
from keras_transformer.cli import flags
from keras_transformer.inference.opening import read_run
from keras_transformer.plotting.figure_style import FIGURE_SUFFIXES
from keras_transformer.plotting.heat_maps import check_layer
from keras_transformer.support import files
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import import_tensorflow_quietly

if TYPE_CHECKING:
    from keras_transformer.inference.base import BaseTranslator

SourceArgument = Annotated[
    str, Parameter(help="The source.", allow_leading_hyphen=True)
]


def curve(run: flags.RunFlag, *, output: Path) -> None:
    """The training of a run.

    Args:
        output: Picture to write, .png, .svg or .pdf; one that exists is
            replaced.
    """
    _check_file(output, FIGURE_SUFFIXES)
    folder = read_run(run)
    import_tensorflow_quietly()
    from keras_transformer.train.fitting.training_log import read_log

    rows = read_log(folder.log_path)
    score = folder.task.watched_label
    figure = kt.plotting.training_figure(rows, folder.path.name, score)
    kt.plotting.save_figure(figure, output)
    print(f"Wrote {output} with {len(rows):,} epochs")


def attention(
    run: flags.RunFlag,
    text: SourceArgument,
    *,
    output: Path,
    kind: Literal["encoder", "decoder", "cross"] | None = None,
    layer: flags.PositiveInteger | None = None,
    model: flags.ModelFlags = flags.ModelFlags(),
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
        with files.atomic_write(output) as partial:
            partial.write_text(kt.plotting.attention_page(result), "utf-8")
    else:
        figure = kt.plotting.translation_figure(result, kind, layer)
        kt.plotting.save_figure(figure, output, result.source, result.output)
    print(f"Wrote {output}")


def trace(
    run: flags.RunFlag,
    text: SourceArgument,
    *,
    output: Path | None = None,
    tokens: flags.PositiveInteger = 5,
    model: flags.ModelFlags = flags.ModelFlags(),
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
    files.check_creatable(path)
    files.check_output(path, suffixes)


def _open(run: Path, model: flags.ModelFlags) -> "BaseTranslator":
    read_run(run)  # refuses an export
    return model.open([run])
