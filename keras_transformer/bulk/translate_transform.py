"""`Translate`: a transform of Apache Beam from texts to translations."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import ModelHandler, RunInference

from keras_transformer.inference.opening import open_translator, read_folder
from keras_transformer.inference.records import Translation
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError
from keras_transformer.text.text_arguments import read_text

METRICS = "keras_transformer"
_THREADS = """
    OMP_NUM_THREADS TF_NUM_INTEROP_THREADS TF_NUM_INTRAOP_THREADS
""".split()


class Translated(NamedTuple):
    """The translation of one text."""

    key: Any  # of the record; None for a text without one
    source: str | bytes  # as it was given
    text: str  # the best translation
    score: float  # log P / length penalty


class Failed(NamedTuple):
    """A text without a translation."""

    key: Any  # of the record; None for a text without one
    source: str | bytes  # as it was given
    error: str  # why there is no translation


class Translate(beam.PTransform):
    """Translates texts, or records of key and text, with an exported model.

    It has two unordered outputs: `translated`, with a `Translated` for each
    translation, and `failed`, with a `Failed` for each text that is not valid
    UTF-8, is longer than the model reads, or makes the model raise an error. If
    the model fails on all texts of a batch, the pipeline fails.

    Metrics, in the namespace `keras_transformer`: the counter `failed`, and
    the metrics of Beam's `RunInference`.

    Args:
        model: The folder of a SavedModel or an export for LiteRT, which every
            worker can read. A process opens it once, and its threads share it.
        batch_size: Texts that are sorted by length together and translated in
            batches of similar length; fewer make worse batches.
        threads: Threads that a process computes with: 1 where the runner starts
            a process per core. Default: the number of cores. TensorFlow takes
            them only if the process has not imported it yet.
        share_model: Whether the processes of a machine share one model, as on
            a machine with a single GPU.

    Raises:
        InputError: If the folder is not an export of these kinds.

    Example:

    ```python
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        translated, failed = (
            pipeline
            | beam.Create([("a", "I am a student."), ("b", "A dog.")])
            | kt.bulk.Translate("models/en-de/1")
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
        self._handler = _Handler(
            # Workers that start later must not open a newer version.
            path=str(read_folder(model).path.absolute()),
            threads=threads,
            min_batch_size=batch_size,
            max_batch_size=batch_size,
            large_model=share_model,
            env_vars=dict.fromkeys(_THREADS, str(threads)) if threads else {},
        )

    def expand(self, texts: beam.PCollection):
        records = texts | beam.Map(_with_key) | RunInference(self._handler)
        outputs = beam.FlatMap(_tag).with_outputs("failed", main="translated")
        return records | "Split" >> outputs


def _with_key(element: Any) -> tuple[Any, str | bytes]:
    return (None, element) if isinstance(element, str | bytes) else element


def _tag(record: Translated | Failed) -> Iterator[Any]:
    is_failed = isinstance(record, Failed)
    yield beam.pvalue.TaggedOutput("failed", record) if is_failed else record


class _Handler(ModelHandler):
    """Lets `RunInference` translate records of key and text."""

    def __init__(self, path: str, threads: int | None, **options: Any) -> None:
        super().__init__(**options)
        self._path = path
        self._threads = threads

    def load_model(self) -> Translator:
        return open_translator(self._path, threads=self._threads)

    def run_inference(
        self,
        batch: Sequence[tuple[Any, str | bytes]],
        model: Translator,
        inference_args: dict | None = None,
    ) -> list[Translated | Failed]:
        records: list[Translated | Failed] = []
        texts = []
        readable = []
        for key, source in batch:
            try:
                texts.append(read_text(source, "text"))
                readable.append((key, source))
            except InputError:
                error = "The text must be valid UTF-8."
                records.append(Failed(key, source, error))
        results = _translate_halves(model, texts)
        if len(results) > 1 and all(isinstance(x, Exception) for x in results):
            raise results[0]
        for (key, source), result in zip(readable, results, strict=True):
            if isinstance(result, Exception):
                error = f"{type(result).__name__}: {result}"
                records.append(Failed(key, source, error))
            elif result.source_truncated:
                error = "The text is longer than the model reads."
                records.append(Failed(key, source, error))
            else:
                text = result.texts[0]
                records.append(Translated(key, source, text, result.scores[0]))
        failed = sum(isinstance(record, Failed) for record in records)
        Metrics.counter(METRICS, "failed").inc(failed)
        return records

    def get_metrics_namespace(self) -> str:
        return METRICS


def _translate_halves(
    translator: Translator, texts: list[str]
) -> list[Translation | Exception]:
    """Translates texts, and halves of them where the translator fails."""
    workers = translator.recommended_workers
    try:
        return translator.translate(texts, workers=workers)
    except Exception as error:
        if len(texts) == 1:
            return [error]
    middle = len(texts) // 2
    first = _translate_halves(translator, texts[:middle])
    return first + _translate_halves(translator, texts[middle:])
