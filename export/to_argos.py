"""Writes a `Translator` as a package for Argos Translate, and verifies it.

A package is a ZIP archive of one folder. Argos Translate splits a text into
sentences and these into pieces with `sentencepiece.model`, translates them
with `model/` on CTranslate2, and joins the pieces with the same SentencePiece
model, which returns pieces of another one as they are.
"""

import datetime
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_transformer.export import to_ctranslate2
from keras_transformer.export.verification import ScoreTexts
from keras_transformer.export.writing import check_problems, write_export
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_new, write_json
from keras_transformer.text.vocabulary import load_processor

_CODE = re.compile("[A-Za-z]{2,3}([_-][A-Za-z0-9]+)*")  # such as en, pt_BR


def save_argos(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a package for Argos Translate and LibreTranslate.

    They translate text, HTML, documents and subtitles with it. The model is
    that of `save_ctranslate2`, which has the other arguments and errors too.

    Args:
        translator: What to save. It must know its languages, which are those
            of a run. Argos Translate has a search of its own.
        path: File to create. Its name ends in `.argosmodel`.
        dtype: As in `save_ctranslate2`.
        metadata: As in `save_ctranslate2`.

    Returns:
        The file.

    Raises:
        InputError: If `path` exists or has a different suffix, the languages
            are unknown, sources need a language token, or learned positions
            are fewer than 1,024.
    """
    path = Path(path)
    source, target = translator.languages
    if path.suffix != ".argosmodel":
        raise InputError(
            "A package for Argos Translate is a file whose name ends in "
            f".argosmodel. Received: {path}"
        )
    if not all(code and _CODE.fullmatch(code) for code in (source, target)):
        raise InputError(
            "Argos Translate chooses a model by two language codes, such as en "
            f"and de. Received: source={source!r}, target={target!r}. Train or "
            "import the model with --source and --target."
        )
    check_new(path)
    check_problems("argos", _problems(translator))

    def write(folder: Path) -> dict[str, Any]:
        (folder / "model").mkdir()
        described = to_ctranslate2.write_model(
            translator, dtype, folder / "model"
        )
        model = translator.tokenizer.source.model
        (folder / "sentencepiece.model").write_bytes(model)
        package = {
            # No version of the packages that Argos Translate downloads is as
            # high: they never replace this one.
            "package_version": f"{datetime.date.today():%Y.%m.%d}",
            "argos_version": "1.9.0",  # the oldest one that the format is for
            "from_code": source,
            "from_name": source,
            "to_code": target,
            "to_name": target,
            "type": "translate",
        }
        write_json(folder / "metadata.json", package)
        return described

    def open_written(folder: Path) -> ScoreTexts:
        model = (folder / "sentencepiece.model").read_bytes()
        processor = load_processor(model)
        return to_ctranslate2.open_written(
            folder / "model",
            translator,
            lambda texts: processor.encode(texts, out_type=str),
        )

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_export(
            translator,
            Path(temporary, f"keras-transformer-{source}_{target}"),
            "argos",
            dtype,
            write,
            open_written,
            metadata,
        )
        with atomic_write(path) as file, zipfile.ZipFile(file, "w") as package:
            for part in sorted(folder.rglob("*")):
                package.write(part, part.relative_to(temporary))
    return path


def _problems(translator: Translator) -> Iterator[str]:
    """Yields what Argos Translate, or CTranslate2, lacks for a model."""
    yield from to_ctranslate2.problems(translator)
    tokenizer, config = translator.tokenizer, translator.model.config
    if tokenizer.languages or tokenizer.language_token:
        yield "sources that begin with a language or a tag"
    positions, needed = config.max_length, to_ctranslate2.POSITIONS
    if config.positional_encoding == "learned" and positions < needed:
        yield f"{positions} learned positions, fewer than {needed}"
