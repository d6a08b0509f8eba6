"""The commands that use a run."""

import argparse
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import keras_transformer as kt
from keras_transformer.cli import terminal
from keras_transformer.cli.options import (
    CHECKPOINT,
    MODELS,
    MODELS_OR_LITERT,
    RUNS,
    SEARCH,
    command,
    field_flags,
    flag,
    flags,
    given_litert,
    given_values,
    open_runs,
    open_translator,
    workers_of,
)
from keras_transformer.decoding.search import BeamSearch, Sampling
from keras_transformer.export.dtypes import DTYPES
from keras_transformer.inference import saved_model
from keras_transformer.inference.signatures import Signature, graph_signatures
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_new
from keras_transformer.support.startup import (
    available_cores,
    import_tensorflow_quietly,
)
from keras_transformer.tasks import ParsingTask, TranslationTask

if TYPE_CHECKING:
    from keras_transformer.inference.texts import Translation
    from keras_transformer.litert import LiteRTTranslator

_SHOWN = 4  # outputs per text on the web page
_N_BEST = flag(
    "--n-best N",
    "print the N best outputs of each line, each in one line as line number, "
    "score and output, separated by tabs",
)


@command(
    MODELS_OR_LITERT,
    SEARCH,
    flags(
        flag(
            "--sample", "draw translations at random, in place of beam search"
        ),
        field_flags(Sampling, without=BeamSearch.__dataclass_fields__),
        title="sampling",
    ),
    _N_BEST,
    flag("--prefix TEXT", "what every translation must begin with", default=""),
    needs_tensorflow=False,
)
def translate(options: argparse.Namespace) -> None:
    """Translate standard input line by line."""
    translator = open_translator(options, TranslationTask())
    workers = workers_of(options)
    for number, found in _outputs(translator, workers, options.prefix):
        # A model may spell line ends.
        texts = [" ".join(text.splitlines()) for text in found.texts]
        if options.n_best is None:
            print(texts[0])
        else:
            _print_n_best(number, found.scores, texts)


@command(
    MODELS,
    SEARCH,
    flag(
        "--tokenized",
        "the words of a line are separated by spaces already, as in the Penn "
        "Treebank",
    ),
    flag("--one-line", "print each tree in one line"),
    _N_BEST,
    flag("--svg FOLDER", "also draw the best tree of line N into FOLDER/N.svg"),
)
def parse(options: argparse.Namespace) -> None:
    """Parse standard input line by line."""
    translator = open_runs(
        options, ParsingTask(split_words=not options.tokenized)
    )
    folder = Path(options.svg or ".")
    if options.svg is not None:
        folder.mkdir(parents=True, exist_ok=True)
        existing = sorted(folder.glob("*.svg"))
        if existing:
            raise InputError(
                f"{existing[0]} already exists. Nothing is overwritten: choose "
                "another folder for the pictures."
            )
    for number, found in _outputs(translator, workers_of(options)):
        text = found.texts[0]
        # An empty line has no tree.
        tree = kt.parsing.Tree.from_string(text) if text else None
        if options.n_best is not None:
            _print_n_best(number, found.scores, found.texts)
        elif tree is None or options.one_line:
            print(text)
        else:
            print(f"{kt.parsing.pretty(tree)}\n")
        if tree is not None and options.svg is not None:
            with atomic_write(folder / f"{number}.svg") as partial:
                partial.write_text(kt.parsing.draw(tree), "utf-8")


def _outputs(
    translator: "kt.Translator | LiteRTTranslator",
    workers: int,
    prefix: str = "",
) -> Iterator[tuple[int, "Translation"]]:
    """Yields number and output of each line of standard input.

    What may be wrong with an output is reported after it.
    """
    name, tokens, hint = (
        ("translation", "tokens", "--extra-length, --length-factor")
        if translator.task.targets_are_text
        else ("tree", "symbols", "--extra-length")
    )
    limit, number = translator.max_length, 0
    for lines in terminal.read_lines():
        prefixes = [prefix] * len(lines)
        for found in translator.translate(
            lines, workers=workers, prefixes=prefixes
        ):
            number += 1
            yield number, found
            if found.source_truncated:
                terminal.report(
                    f"line {number} was truncated: it has more than "
                    f"{limit - 1} tokens, which is all that the model reads"
                )
            if found.at_length_limit:
                terminal.report(
                    f"the {name} of line {number} may be incomplete: it has "
                    f"as many {tokens} as it may have, {limit} or fewer "
                    f"({hint})"
                )
            elif found.repaired:
                terminal.report(
                    f"the {name} of line {number} was repaired: what the model "
                    f"wrote was not a {name} over the words of the line"
                )


def _print_n_best(number: int, scores: list[float], texts: list[str]) -> None:
    for score, text in zip(scores, texts, strict=True):
        print(f"{number}\t{score:.4f}\t{text}")


@command(
    MODELS_OR_LITERT,
    field_flags(BeamSearch, ("alpha", "length_penalty")),
    needs_tensorflow=False,
)
def score(options: argparse.Namespace) -> None:
    """Score given translations."""
    translator = open_translator(options)
    numbers = itertools.count(1)
    for lines in terminal.read_lines():
        pairs = [line.split("\t") for line in lines]
        for pair, number in zip(pairs, numbers, strict=False):
            if len(pair) != 2:
                raise InputError(
                    "Each line must be a source, a tab and its translation. "
                    f"Received: line {number} with {len(pair) - 1} tabs"
                )
        sources, targets = zip(*pairs, strict=True)
        for found in translator.score(sources, targets):
            print(f"{found.score:.4f}\t{found.perplexity:.4f}")


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
    needs_tensorflow=False,
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
    system = {"ctranslate2": "CTranslate2", "huggingface": "Hugging Face"}.get(
        options.format
    )
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
        kt.export.serving_kit.check_kit(options.output)
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
    MODELS_OR_LITERT,
    flag(
        "--host",
        "address to listen on (default: %(default)s, this computer)",
        default="127.0.0.1",
    ),
    flag("--port N", "port to listen on, 0 for any", default=8000),
    flag(
        "--n-best N",
        f"outputs shown per text (default: {_SHOWN}, or the beam size if that "
        "is smaller)",
    ),
    flag("--max-characters N", "length of the longest text", default=2_000),
    SEARCH,
    needs_tensorflow=False,
)
def serve(options: argparse.Namespace) -> None:
    """Start a web page to try a model, and TensorFlow Serving's REST API."""
    kt.web.check_installed()  # before the model is loaded
    path = Path(options.runs[0]).resolve()
    is_saved_model = saved_model.is_export(path)
    # A version, such as models/en-de/1, has the model's name above it.
    named = path.parent if is_saved_model and path.name.isdecimal() else path
    name = re.sub(r"[^\w.-]", "-", named.name)
    with kt.web.listen(options.host, options.port) as listening:
        if is_saved_model:
            translator = _open_saved_model(options)
        else:
            translator = open_translator(options, n_best=_SHOWN)
        given = (translator, name, listening, options.max_characters)
        if is_saved_model or given_litert(options):
            kt.web.serve(*given)
        else:
            kt.web.serve(*given, lambda: _signatures(translator))


def _open_saved_model(
    options: argparse.Namespace,
) -> saved_model.SavedModelTranslator:
    refused = ["--" + x for x in given_values(options, BeamSearch)] + [
        f"--{name}"
        for name in ("checkpoint", "target_language", "dtype", "n_best")
        if getattr(options, name, None) is not None
    ]
    if refused or len(options.runs) > 1:
        raise InputError(
            "A SavedModel is served alone, as it was exported: with its "
            "checkpoint, language, type and search. Received: "
            + " ".join([*options.runs, *(x.replace("_", "-") for x in refused)])
        )
    import_tensorflow_quietly()
    return saved_model.SavedModelTranslator.open(options.runs[0])


def _signatures(translator: "kt.Translator") -> dict[str, Signature]:
    """Returns the signatures that an export of a run would have."""
    from keras_transformer.export.signatures import Signatures

    module = Signatures(translator)
    return graph_signatures(module.make(module.names))
