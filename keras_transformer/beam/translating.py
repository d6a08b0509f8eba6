"""`Translate`: a transform of Apache Beam from texts to translations."""

import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, RunInference

from keras_transformer import litert
from keras_transformer.inference import saved_model
from keras_transformer.inference.texts import Translation
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import (
    available_cores,
    import_tensorflow_quietly,
)
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
    score: float | None  # log P / length penalty, likewise
    error: str | None  # why there is no translation; None if there is one


class Translate(beam.PTransform):
    """Translates texts, or records of key and text, with an exported model.

    Every text becomes one `Translated`, in no order. What cannot be translated
    has an `error`: text that is not valid Unicode or longer than the model
    reads, or on which the model fails. If it fails on all of several texts, or
    then also on one that it has translated, the pipeline fails, since the
    reason is not in the texts.

    Metrics, of the namespace `keras_transformer`: the counters `lines`,
    `characters` (of the sources), `failed` and `at_length_limit`, the
    distribution `lines_per_second` of batches, and those of Beam's
    `RunInference`.

    Args:
        model: As of `TranslationHandler`.
        batch_size: Texts that are sorted by length together and translated in
            batches of similar length; fewer make worse batches.
        threads: As of `TranslationHandler`.
        share_model: Likewise.

    Example:

    ```python
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        found = (
            pipeline
            | beam.Create([("a", "I am a student."), ("b", "A dog.")])
            | kt.beam.Translate("models/en-de/1")
        )
        found | beam.Map(lambda one: print(one.key, one.text, one.score))
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
        return texts | beam.Map(_as_record) | RunInference(self._handler)


class TranslationHandler(ModelHandler):
    """What Beam's `RunInference` needs to translate records of key and text.

    It holds the name of the model. A worker process opens the model once, and
    its threads share it.

    Args:
        model: A folder that `keras-transformer export` wrote: a SavedModel, or
            one for LiteRT. Every worker must find it there.
        threads: Threads that a process computes with: 1 where the runner starts
            a process per core. Default: the number of cores. TensorFlow takes
            them only if the process has not imported it yet.
        share_model: Whether the processes of a machine share one model, as on
            a machine with a single GPU.
        batch_size: As of `Translate`.

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
        path = Path(os.path.abspath(model))
        if not litert.is_export(path):
            # Workers that start later must not open a newer version.
            path = saved_model.newest_version(path)
        if path is None:
            raise InputError(
                "The model must be a SavedModel or a folder for LiteRT, which "
                f"`keras-transformer export` writes. Received: {model}"
            )
        self.path = str(path)
        self._threads = threads

    def load_model(self) -> "_Model":
        return _Model(self.path, self._threads or available_cores())

    def run_inference(
        self,
        batch: Sequence[tuple[Any, str | bytes]],
        model: "_Model",
        inference_args: dict[str, Any] | None = None,
    ) -> list[Translated]:
        start = time.monotonic()
        found = model.translate([source for _, source in batch])
        seconds = time.monotonic() - start
        records = []
        for (key, source), one in zip(batch, found, strict=True):
            if isinstance(one, str):
                records.append(Translated(key, source, None, None, one))
            else:
                record = Translated(
                    key, source, one.texts[0], one.scores[0], None
                )
                records.append(record)
        counts = {
            "lines": len(records),
            "characters": sum(_characters(one.source) for one in records),
            "failed": sum(one.error is not None for one in records),
            "at_length_limit": sum(
                not isinstance(one, str) and one.at_length_limit
                for one in found
            ),
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


class _Model:
    """An opened export; of several processes, it may be in another one."""

    def __init__(self, path: str, threads: int) -> None:
        self._threads = threads
        if litert.is_export(path):
            self._translator = litert.LiteRTTranslator.open(
                Path(path), threads=threads
            )
        else:
            import_tensorflow_quietly()
            self._translator = saved_model.SavedModelTranslator.open(path)

    def translate(self, sources: list[str | bytes]) -> list[Translation | str]:
        """Returns the translation of each text, or why it has none."""
        found: list = [None] * len(sources)
        texts = {}
        for row, source in enumerate(sources):
            try:
                texts[row] = read_text(source, "text")
            except InputError:
                found[row] = "The text must be valid UTF-8."
        translations = self._translate(list(texts.values()))
        for row, one in zip(texts, translations, strict=True):
            if isinstance(one, Translation) and one.source_truncated:
                one = "The text is longer than the model reads."
            found[row] = one
        return found

    def _translate(self, texts: list[str]) -> list[Translation | str]:
        found = self._attempt(texts)
        errors = [one for one in found if isinstance(one, Exception)]
        if len(errors) == len(texts) > 1:
            raise errors[0]
        if 0 < len(errors) < len(texts):  # is it the texts, or the device?
            works = (isinstance(one, Translation) for one in found)
            text = next(itertools.compress(texts, works))
            self._translator.translate([text], workers=1)
        return [
            f"{type(one).__name__}: {one}"
            if isinstance(one, Exception)
            else one
            for one in found
        ]

    def _attempt(self, texts: list[str]) -> list[Translation | Exception]:
        """Translates texts, and halves of them where the model fails."""
        try:
            return self._translator.translate(texts, workers=self._threads)
        except Exception as error:
            if len(texts) == 1:
                return [error]
        middle = len(texts) // 2
        return self._attempt(texts[:middle]) + self._attempt(texts[middle:])


def _characters(source: str | bytes) -> int:
    if isinstance(source, bytes):
        source = source.decode("utf-8", "replace")
    return len(source)


def _as_record(given: Any) -> tuple:
    return (None, given) if isinstance(given, str | bytes) else tuple(given)
