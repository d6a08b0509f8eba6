"""The commands that export and serve."""

import argparse
import itertools
import re
import shlex
from pathlib import Path

import keras_transformer as kt
from keras_transformer.cli import terminal
from keras_transformer.cli.arguments import (
    given_export,
    open_runs,
    open_translator,
)
from keras_transformer.cli.options import (
    CHECKPOINT,
    MODELS_OR_EXPORT,
    RUNS,
    SEARCH,
    command,
    flag,
    flags,
    integer,
)
from keras_transformer.export.dtypes import DTYPES
from keras_transformer.inference import saved_model
from keras_transformer.inference.served_signatures import (
    Signature,
    graph_signatures,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_new
from keras_transformer.support.startup import (
    available_cores,
    import_tensorflow_quietly,
)


@command(
    RUNS,
    CHECKPOINT,
    flag(
        "--output DIR",
        "new folder, for a SavedModel with a number as its name: exported/1",
        required=True,
    ),
    flag(
        "--format",
        "what to write (default: %(default)s)",
        choices=tuple(DTYPES),
        default="saved-model",
    ),
    flag(
        "--dtype",
        "type of the weights; of a SavedModel also of the computation "
        "(default: float32); "
        + "; ".join(f"{x}: {', '.join(y)}" for x, y in DTYPES.items()),
        choices=tuple(dict.fromkeys(itertools.chain(*DTYPES.values()))),
        metavar="TYPE",
    ),
    SEARCH,
    flag("--n-best N", "translations returned per text", default=1),
    flags(
        flag(
            "--signatures NAME",
            "signatures to write; serving_default is needed (default: all)",
            nargs="+",
        ),
        flag(
            "--serving-kit",
            "also write warm-up requests, settings and instructions for "
            "TensorFlow Serving",
        ),
        title="SavedModel",
    ),
)
def export(options: argparse.Namespace) -> None:
    """Write a SavedModel, or a model for another system."""
    check_new(options.output)
    _check_format(options)
    import_tensorflow_quietly()
    if options.format == "saved-model":
        _export_saved_model(options)
        return
    translator = open_runs(options, dtype="float32")
    print(f"exporting {', '.join(options.runs)}")
    save = getattr(kt.export, f"save_{options.format}")
    path = save(translator, options.output, dtype=options.dtype or "float32")
    use = {
        "litert": "LiteRT. Next: keras-transformer translate "
        + shlex.quote(str(path)),
        "ctranslate2": "CTranslate2. Its README.md says how to use it",
        "argos": "Argos Translate. The README.md in it says how to use it",
        "huggingface": "Hugging Face. Its README.md says how to use it",
    }
    print(f"{path} holds a model for {use[options.format]}")


def _check_format(options: argparse.Namespace) -> None:
    dtypes = DTYPES[options.format]
    if options.dtype not in (None, *dtypes):
        raise InputError(
            f"The --dtype of --format {options.format} must be one of "
            f"{', '.join(dtypes)}. Received: --dtype {options.dtype}"
        )
    system = {
        "ctranslate2": "CTranslate2",
        "argos": "Argos Translate",
        "huggingface": "Hugging Face",
    }.get(options.format)
    if system and len(options.runs) > 1:
        raise InputError(
            f"{system} has no ensembles. Use --format litert or saved-model, "
            f"or give one run. Received: {', '.join(options.runs)}"
        )
    if options.format != "saved-model":
        for name in ("signatures", "serving_kit"):
            if getattr(options, name):
                raise InputError(
                    f"--{name.replace('_', '-')} is for a SavedModel. Leave it "
                    f"out, or --format. Received: --format {options.format}"
                )


def _export_saved_model(options: argparse.Namespace) -> None:
    if options.serving_kit:
        from keras_transformer.export.saved_model.serving_kit import check_kit

        check_kit(options.output)
    translator = open_runs(options)
    output = Path(options.output)
    if not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )
    print(f"exporting {', '.join(options.runs)}")
    path = kt.export.save(
        translator, options.output, include=options.signatures
    )
    print(
        f"{path} holds a SavedModel, which was loaded in a new process and "
        "translates as the run does"
    )
    if options.serving_kit:
        for file in kt.export.write_kit(path, available_cores()):
            print(f"wrote {file}")


@command(
    MODELS_OR_EXPORT,
    flag(
        "--host",
        "address to listen on (default: %(default)s, this computer)",
        default="127.0.0.1",
    ),
    flag(
        "--port N", "port to listen on, 0 for any", type=integer, default=8000
    ),
    flag("--n-best N", "outputs shown per text", default=1),
    flag("--max-characters N", "length of the longest text", default=2_000),
    SEARCH,
)
def serve(options: argparse.Namespace) -> None:
    """Start a web page to try a model, and TensorFlow Serving's REST API."""
    kt.serving.check_installed()  # before the model is loaded
    path = Path(options.runs[0]).resolve()
    is_saved_model = saved_model.is_export(path)
    # A version, such as models/en-de/1, has the model's name above it.
    named = path.parent if is_saved_model and path.name.isdecimal() else path
    name = re.sub(r"[^\w.-]", "-", named.name)
    with kt.serving.listen(options.host, options.port) as listening:
        translator = open_translator(options)
        more = {} if given_export(options) else _signatures(translator)
        length = options.max_characters
        kt.serving.serve(translator, name, listening, length, more)


def _signatures(translator: "kt.Translator") -> dict[str, Signature]:
    """Returns the signatures that an export of a run would have."""
    from keras_transformer.export.saved_model.exported_signatures import (
        Signatures,
    )

    module = Signatures(translator)
    return graph_signatures(module.make(module.names))
