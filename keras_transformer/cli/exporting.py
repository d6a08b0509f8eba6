"""The commands that export and serve."""

import dataclasses
import re
import shlex
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import keras_transformer as kt
from keras_transformer.cli import flags, terminal
from keras_transformer.export.argos_package import check_package
from keras_transformer.export.dtypes import DTYPES, check_dtype
from keras_transformer.export.saved_model import saved_model_options
from keras_transformer.inference.opening import read_folder, read_run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_new
from keras_transformer.support.startup import available_cores

_SYSTEMS = {
    "saved-model": "TensorFlow",
    "litert": "LiteRT",
    "ctranslate2": "CTranslate2",
    "argos": "Argos Translate",
    "huggingface": "Hugging Face",
}


def export(
    runs: flags.RunsFlag,
    *,
    output: Path,
    format: Annotated[
        str,
        Parameter(
            choices=tuple(DTYPES),
            show_choices=False,
            help="What to write, and in which --dtype: "
            + "; ".join(f"{x} in {', '.join(y)}" for x, y in DTYPES.items())
            + ".",
        ),
    ] = "saved-model",
    n_best: flags.PositiveInteger = 1,
    signatures: list[str] | None = None,
    serving_kit: bool = False,
    model: flags.ModelFlags = flags.ModelFlags(),
) -> None:
    """Write a SavedModel, or a model for another system.

    Args:
        output: New folder, for a SavedModel with a number as its name:
            exported/1. For Argos Translate a file: en-de.argosmodel.
        n_best: Translations returned per text.
        signatures: Signatures of a SavedModel; serving_default is needed
            (default: all).
        serving_kit: Beside a SavedModel, write warm-up requests, settings and
            instructions for TensorFlow Serving.
    """
    is_saved_model = format == "saved-model"
    if not is_saved_model:
        flags.refuse(
            "a SavedModel", signatures=signatures, serving_kit=serving_kit
        )
    dtype = model.dtype or "float32"
    check_dtype(format, dtype)
    if len(runs) > 1 and format not in ("saved-model", "litert"):
        raise InputError(
            f"{_SYSTEMS[format]} has no ensembles. Use the format litert or "
            "saved-model, or give one run. Received: "
            f"{', '.join(map(str, runs))}"
        )
    check_new(output)
    folders = [read_run(path) for path in runs]
    if signatures is not None:
        saved_model_options.check_signatures(signatures, folders[0].task)
    if serving_kit:
        saved_model_options.check_kit(output)
    if format == "argos":
        check_package(output, *folders[0].languages)
    if not is_saved_model:  # converts the weights itself
        model = dataclasses.replace(model, dtype=None)
    translator = model.open(runs, n_best)
    if is_saved_model and not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )
    print(f"exporting {', '.join(map(str, runs))}")
    if is_saved_model:
        path = kt.export.save(translator, output, include=signatures)
        print(
            f"{path} holds a SavedModel, which was loaded in a new process and "
            "translates as the run does"
        )
        if serving_kit:
            for file in kt.export.write_kit(path, available_cores()):
                print(f"wrote {file}")
        return
    save = getattr(kt.export, f"save_{format}")
    path = save(translator, output, dtype=dtype)
    use = "The README.md in it says how to use it"
    if format == "litert":
        use = f"Next: keras-transformer translate {shlex.quote(str(output))}"
    print(f"{path} holds a model for {_SYSTEMS[format]}. {use}")


def _check_hosts(_: Any, names: list[str] | None) -> None:
    for name in names or ():
        if not re.fullmatch(r"[\w.-]+", name, re.A):
            raise ValueError(
                "It must be a name such as pc.example.org, without scheme and "
                "port."
            )


def serve(
    runs: flags.ModelsFlag,
    *,
    host: str = "127.0.0.1",
    port: flags.Integer = 8000,
    allowed_host: Annotated[
        list[str] | None, Parameter(validator=_check_hosts)
    ] = None,
    n_best: flags.PositiveInteger = 1,
    max_characters: flags.PositiveInteger = 2_000,
    model: flags.ModelFlags = flags.ModelFlags(),
) -> None:
    """Start a web page to try a model, and TensorFlow Serving's REST API.

    Args:
        host: Address to listen on; the default is this computer alone.
        port: Port to listen on, 0 for any.
        allowed_host: A name that browsers may use for this computer, beside
            its own and IP addresses; can be repeated.
        n_best: Outputs shown per text.
        max_characters: Length of the longest text.
    """
    kt.serving.check_installed()
    # It is part of addresses.
    name = re.sub(r"[^\w.-]", "-", read_folder(runs[0]).name)
    with kt.serving.listen(host, port) as listening:
        translator = model.open(runs, n_best)
        more = {}
        if translator.checkpoints:  # what an export of the run would have
            from keras_transformer.export.saved_model import exported_signatures
            from keras_transformer.inference import served_signatures

            module = exported_signatures.Signatures(translator)
            signatures = module.make(module.names)
            more = served_signatures.graph_signatures(signatures)
        hosts = [*(allowed_host or ()), host]
        # Python would wait for threads that compute answers.
        terminal.end_on_signals()
        kt.serving.serve(
            translator, name, listening, max_characters, more, hosts
        )
