"""`Translate`: a transform of Apache Beam from texts to translations."""

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, RunInference

from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.opening import open_translator, read_export
from keras_transformer.inference.records import Translation
from keras_transformer.support.errors import InputError
from keras_transformer.text.text_arguments import read_text

METRICS = "keras_transformer"
_THREADS = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)


class Translated(NamedTuple):
    """The translation of one text, or why there is none."""

    key: Any  # of the record; None for a text without one
    source: str | bytes  # as it was given
    text: str | None  # the best translation; None if there is an error
    score: float | None  # log P / length penalty; None if there is an error
    error: str | None  # why there is no translation; None if there is one


class Translate(beam.PTransform):
    """Translates texts, or records of key and text, with an exported model.

    Every text becomes one `Translated`, in no order. A text has an `error`
    instead of a translation if it is not valid Unicode, is longer than the
    model reads, or makes the model fail. If the model fails on all texts of a
    batch, or then also on one that it has translated, the pipeline fails, since
    the reason is not in the texts.

    Metrics, of the namespace `keras_transformer`: the counters `lines`,
    `characters` (of the sources), `failed` and `at_length_limit`, the
    distribution `lines_per_second` of batches, and those of Beam's
    `RunInference`.

    Args:
        model: As in `TranslationHandler`.
        batch_size: Texts that are sorted by length together and translated in
            batches of similar length; fewer make worse batches.
        threads: As in `TranslationHandler`.
        share_model: As in `TranslationHandler`.

    Example:

    ```python
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        translated = (
            pipeline
            | beam.Create([("a", "I am a student."), ("b", "A dog.")])
            | kt.beam.Translate("models/en-de/1")
        )
        translated | beam.Map(lambda x: print(x.key, x.text, x.score))
    ```
    """

    def __init__(
        self,
        model: str | os.PathLike,
        batch_size: int = 1024,
        threads: int | None = None,
        share_model: bool = False,
    ) -> None:
        super().__init__()
        self._handler = TranslationHandler(
            model, threads, share_model, batch_size
        )

    def expand(self, texts: beam.PCollection) -> beam.PCollection:
        return texts | beam.Map(_with_key) | RunInference(self._handler)


def _with_key(element: Any) -> tuple[Any, str | bytes]:
    return (None, element) if isinstance(element, str | bytes) else element


class TranslationHandler(ModelHandler):
    """Lets Beam's `RunInference` translate records of key and text.

    A worker process opens the model once, and its threads share it.

    Args:
        model: A folder that `keras-transformer export` wrote: a SavedModel, or
            one for LiteRT. Every worker must find it there.
        threads: Threads that a process computes with: 1 where the runner starts
            a process per core. Default: the number of cores. TensorFlow takes
            them only if the process has not imported it yet.
        share_model: Whether the processes of a machine share one model, as on
            a machine with a single GPU.
        batch_size: As in `Translate`.

    Raises:
        InputError: If the folder is not such an export.
    """

    def __init__(
        self,
        model: str | os.PathLike,
        threads: int | None = None,
        share_model: bool = False,
        batch_size: int = 1024,
    ) -> None:
        super().__init__(
            min_batch_size=batch_size,
            max_batch_size=batch_size,
            large_model=share_model,
            env_vars=dict.fromkeys(_THREADS, str(threads)) if threads else {},
        )
        # Workers that start later must not open a newer version.
        self.path = str(read_export(os.path.abspath(model)).path)
        self._threads = threads

    def load_model(self) -> BaseTranslator:
        return open_translator(self.path, threads=self._threads)

    def run_inference(
        self,
        batch: Sequence[tuple[Any, str | bytes]],
        model: BaseTranslator,
        inference_args: dict[str, Any] | None = None,
    ) -> list[Translated]:
        start = time.monotonic()
        sources = [source for _, source in batch]
        results = translate_or_explain(
            model, sources, model.recommended_workers
        )
        seconds = time.monotonic() - start
        records, translations = [], []
        for (key, source), result in zip(batch, results, strict=True):
            if isinstance(result, str):
                records.append(Translated(key, source, None, None, result))
            else:
                translations.append(result)
                best = result.texts[0], result.scores[0]
                records.append(Translated(key, source, *best, None))
        counts = {
            "lines": len(records),
            "characters": sum(map(_characters, sources)),
            "failed": len(records) - len(translations),
            "at_length_limit": sum(x.at_length_limit for x in translations),
        }
        for name, count in counts.items():
            Metrics.counter(METRICS, name).inc(count)
        rate = Metrics.distribution(METRICS, "lines_per_second")
        rate.update(round(len(records) / seconds))
        return records

    def get_num_bytes(self, batch: Sequence) -> int:
        # Beam would pickle the batch to learn it.
        return sum(len(source) for _, source in batch)

    def get_metrics_namespace(self) -> str:
        return METRICS


def _characters(source: str | bytes) -> int:
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace")
    return len(source)


def translate_or_explain(
    translator: BaseTranslator, sources: Sequence[str | bytes], workers: int
) -> list[Translation | str]:
    """Returns the translation of each source, or why it has none.

    Raises the translator's error if it fails on all of two or more texts, or
    then also on a text that it has translated.
    """
    results: list = ["The text must be valid UTF-8."] * len(sources)
    texts = {}
    for row, source in enumerate(sources):
        try:
            texts[row] = read_text(source, "text")
        except InputError:
            continue
    attempts = _translate_halves(translator, list(texts.values()), workers)
    translated = [isinstance(x, Translation) for x in attempts]
    if not any(translated) and len(attempts) > 1:
        raise attempts[0]
    if not all(translated) and any(translated):
        # Is it the texts, or the device?
        text = next(itertools.compress(texts.values(), translated))
        translator.translate([text], workers=1)
    for row, attempt in zip(texts, attempts, strict=True):
        if isinstance(attempt, Exception):
            attempt = f"{type(attempt).__name__}: {attempt}"
        elif attempt.source_truncated:
            attempt = "The text is longer than the model reads."
        results[row] = attempt
    return results


def _translate_halves(
    translator: BaseTranslator, texts: list[str], workers: int
) -> list[Translation | Exception]:
    """Translates texts, and halves of them where the translator fails."""
    try:
        return translator.translate(texts, workers=workers)
    except Exception as error:
        if len(texts) == 1:
            return [error]
    middle = len(texts) // 2
    return [
        *_translate_halves(translator, texts[:middle], workers),
        *_translate_halves(translator, texts[middle:], workers),
    ]
