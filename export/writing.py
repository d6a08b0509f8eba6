"""Writes exports of every format: write, open the result, compare."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer import __version__
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.exports import METADATA_FILE
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import atomic_folder, write_json


class Format(NamedTuple):
    """An export format."""

    system: str  # the runtime
    # The largest difference of log P per token, by dtype of stored weights.
    tolerances: Mapping[str, float]
    has_own_search: bool = False


_FLOATS = dict(float32=1e-3, float16=0.02, bfloat16=0.2)
_CTRANSLATE2 = _FLOATS | dict(int16=0.05, int8=0.3)
FORMATS = {
    "saved-model": Format("TensorFlow", _FLOATS | dict(float32=1e-4)),
    "litert": Format("LiteRT", dict(float32=1e-4, float16=0.02, int8=0.5)),
    "ctranslate2": Format("CTranslate2", _CTRANSLATE2, has_own_search=True),
    "argos": Format("Argos Translate", _CTRANSLATE2, has_own_search=True),
    "huggingface": Format("Hugging Face", _FLOATS),
}
PROBES = (
    "I am a student.",
    "Where is the station, and when does the next train leave?",
    "It was 7:45, too late!",
)
_README = """# {0.system}

A model for {0.system}, exported by keras-transformer {1}. The file
`docs/{2}.md` in the source code of keras-transformer describes how to use it.
`keras_transformer.json` contains its search settings and its origin.
"""


def write_export(
    translator: Translator,
    path: str | os.PathLike,
    format: str,
    dtype: str | None,
    write: Callable[[Path], Mapping[str, Any]],
    open_written: Callable[[Path], Any],
    problems: Iterable[str] = (),
) -> Path:
    """Writes a translator into a new folder, and verifies the result.

    `dtype` is the dtype of the stored weights; None: the model's.
    `write` writes the files and returns metadata.
    `open_written` opens the folder, and returns an object with the methods
    `score` and, unless the format has its own search, `translate`.
    `problems` are the properties that the format does not support.
    """
    if not translator.models:
        raise InputError(
            "Only runs can be exported. Received: an export. Open the run that "
            "it was made from."
        )
    dtype = dtype or translator.model.compute_dtype
    received = ", ".join(problems)
    if received:
        raise InputError(
            f"{FORMATS[format].system} does not support this model. Received: "
            f"{received}. Export a SavedModel instead."
        )
    check_values(one_of(*FORMATS[format].tolerances), dtype=dtype)
    if not translator.task.targets_are_text:
        raise InputError(
            "Only translation models can be exported. Received: a model for "
            f"{translator.task.name}. Use its run folder instead."
        )
    translator.tokenizer.check_languages()
    with atomic_folder(path) as folder:
        metadata = {
            "keras_transformer": __version__,
            "tokenizer_sha256": translator.tokenizer.digest,
            "models": len(translator.models),
            "dtype": translator.dtype,
            "search": dataclasses.asdict(translator.search),
            "num_translations": translator.num_translations,
            "max_length": translator.max_length,
            "runs": [run.metadata(x) for run, x in translator.checkpoints],
            **write(folder),
        }
        file = folder / METADATA_FILE
        if format == "saved-model":
            file = folder / "assets.extra" / METADATA_FILE
            file.parent.mkdir(exist_ok=True)
        else:
            # Appends, since a format may begin the README.
            with open(folder / "README.md", "a", encoding="utf-8") as text:
                text.write(_README.format(FORMATS[format], __version__, format))
        write_json(file, metadata)
        _check_results(open_written(folder), translator, format, dtype)
    return Path(path)


def single_model_problems(translator: Translator) -> Iterator[str]:
    """Yields the properties that only a SavedModel and LiteRT support."""
    config = translator.model.config
    if len(translator.models) > 1:
        yield f"{len(translator.models)} models, an ensemble"
    if config.attention_window is not None:
        yield f"attention_window={config.attention_window}"


def _check_results(
    written: Any, translator: Translator, format: str, dtype: str
) -> None:
    """Raises RuntimeError unless an export gives the translator's results."""
    dtypes = {dtype, translator.model.compute_dtype}
    tolerance = max(FORMATS[format].tolerances[x] for x in dtypes)
    # A character of these texts makes at most one token.
    texts = [text[: (translator.max_length - 1) // 2] for text in PROBES]
    sources = [source for source in texts for _ in texts]
    targets = texts * len(texts)
    scores = translator.score(sources, targets)
    new_scores = written.score(sources, targets)
    results = zip(sources, targets, scores, new_scores, strict=True)
    differences = [
        (source, f"log P = {x.log_prob:.7g}", f"{y.log_prob:.7g} for {target}")
        for source, target, x, y in results
        if not abs(y.log_prob - x.log_prob) / x.num_tokens <= tolerance
    ]
    # Samples are random, and rounded weights may choose different tokens.
    is_exact = dtypes == {"float32"} and not FORMATS[format].has_own_search
    if is_exact and isinstance(translator.search, BeamSearch):
        outputs = [x.texts[0] for x in translator.translate(texts)]
        new_outputs = [x.texts[0] for x in written.translate(texts)]
        translations = zip(texts, outputs, new_outputs, strict=True)
        differences += [x for x in translations if x[1] != x[2]]
    if differences:
        source, expected, received = differences[0]
        raise RuntimeError(
            f"The exported model gives a different result for {source!r}. "
            f"Expected: {expected}. Received: {received}. The usual reasons "
            "are replaced or quantized layers, LoRA, and weights that are not "
            "finite."
        )
