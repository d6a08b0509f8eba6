"""Exports a `Translator` to a package (a ZIP archive) for Argos Translate."""

import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from keras_transformer.export import to_ctranslate2, writing
from keras_transformer.inference.translator import Translator
from keras_transformer.support import files


def save_argos(
    translator: Translator, path: str | os.PathLike, dtype: str = "float32"
) -> Path:
    """Writes a package for Argos Translate and LibreTranslate.

    Args:
        translator: The translator to export, of a run with known languages.
        path: File to create, with the suffix `.argosmodel`.
        dtype: As in `save_ctranslate2`.

    Returns:
        The file.

    Raises:
        InputError: As in `save_ctranslate2`; also if the languages are
            unknown, sources need a language token, or there are fewer than
            1,024 learned positions.
        RuntimeError: If CTranslate2 gives different results.
    """
    files.check_output(path, [".argosmodel"])
    files.check_free(path)
    problems = _find_problems(translator)
    writing.check_model(translator, "argos", dtype, problems)
    source, target = translator.languages
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, f"keras-transformer-{source}_{target}")
        folder.mkdir()
        pieces = folder / "sentencepiece.model"
        pieces.write_bytes(translator.tokenizer.source.model)
        package = {
            # Exceeds the versions of published packages.
            "package_version": f"{date.today():%Y.%m.%d}",
            "argos_version": "1.9.0",  # the first with this format
            "from_code": source,
            "from_name": source,
            "to_code": target,
            "to_name": target,
            "type": "translate",
        }
        files.write_json(folder / "metadata.json", package)
        model = folder / "model"
        metadata = to_ctranslate2.write_model(translator, dtype, model)
        writing.write_metadata(folder, translator, metadata)
        writing.write_readme(folder, "argos")
        processor = SentencePieceProcessor(model_file=str(pieces), out_type=str)
        split = processor.encode
        written = to_ctranslate2.open_written(translator, split, model)
        writing.check_results(written, translator, "argos", dtype)
        with files.atomic_write(path) as out, zipfile.ZipFile(out, "w") as file:
            for part in sorted(folder.rglob("*")):
                file.write(part, part.relative_to(temporary))
    return Path(path)


def _find_problems(translator: Translator) -> Iterator[str]:
    """Yields the properties that Argos Translate does not support."""
    yield from to_ctranslate2.find_problems(translator)
    source, target = translator.languages
    if not all(re.fullmatch(r"[\w-]+", x or "") for x in (source, target)):
        yield f"source={source}, target={target}"
    if translator.tokenizer.languages or translator.tokenizer.default_tags:
        yield "sources with a language token or tag"
    config = translator.model.config
    is_learned = config.positional_encoding == "learned"
    if is_learned and config.max_length < to_ctranslate2.POSITIONS:
        yield f"{config.max_length} learned positions"
