"""`LiteRTTranslator`: translates texts without TensorFlow and Keras.

It needs NumPy, SentencePiece and ai-edge-litert.

Letters: B = batch, K = beam size.
"""

import math
import os
from collections.abc import Sequence

import numpy as np

from keras_transformer.decoding import search_arrays
from keras_transformer.decoding.search_arrays import SearchResult, SpecialIds
from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.records import EncodedTexts, Score, Translation
from keras_transformer.litert import MODEL_FILE
from keras_transformer.litert.interpreter import LiteDecoding, LiteModel
from keras_transformer.litert.lite_folder import LiteRTFolder
from keras_transformer.litert.model_pool import ModelPool
from keras_transformer.litert.numpy_search import beam_search
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.startup import available_cores
from keras_transformer.text import Vocabulary
from keras_transformer.text.normalization import without_blank

Ids = list[int]  # of a text, without start and end tokens


class LiteRTTranslator(BaseTranslator):
    """Translates text with a folder that `export --format litert` wrote.

    `LiteRTTranslator.open("en-de")` is the model that comes with the package.

    With one worker, threads that use the same translator wait for each other;
    it uses all `threads`. Several workers use one thread each, which is faster
    for many texts, and each takes the memory of the weights again. Models stay
    open, one per worker.

    Args:
        folder: The folder.
        tokenizer: Its vocabulary.
        search: The settings of the search.
        num_translations: n, at most the beam size.
        threads: Threads of an operation if there is one worker.

    Example:

    ```python
    translator = LiteRTTranslator.open("en-de")
    translator("I am a student.")  # "Ich bin Student."
    translator.translate(["A dog.", "A cat."], workers=2)
    ```
    """

    batch_tokens = 512
    capabilities = frozenset({"prefixes", "score", "perplexity"})

    def __init__(
        self,
        folder: LiteRTFolder,
        tokenizer: Vocabulary,
        search: BeamSearch,
        num_translations: int,
        threads: int,
    ) -> None:
        metadata = self.metadata = folder.metadata
        self.path = folder.path
        self.max_length = metadata["max_length"]
        self.dtype = metadata["dtype"]
        self.tokenizer = tokenizer
        self.search = search
        self.num_translations = num_translations
        self._threads = threads
        self._ids = SpecialIds.of(
            tokenizer.bos_id,
            tokenizer.eos_id,
            tokenizer.pad_id,
            tokenizer.unk_id,
        )
        self._pool = ModelPool(
            folder.path / MODEL_FILE,
            self._ids.pad_id,
            metadata["attention_window"],
        )

    @classmethod
    def open(
        cls,
        path: str | os.PathLike,
        search: Search | None = None,
        num_translations: int | None = None,
        threads: int | None = None,
    ) -> "LiteRTTranslator":
        """Returns the translator of a folder.

        Args:
            path: The folder that `keras-transformer export --format litert`
                wrote; or `"en-de"`, the model that comes with the package.
            search: A `BeamSearch` with a beam size up to the one that the
                model was exported for. Default: that of the export.
            num_translations: n, at most the beam size. Default: that of the
                export, or what the beam size allows.
            threads: Threads of an operation if there is one worker. Default:
                the number of cores.

        Raises:
            InputError: If the folder lacks a file, a file is damaged, or the
                search is not possible.
        """
        folder = LiteRTFolder.read(path)
        folder.check_settings(search, num_translations)
        search = search or folder.search
        if num_translations is None:
            num_translations = min(folder.num_translations, search.beam_size)
        search = search.with_num_translations(num_translations)
        if threads is None:
            threads = available_cores()
        check_values(POSITIVE_INTEGER, threads=threads)
        tokenizer = folder.open_tokenizer()
        return cls(folder, tokenizer, search, num_translations, threads)

    @property
    def description(self) -> str:
        return f"{self.path}, an export for LiteRT"

    @property
    def recommended_workers(self) -> int:
        return self._threads

    def _encode_sources(self, texts: list[str]) -> EncodedTexts:
        self.check_languages(texts)
        ids = self.tokenizer.encode_sources(without_blank(texts))
        return EncodedTexts(texts, list(map(len, ids)), ids)

    def _encode_targets(self, texts: list[str]) -> EncodedTexts:
        ids = self.tokenizer.encode_targets(texts)
        return EncodedTexts(texts, list(map(len, ids)), ids)

    def _translate_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        prefixes: EncodedTexts | None,
    ) -> list[Translation]:
        longest = search_arrays.longest_source(self.max_length)
        source_ids, sources_cut = _cut_rows(rows, sources.ids, longest)
        prefix_ids: list[Ids] = [[]] * len(rows)
        prefixes_cut = [False] * len(rows)
        if prefixes is not None:
            longest = search_arrays.longest_prefix(self.max_length)
            prefix_ids, prefixes_cut = _cut_rows(rows, prefixes.ids, longest)
        limits = self._longest_outputs(source_ids, prefix_ids)
        threads = self._threads if workers == 1 else 1
        with self._pool.acquire(threads, workers) as model:
            result = self._search(model, source_ids, prefix_ids, limits)
        return [
            Translation(
                list(map(self.tokenizer.target.decode, ids)),
                scores.tolist(),
                source_cut or prefix_cut,
                bool(lengths[0] >= limit),
            )
            for ids, scores, lengths, limit, source_cut, prefix_cut in zip(
                *result, limits, sources_cut, prefixes_cut, strict=True
            )
        ]

    def _longest_outputs(
        self, sources: list[Ids], prefixes: list[Ids]
    ) -> np.ndarray:
        """Returns maximum lengths of translations, int32 `[B]`."""
        end = int(self.tokenizer.source_eos_id != self._ids.pad_id)
        lengths = search_arrays.longest_outputs(
            np,
            np.array([len(ids) + end for ids in sources], np.float32),
            np.array([len(ids) for ids in prefixes], np.float32),
            np.float32(self.search.length_factor),
            min(self.search.extra_length, self.max_length),
            self.max_length,
        )
        return lengths.astype(np.int32)

    def _search(
        self,
        model: LiteModel,
        sources: list[Ids],
        prefixes: list[Ids],
        limits: np.ndarray,
    ) -> SearchResult:
        """Searches for translations, which are empty for an empty source."""
        shape = (len(sources), self.num_translations)
        result = SearchResult(
            np.full((*shape, max(limits)), self._ids.pad_id, np.int32),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.int32),
        )
        rows = [row for row, ids in enumerate(sources) if ids]
        if rows:
            end = self.tokenizer.source_eos_id
            memory = model.encode([[*sources[row], end] for row in rows])
            searched = beam_search(
                LiteDecoding(model, memory, self.search.beam_size),
                limits[rows],
                self.search,
                self.num_translations,
                self._ids,
                [prefixes[row] for row in rows],
            )
            for column, values in zip(result, searched, strict=True):
                column[rows, ..., : values.shape[-1]] = values
        return result

    def _score_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        targets: EncodedTexts,
    ) -> list[Score]:
        source_ids = [sources.ids[row] for row in rows]
        target_ids = [targets.ids[row] for row in rows]
        counts = [len(ids) + 1 for ids in target_ids]  # with the end token
        threads = self._threads if workers == 1 else 1
        with self._pool.acquire(threads, workers) as model:
            log_probs = self._log_probs(model, source_ids, target_ids)
        penalties = [self.search.penalty(np.float32(count)) for count in counts]
        return [
            Score(float(x / penalty), float(x), math.exp(-x / count), count)
            for x, penalty, count in zip(
                log_probs, penalties, counts, strict=True
            )
        ]

    def _log_probs(
        self, model: LiteModel, sources: list[Ids], targets: list[Ids]
    ) -> np.ndarray:
        """Returns log P of each target, float32 `[B]`."""
        ids, end = self._ids, self.tokenizer.source_eos_id
        memory = model.encode([[*source, end] for source in sources])
        decoding = LiteDecoding(model, memory, beam_size=1)
        lengths = np.array([len(target) + 1 for target in targets])
        labels = np.full((len(targets), max(lengths)), ids.pad_id, np.int32)
        for row, target in zip(labels, targets, strict=True):
            row[: len(target) + 1] = [*target, ids.eos_id]
        last = np.full((len(targets), 1), ids.bos_id, np.int32)
        parents = np.zeros_like(last)
        total = np.zeros(len(targets), np.float32)
        for position in range(max(lengths)):
            label = labels[:, position : position + 1]
            predictions = decoding.step(last, parents, label)
            is_token = position < lengths
            total += np.where(is_token, predictions.forced[:, 0, 0], 0)
            last = label
        # The empty translation of an empty source is certain.
        pairs = zip(sources, targets, strict=True)
        return np.where([any(pair) for pair in pairs], total, np.float32(0))


def _cut_rows(
    rows: list[int], ids: Sequence[Ids], longest: int
) -> tuple[list[Ids], list[bool]]:
    """Returns the first ids of some texts, and whether there are more."""
    ids = [ids[row] for row in rows]
    return [x[:longest] for x in ids], [len(x) > longest for x in ids]
