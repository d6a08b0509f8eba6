"""`plot WHAT`: a training, the attention, or a search."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

import keras_transformer as kt
from keras_transformer.cli import flags
from keras_transformer.inference.opening import read_run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.support.startup import start_keras


def curve(run: flags.RunFlag, *, output: Path) -> None:
    """The training of a run.

    Args:
        output: Picture to write, .png, .svg or .pdf; one that exists is
            replaced.
    """
    path = read_run(run).path
    start_keras()  # quietly
    from keras_transformer.train.callbacks import read_log

    rows = read_log(path / "log.csv")
    figure = kt.plotting.training_figure(rows, path.name, "validation score")
    kt.plotting.save_figure(figure, output)
    print(f"Wrote {output} with {len(rows):,} epochs")


def attention(
    run: flags.RunFlag,
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    output: Path,
    kind: Literal["encoder", "decoder", "cross"] | None = None,
    layer: flags.PositiveInteger | None = None,
    model: flags.ModelFlags = flags.ModelFlags(),
    search: flags.SearchFlags = None,
) -> None:
    """The attention during a translation.

    Args:
        text: The source.
        output: A page with all layers, .html, or a picture, .png, .svg or
            .pdf; one that exists is replaced.
        kind: Which attention a picture shows (default: cross).
        layer: Layer that a picture shows, counted from 1 (default: the last).
    """
    is_page = output.suffix.lower() == ".html"
    if is_page and (kind or layer):
        raise InputError(
            "A page shows all kinds and layers. Leave out --kind and --layer. "
            f"Received: --output {output}"
        )
    result = model.open([read_run(run)], search).attention(text)
    if is_page:
        with atomic_write(output) as partial:
            partial.write_text(kt.plotting.attention_page(result), "utf-8")
    else:
        figure = kt.plotting.translation_figure(result, kind or "cross", layer)
        kt.plotting.save_figure(figure, output, result.source, result.output)
    print(f"Wrote {output}")


def trace(
    run: flags.ModelFlag,
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    output: Path,
    tokens: flags.PositiveInteger = 5,
    model: flags.ModelFlags = flags.ModelFlags(),
    search: flags.SearchFlags = None,
) -> None:
    """A search, step by step.

    Args:
        text: The source.
        output: Page to write, .html; one that exists is replaced.
        tokens: Most probable tokens shown for each hypothesis, if the search
            compares as many.
    """
    translator = model.open([run], search)
    kt.trace(translator, text, tokens).save(output)
    print(f"Wrote {output}")
