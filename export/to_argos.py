"""Writes a `Translator` as a package for Argos Translate, and verifies it.

A package is a ZIP archive of one folder. Argos Translate splits a text into
sentences and these into pieces with `sentencepiece.model`, translates them
with `model/` on CTranslate2, and joins the pieces with the same SentencePiece
model, which returns pieces of another one as they are.
"""

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.export import argos_package, to_ctranslate2
from keras_transformer.export.dtypes import check_dtype
from keras_transformer.export.to_ctranslate2 import POSITIONS
from keras_transformer.export.verification import PROBES
from keras_transformer.export.writing import write_export
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write, check_new, write_json
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.vocabulary import load_processor


def save_argos(
    translator: Translator,
    path: str | os.PathLike,
    dtype: str = "float32",
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a package for Argos Translate and LibreTranslate.

    They translate text, HTML, documents and subtitles with it. It has the
    model for CTranslate2, the SentencePiece model that splits its sources,
    `metadata.json` for Argos Translate, `keras_transformer.json` with
    metadata, and a README. The package ctranslate2 is needed: the extra
    `[ctranslate2]`.

    Before the file is moved to `path`, the model is verified as by
    `save_ctranslate2`, with texts that the package's SentencePiece model has
    split; joining pieces must give the texts of the translator.

    Args:
        translator: What to save. It must know its languages, which are those
            of a run. Argos Translate has a search of its own.
        path: File to create, whose name ends in `.argosmodel`.
        dtype: As in `save_ctranslate2`.
        metadata: What to add to `keras_transformer.json`: values that JSON
            can hold.

    Returns:
        The file.

    Raises:
        InputError: If `path` exists or has another suffix, the languages are
            unknown, sources need a language token, learned positions are
            fewer than 1,024, or as in `save_ctranslate2`.
        RuntimeError: If the package computes something else.
    """
    with explain_missing_packages():
        import ctranslate2
    path = Path(path)
    source, target = translator.languages
    argos_package.check_package(path, source, target)
    check_new(path)
    check_dtype("argos", dtype)
    to_ctranslate2.check_supported(translator)
    _check_usable(translator)
    tokenizer = translator.tokenizer

    def write(folder: Path) -> dict[str, Any]:
        (folder / "model").mkdir()
        to_ctranslate2.write_model(translator, dtype, folder / "model")
        (folder / "sentencepiece.model").write_bytes(tokenizer.source.model)
        described = argos_package.package_metadata(source, target)
        write_json(folder / "metadata.json", described)
        return {}

    name = f"keras-transformer-{source}_{target}"
    values = dict(package=path.name, source=source, target=target)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_export(
            translator,
            Path(temporary, name),
            write,
            lambda folder: _verify(folder, translator, dtype),
            {"ctranslate2": ctranslate2.__version__, "dtype": dtype},
            metadata,
            ("argos.md", values),
        )
        with atomic_write(path) as file, zipfile.ZipFile(file, "w") as package:
            for part in sorted(folder.rglob("*")):
                package.write(part, part.relative_to(temporary))
    return path


def _check_usable(translator: Translator) -> None:
    """Raises InputError if a model needs what Argos Translate does not do."""
    config = translator.model.config
    is_learned = config.positional_encoding == "learned"
    problems = []
    tokenizer = translator.tokenizer
    if tokenizer.languages or tokenizer.language_token:
        problems.append(
            "a source begins with the language of its translation or a tag"
        )
    if is_learned and config.max_length < POSITIONS:
        problems.append(f"{config.max_length} learned positions")
    if problems:
        raise InputError(
            "Argos Translate passes sentences of up to "
            f"{POSITIONS:,} tokens to a model, and nothing else. Received: "
            f"{', '.join(problems)}. Use the format ctranslate2 instead."
        )


def _verify(folder: Path, translator: Translator, dtype: str) -> None:
    """Raises RuntimeError unless the package translates with the same model."""
    model = (folder / "sentencepiece.model").read_bytes()
    processor = load_processor(model)
    to_ctranslate2.check_model(
        folder / "model",
        translator,
        dtype,
        lambda texts: processor.encode(texts, out_type=str),
    )
    target = translator.tokenizer.target
    for ids in target.encode(PROBES):
        # In the place of what is unknown it writes words of the source.
        ids = [token for token in ids if token != target.unk_id]
        expected = target.decode(ids).strip()
        # As Argos Translate joins pieces, but that it replaces "_" too.
        joined = processor.decode_pieces(target.pieces(ids))
        joined = joined.replace("▁", " ").strip()
        if joined != expected:
            raise RuntimeError(
                "The SentencePiece model of the package must join pieces as "
                f"the tokenizer does. Expected: {expected!r}. Received: "
                f"{joined!r}"
            )
