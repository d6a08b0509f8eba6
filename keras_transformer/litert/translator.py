"""`LiteRTTranslator`: what `Translator` does, with a LiteRT model.

It needs NumPy, SentencePiece and ai-edge-litert.
"""

import contextlib
import json
import math
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding.search import BeamSearch, Search
from keras_transformer.inference.texts import (
    Score,
    Translation,
    batches_by_length,
    check_lengths,
    read_pairs,
    read_sources,
)
from keras_transformer.litert.decoder import Model
from keras_transformer.litert.search import (
    Hypothesis,
    SpecialIds,
    beam_search,
    length_penalty,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks.translation import TranslationTask
from keras_transformer.text import Vocabulary, open_vocabulary

MODEL_FILE = "model.tflite"
METADATA_FILE = "keras_transformer.json"
FORMAT = 1


def is_litert(path: str | os.PathLike) -> bool:
    """Returns whether a folder has a model that was exported for LiteRT."""
    return (Path(path) / MODEL_FILE).is_file()


class LiteRTTranslator:
    """Translates text with a folder that `export --format litert` wrote.

    It does what `Translator` does with a run, without TensorFlow and Keras.
    Several threads may use one translator.

    Args:
        path: The folder.
        metadata: Its `keras_transformer.json`.
        tokenizer: Its vocabulary.
        search: The settings of the search.
        num_translations: n, at most the beam size.
        threads: Threads of an operation if there is one worker.

    Example:

    ```python
    translator = LiteRTTranslator.open("exported")
    translator("I am a student.")  # "Ich bin Student."
    translator.translate(["A dog.", "A cat."], workers=2)
    ```
    """

    def __init__(
        self,
        path: Path,
        metadata: dict[str, Any],
        tokenizer: Vocabulary,
        search: BeamSearch,
        num_translations: int,
        threads: int,
    ) -> None:
        self.path = path
        self.metadata = metadata
        self.tokenizer = tokenizer
        self.search = search
        self.num_translations = num_translations
        self.task = TranslationTask()
        self.max_length: int = metadata["max_length"]
        self.dtype: str = metadata["dtype"]
        banned = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id}
        self._ids = SpecialIds(
            tokenizer.pad_id,
            tokenizer.bos_id,
            tokenizer.eos_id,
            tuple(sorted(banned - {tokenizer.eos_id})),
        )
        self._threads = threads
        self._lock = threading.Lock()
        # Models that nothing computes with now, by their number of threads.
        self._idle: dict[int, queue.SimpleQueue] = {}
        self._count: dict[int, int] = {}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike,
        search: Search | None = None,
        num_translations: int = 1,
        threads: int | None = None,
    ) -> "LiteRTTranslator":
        """Returns the translator of a folder.

        Args:
            path: The folder that `keras-transformer export --format litert`
                wrote.
            search: A `BeamSearch` with a beam size up to the one that the
                model was exported for. Default: that of the export.
            num_translations: n, at most the beam size.
            threads: Threads of an operation if there is one worker. Default:
                the number of cores.

        Raises:
            InputError: If the folder lacks a file, a file is damaged or of
                another version, or the search is not possible.
        """
        path = Path(path)
        metadata = _read_metadata(path)
        tokenizer = open_vocabulary(path)
        if tokenizer.digest != metadata["tokenizer_sha256"]:
            raise InputError(
                f"{', '.join(tokenizer.files())} in {path} must be the "
                "tokenizer that the model was exported with, of SHA-256 "
                f"{metadata['tokenizer_sha256'][:12]}. Received: "
                f"{tokenizer.digest[:12]}. Export the model again."
            )
        if search is None:
            search = BeamSearch(**metadata["search"])
        largest = metadata["largest_beam_size"]
        if not isinstance(search, BeamSearch) or search.beam_size > largest:
            raise InputError(
                f"{path} was exported for beam search with a beam size of at "
                f"most {largest}. Received: {search}. A larger one needs "
                "another export, with its --beam-size; sampling needs a run or "
                "a SavedModel."
            )
        search = search.returning(num_translations)
        if threads is None:
            threads = available_cores()
        check_values(POSITIVE_INTEGER, threads=threads)
        translator = cls(
            path, metadata, tokenizer, search, num_translations, threads
        )
        with translator._model(threads):
            pass  # the file is opened now: what is wrong with it is found
        return translator

    def __call__(self, texts: Any) -> str | list[str]:
        """Returns the best translation of one text, or a list of several."""
        translations = self.translate(texts)
        if isinstance(translations, Translation):
            return translations.texts[0]
        return [translation.texts[0] for translation in translations]

    def translate(
        self,
        texts: Any,
        batch_tokens: int = 2048,
        workers: int = 1,
        prefixes: Any = None,
    ) -> Translation | list[Translation]:
        """Translates texts, in batches of similar length.

        Args:
            texts: One text, or an iterable or NumPy array of texts. A text is
                a `str` or UTF-8 `bytes`.
            batch_tokens: Source tokens in a batch, padding included; less
                takes less memory. A batch has at most 128 texts.
            workers: Batches translated at the same time. A single one uses
                all `threads`; several use one thread each, which is faster
                for many texts, and each takes the memory of the weights
                again.
            prefixes: What each translation must begin with, one text per
                text; "" for nothing.

        Returns:
            A `Translation` for a single text, else a list with one
            `Translation` per text, in the order of the texts.

        Raises:
            InputError: If a text is not a string of valid Unicode, `workers`
                not a positive integer, or not each text has one prefix.
        """
        check_values(POSITIVE_INTEGER, workers=workers)
        texts, prefixes, is_single = read_sources(texts, prefixes)
        sources = self.tokenizer.source.encode(texts)
        starts = self.tokenizer.target.encode(prefixes)
        threads = self._threads if workers == 1 else 1

        def translate_batch(rows: list[int]) -> list[Translation]:
            with self._model(threads, workers) as model:
                return self._translate(
                    model, [sources[i] for i in rows], [starts[i] for i in rows]
                )

        lengths = list(map(len, sources))
        batches = batches_by_length(
            lengths, self.max_length, batch_tokens, workers
        )
        results = _map(translate_batch, batches, workers)
        translations: list = [None] * len(texts)
        for rows, found in zip(batches, results, strict=True):
            for row, translation in zip(rows, found, strict=True):
                translations[row] = translation
        return translations[0] if is_single else translations

    def score(
        self, sources: Any, targets: Any, batch_tokens: int = 2048
    ) -> Score | list[Score]:
        """Returns how likely given translations are.

        Args:
            sources: As in `translate`. The empty translation of an empty
                source is certain: its log-probability is 0.
            targets: The translation of each source.
            batch_tokens: As in `translate`, of the targets.

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError: If the numbers of sources and targets differ, a text
                is not valid, or one is longer than the model's `max_length`.
        """
        sources, targets, is_single = read_pairs(sources, targets)
        source_ids = self.tokenizer.source.encode(sources)
        target_ids = self.tokenizer.target.encode(targets)
        lengths = list(map(len, target_ids))
        check_lengths(list(map(len, source_ids)), lengths, self.max_length)
        scores: list = [None] * len(sources)
        for rows in batches_by_length(lengths, self.max_length, batch_tokens):
            with self._model(self._threads) as model:
                log_probs = self._log_probs(
                    model,
                    [source_ids[i] for i in rows],
                    [target_ids[i] for i in rows],
                )
            for row, log_prob in zip(rows, log_probs, strict=True):
                count = lengths[row] + 1
                penalty = length_penalty(count, self.search.alpha)
                scores[row] = Score(
                    float(log_prob / penalty),
                    float(log_prob),
                    math.exp(-log_prob / count),
                )
        return scores[0] if is_single else scores

    def _translate(
        self, model: Model, sources: list[list[int]], prefixes: list[list[int]]
    ) -> list[Translation]:
        limit, n, settings = self.max_length, self.num_translations, self.search
        cut = [len(source) > limit - 1 for source in sources]
        # There is room for a token and the end token after a prefix.
        longest = max(limit - 2, 0)
        cut = [
            c or len(p) > longest for c, p in zip(cut, prefixes, strict=True)
        ]
        prefixes = [prefix[:longest] for prefix in prefixes]
        sources = [[*ids[: limit - 1], self._ids.eos] for ids in sources]
        extra = min(settings.extra_length, limit)
        max_lengths = np.array(
            [
                min(_most(settings, len(source), limit) + extra, limit)
                for source in sources
            ]
        )
        max_lengths = np.maximum(max_lengths, 1) + list(map(len, prefixes))
        max_lengths = np.minimum(max_lengths, limit)
        is_empty = [len(source) == 1 for source in sources]
        found: list[list[Hypothesis]] = [[Hypothesis([], 0.0)]] * len(sources)
        rows = [i for i, empty in enumerate(is_empty) if not empty]
        if rows:
            memory = model.encode([sources[i] for i in rows])
            results = beam_search(
                model.decoding(memory, settings.beam_size),
                max_lengths[rows],
                settings.beam_size,
                settings.alpha,
                self._ids,
                [prefixes[i] for i in rows],
            )
            for row, hypotheses in zip(rows, results, strict=True):
                found[row] = hypotheses
        translations = []
        for row, hypotheses in enumerate(found):
            best = hypotheses[:n]
            missing = n - len(best)
            padding = 0.0 if is_empty[row] else -math.inf
            texts = [self.tokenizer.target.decode(one.ids) for one in best]
            at_limit = any(len(x.ids) >= max_lengths[row] for x in best[:1])
            translations.append(
                Translation(
                    texts + [""] * missing,
                    [one.score for one in best] + [padding] * missing,
                    cut[row],
                    bool(at_limit) and not is_empty[row],
                )
            )
        return translations

    def _log_probs(
        self, model: Model, sources: list[list[int]], targets: list[list[int]]
    ) -> np.ndarray:
        """Returns log P of each target, `[B]`."""
        ids = self._ids
        is_certain = [
            not (s or t) for s, t in zip(sources, targets, strict=True)
        ]
        memory = model.encode([[*source, ids.eos] for source in sources])
        decoding = model.decoding(memory, beam_size=1)
        lengths = np.array([len(target) + 1 for target in targets])
        labels = np.full((len(targets), max(lengths)), ids.pad, np.int32)
        for row, target in zip(labels, targets, strict=True):
            row[: len(target) + 1] = [*target, ids.eos]
        last = np.full((len(targets), 1), ids.bos, np.int32)
        parents = np.zeros_like(last)
        total = np.zeros(len(targets), np.float32)
        for position in range(max(lengths)):
            label = labels[:, position : position + 1]
            found = decoding.step(last, parents, label)
            total += np.where(position < lengths, found.forced[:, 0, 0], 0)
            last = label
        return np.where(is_certain, np.float32(0), total)

    @contextlib.contextmanager
    def _model(self, threads: int, most: int = 1) -> Iterator[Model]:
        """Lends a model that nothing else computes with; makes at most so many."""
        with self._lock:
            idle = self._idle.setdefault(threads, queue.SimpleQueue())
            count = self._count.get(threads, 0)
            is_new = idle.empty() and count < most
            self._count[threads] = count + is_new
        model = self._open_model(threads) if is_new else idle.get()
        try:
            yield model
        finally:
            idle.put(model)

    def _open_model(self, threads: int) -> Model:
        try:
            return Model(
                self.path / MODEL_FILE,
                threads,
                self._ids.pad,
                self.metadata["attention_window"],
            )
        except (RuntimeError, ValueError, KeyError) as error:
            raise InputError(
                f"{self.path / MODEL_FILE} must be the model that was "
                f"exported. Received: {error!s:.200}. It may be damaged: copy "
                "it again, or export it again."
            ) from error


def _most(settings: BeamSearch, count: int, limit: int) -> int:
    return int(min(np.float32(settings.length_factor) * count, limit))


def _map(
    function: Callable, batches: Sequence[list[int]], workers: int
) -> list[list[Translation]]:
    if workers == 1:  # this thread
        return list(map(function, batches))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, batches))


def _read_metadata(path: Path) -> dict[str, Any]:
    file = path / METADATA_FILE
    try:
        metadata = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(
            "A model for LiteRT is a folder that `keras-transformer export "
            f"--format litert` wrote, with {MODEL_FILE} and {METADATA_FILE}. "
            f"Received: {path} ({error.strerror})"
        ) from error
    except ValueError as error:
        raise InputError(
            f"{file} is not valid JSON. Received: {error}"
        ) from error
    found = metadata.get("format") if isinstance(metadata, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path} must be a LiteRT model of format {FORMAT}. Received: "
            f"format={found!r}. It was written by another version: use that "
            "version, or export the model again."
        )
    return metadata
