"""One way to write every format: write, open what was written, compare."""

import dataclasses
import itertools
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
    """A format of exports."""

    system: str  # that the model is for
    # How far the log-probability of a text may be from the translator's, per
    # token, by the dtype that weights are stored in.
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
_README = """# {0}

A model for {0}, exported by keras-transformer {1}. The file `docs/{2}.md` in
the source code of keras-transformer describes how to use it.
`keras_transformer.json` contains the settings of its search, and what it was
made from.
"""


def write_export(
    translator: Translator,
    path: str | os.PathLike,
    format: str,
    dtype: str,
    write: Callable[[Path], Mapping[str, Any]],
    open_written: Callable[[Path], Any],
    metadata: Mapping[str, Any] | None,
) -> Path:
    """Writes a translator into a new folder, if it is the same model there.

    `write` writes the files of a format into a folder, and returns metadata,
    to which those of the caller are added. `open_written` opens the folder,
    and returns an object with the methods `score` and `translate` of a
    `Translator`; without `translate` if the format has a search of its own.
    """
    check_values(one_of(*FORMATS[format].tolerances), dtype=dtype)
    if not translator.task.targets_are_text:
        raise InputError(
            "A model to export must translate: parsers run from run folders. "
            f"Received: a model for {translator.task.name}"
        )
    translator.tokenizer.check_languages()
    with atomic_folder(path) as folder:
        described = {
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
        described = dict(**described, **(metadata or {}))
        file = folder / METADATA_FILE
        if format == "saved-model":
            file = folder / "assets.extra" / METADATA_FILE
            file.parent.mkdir(exist_ok=True)
        else:
            # Which a format may have begun.
            with open(folder / "README.md", "a", encoding="utf-8") as readme:
                system = FORMATS[format].system
                readme.write(_README.format(system, __version__, format))
        write_json(file, described)
        _check_results(open_written(folder), translator, format, dtype)
    return Path(path)


def single_model_problems(translator: Translator) -> Iterator[str]:
    """Yields what a system lacks that runs one model of the paper."""
    config = translator.model.config
    if len(translator.models) > 1:
        yield f"{len(translator.models)} models, an ensemble"
    if config.attention_window is not None:
        yield f"attention_window={config.attention_window}"


def check_problems(format: str, problems: Iterable[str]) -> None:
    """Raises InputError if a format cannot express a model."""
    received = ", ".join(problems)
    if received:
        raise InputError(
            f"{FORMATS[format].system} cannot express this model. Received: "
            f"{received}. Export a SavedModel instead."
        )


def _check_results(
    written: Any, translator: Translator, format: str, dtype: str
) -> None:
    """Raises RuntimeError unless a model gives the translator's results.

    Every probe is scored as the translation of every probe: however unlikely
    it is, it must be as likely as before. Translations are compared where both
    models run the same beam search in float32: samples are drawn, and rounded
    weights may choose other tokens.
    """
    _, tolerances, has_own_search = FORMATS[format]
    dtypes = {dtype, translator.model.compute_dtype}
    tolerance = max(tolerances[x] for x in dtypes)
    texts = [_shortened(probe, translator) for probe in PROBES]
    texts = [text for text in texts if text]
    pairs = list(itertools.product(texts, repeat=2))
    sides = [x for x, _ in pairs], [y for _, y in pairs]
    scores = translator.score(*sides), written.score(*sides)
    for (source, target), ours, theirs in zip(pairs, *scores, strict=True):
        difference = abs(theirs.log_prob - ours.log_prob) / ours.num_tokens
        if not difference <= tolerance:
            expected = f"{ours.log_prob:.7g} as log P of {target!r}"
            raise _different(source, expected, f"{theirs.log_prob:.7g}")
    is_beam_search = isinstance(translator.search, BeamSearch)
    if dtypes == {"float32"} and is_beam_search and not has_own_search:
        found = translator.translate(texts), written.translate(texts)
        for source, ours, theirs in zip(texts, *found, strict=True):
            if theirs.texts[0] != ours.texts[0]:
                raise _different(source, ours.texts[0], theirs.texts[0])


def _different(source: str, expected: str, received: str) -> RuntimeError:
    return RuntimeError(
        "The exported model must compute what the translator computes for "
        f"{source!r}. Expected: {expected}. Received: {received}. The usual "
        "reasons are layers that were replaced or quantized or have LoRA, and "
        "weights that are not finite."
    )


def _shortened(text: str, translator: Translator) -> str:
    """Returns a text that can be scored: it is not cut then."""
    sides = translator.tokenizer.source, translator.tokenizer.target
    while any(len(x.encode([text])[0]) >= translator.max_length for x in sides):
        text = text[: len(text) // 2]
    return text
