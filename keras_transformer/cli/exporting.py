"""The commands that export and serve."""

import dataclasses
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import keras_transformer as kt
from keras_transformer.cli import flags, terminal
from keras_transformer.export.writing import FORMATS
from keras_transformer.inference.opening import read_folder, read_run
from keras_transformer.litert.shortlist import Shortlist
from keras_transformer.runs.run_folder import INCLUDED
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import start_keras

# The page shows it for the included model.
_EN_DE = (
    "A small model for short everyday sentences. It may change names, numbers "
    "and technical terms, and leave out parts of long sentences: check them."
)


def export(
    runs: flags.RunsFlag,
    *,
    output: Path,
    format: Annotated[str, Parameter(choices=tuple(FORMATS))] = "saved-model",
    num_translations: flags.NumTranslations = None,
    signatures: list[str] | None = None,
    shortlist: list[str] | None = None,
    model: flags.ModelFlags = flags.ModelFlags(),
    search: flags.SearchFlags = None,
) -> None:
    """Write a SavedModel, or a model for another system.

    Args:
        output: New folder, for a SavedModel with a number as its name:
            exported/1. For Argos Translate a file: en-de.argosmodel.
        format: Format of the export; litert, ctranslate2 and argos also take
            --dtype int8.
        num_translations: Translations returned per text (default: 1).
        signatures: Signatures of a SavedModel, besides serving_default and
            score (default: all).
        shortlist: Corpus, or Marian lexical table (lex.*), to build a
            shortlist from: decoding considers only likely target tokens, which
            is faster. For litert and ctranslate2.
    """
    is_saved_model = format == "saved-model"
    if shortlist and format not in ("litert", "ctranslate2"):
        raise InputError("--shortlist needs --format litert or ctranslate2.")
    dtype = model.dtype or "float32"
    if not is_saved_model:  # converts the weights itself
        if signatures:
            raise InputError("--signatures needs --format saved-model.")
        model = dataclasses.replace(model, dtype=None)
    opened_runs = [read_run(run) for run in runs]
    start_keras()
    # Raises if a package is missing, before the model is opened.
    save = getattr(kt.export, "save" if is_saved_model else f"save_{format}")
    translator = model.open(opened_runs, search, num_translations)
    if is_saved_model:
        save(translator, output, signatures)
    elif shortlist:
        save(translator, output, dtype, _make_shortlist(translator, shortlist))
    else:
        save(translator, output, dtype)
    print(
        f"{output} is a model for {FORMATS[format].system}. "
        f"docs/{'serving' if is_saved_model else format}.md describes its use"
    )
    if is_saved_model and not output.name.isdecimal():
        terminal.report(
            "warning: TensorFlow Serving only loads models from folders that "
            f"are named by a version number, such as {output / '1'}"
        )


def _make_shortlist(translator: "kt.Translator", data: list[str]) -> Shortlist:
    tokenizer = translator.tokenizer
    if Path(data[0]).name.startswith("lex."):
        return kt.export.read_lexicon(tokenizer, data[0])
    source, target = translator.languages
    corpus = kt.train.open_corpus(data, source, target)
    return kt.export.make_shortlist(tokenizer, corpus.pairs("train"))


def serve(
    runs: flags.ModelsFlag,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: list[str] | None = None,
    num_translations: flags.NumTranslations = None,
    max_characters: flags.PositiveInteger = 100_000,
    model: flags.ModelFlags = flags.ModelFlags(),
    workers: flags.Workers = None,
    search: flags.SearchFlags = None,
) -> None:
    """Start a web page to try a model.

    Args:
        host: Address to listen on (default: this computer only).
        port: Port to listen on, 0 for any.
        allowed_hosts: Names and addresses under which browsers may open the
            page, besides localhost and the name of this computer.
        num_translations: Outputs shown per text (default: 1).
        max_characters: Length of the longest text.
    """
    folder = read_folder(runs[0]).path.resolve()
    note = _EN_DE if folder.parent == INCLUDED else ""
    name = folder.parent.name if folder.name.isdecimal() else folder.name
    with kt.web.listen(host, port) as server:
        translator = model.open(runs, search, num_translations, workers=workers)
        # Python would wait for threads that compute answers.
        terminal.end_on_signals()
        hosts = [host] + (allowed_hosts or [])
        kt.web.serve(translator, name, server, max_characters, hosts, note)
