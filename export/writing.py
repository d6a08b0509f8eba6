"""What all formats share: checks, metadata, and the comparison."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer import __version__
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.exports import METADATA_FILE
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import write_json


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


def check_model(
    translator: Translator,
    format: str,
    dtype: str | None = None,
    problems: Iterable[str] = (),
) -> None:
    """Raises InputError unless a translator can be exported to a format.

    `dtype` is the dtype of the stored weights; None: the model's. `problems`
    are the properties of the model that the format does not support.
    """
    if not translator.models:
        raise InputError(
            "Only runs can be exported. Received: an export. Open the run that "
            "it was made from."
        )
    received = ", ".join(problems)
    if received:
        raise InputError(
            f"{FORMATS[format].system} does not support this model. Received: "
            f"{received}. Export a SavedModel instead."
        )
    dtype = dtype or translator.model.compute_dtype
    check_values(one_of(*FORMATS[format].tolerances), dtype=dtype)
    if not translator.task.targets_are_text:
        raise InputError(
            "Only translation models can be exported. Received: a model for "
            f"{translator.task.name}. Use its run folder instead."
        )
    translator.tokenizer.check_languages()


def single_model_problems(translator: Translator) -> Iterator[str]:
    """Yields the properties that only a SavedModel and LiteRT support."""
    config = translator.model.config
    if len(translator.models) > 1:
        yield f"{len(translator.models)} models, an ensemble"
    if config.attention_window is not None:
        yield f"attention_window={config.attention_window}"
    for name, layer_class in config.custom_sublayers.items():
        yield f"{name}={layer_class}"


def write_metadata(
    folder: Path, translator: Translator, values: Mapping[str, Any]
) -> None:
    """Writes what an export records, with the values of its format."""
    metadata = {
        "keras_transformer": __version__,
        "tokenizer_sha256": translator.tokenizer.digest,
        "models": len(translator.models),
        "dtype": translator.dtype,
        "search": dataclasses.asdict(translator.search),
        "num_translations": translator.num_translations,
        "max_length": translator.max_length,
        "runs": [run.metadata(x) for run, x in translator.checkpoints],
        **values,
    }
    write_json(folder / METADATA_FILE, metadata)


def write_readme(folder: Path, format: str, start: str = "") -> None:
    """Writes README.md, which begins with a format's own text."""
    text = _README.format(FORMATS[format], __version__, format)
    (folder / "README.md").write_text(start + text, "utf-8")


def check_results(
    written: Any, translator: Translator, format: str, dtype: str | None = None
) -> None:
    """Raises RuntimeError unless an export gives the translator's results.

    `written` is the opened export: it has the method `score` and, unless the
    format has its own search, `translate`.
    """
    model_dtype = translator.model.compute_dtype
    dtypes = {dtype or model_dtype, model_dtype}
    tolerance = max(FORMATS[format].tolerances[x] for x in dtypes)
    # A character makes at most one token; there are also tags and ends.
    texts = [text[: max(translator.max_length - 4, 0)] for text in PROBES]
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
