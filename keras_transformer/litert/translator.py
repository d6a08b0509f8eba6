"""`LiteRTTranslator`: what `Translator` does, with a LiteRT model.

It needs NumPy, SentencePiece and ai-edge-litert.
"""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.texts import (
    BaseTranslator,
    Score,
    Translation,
    batches_by_length,
    check_lengths,
    read_pairs,
    read_sources,
)
from keras_transformer.litert import MODEL_FILE
from keras_transformer.litert.folder import LiteRTFolder, open_tokenizer
from keras_transformer.litert.pipeline import Ids, Model, Pipeline
from keras_transformer.litert.search import SpecialIds
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks.translation import TranslationTask
from keras_transformer.text import Vocabulary


class LiteRTTranslator(BaseTranslator):
    """Translates text with a folder that `export --format litert` wrote.

    It does what `Translator` does with a run, without TensorFlow and Keras.
    Several threads may use one translator; with `workers=1` they wait for each
    other. Models stay open, as many as `workers` there ever were.

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
        self._threads = threads
        names = ("pad_id", "bos_id", "eos_id", "banned_ids")
        ids = SpecialIds(*(metadata[name] for name in names))
        self._pipeline = Pipeline(
            path / MODEL_FILE,
            ids,
            tokenizer.source_eos_id,
            self.max_length,
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
                wrote.
            search: A `BeamSearch` with a beam size up to the one that the
                model was exported for. Default: that of the export.
            num_translations: n, at most the beam size. Default: that of the
                export, or what the beam size allows.
            threads: Threads of an operation if there is one worker. Default:
                the number of cores.

        Raises:
            InputError: If the folder lacks a file, a file is damaged or of
                another version, or the search is not possible.
        """
        folder = LiteRTFolder.read(path)
        folder.check_settings(search, num_translations)
        tokenizer = open_tokenizer(folder)
        search = search or folder.search
        if num_translations is None:
            num_translations = min(folder.num_translations, search.beam_size)
        search = search.with_num_translations(num_translations)
        if threads is None:
            threads = available_cores()
        check_values(POSITIVE_INTEGER, threads=threads)
        return cls(
            folder.path,
            folder.metadata,
            tokenizer,
            search,
            num_translations,
            threads,
        )

    def translate(
        self,
        texts: Any,
        batch_tokens: int = 512,
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
        workers = min(workers, len(texts)) or 1
        threads = self._threads if workers == 1 else 1

        def translate_batch(rows: list[int]) -> list[Translation]:
            with self._pipeline.lend(threads, workers) as model:
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
        self, sources: Any, targets: Any, batch_tokens: int = 512
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
            with self._pipeline.lend(self._threads) as model:
                log_probs = self._pipeline.log_probs(
                    model,
                    [source_ids[i] for i in rows],
                    [target_ids[i] for i in rows],
                )
            for row, log_prob in zip(rows, log_probs, strict=True):
                count = lengths[row] + 1
                penalty = self.search.penalty(np.float32(count))
                scores[row] = Score(
                    float(log_prob / penalty),
                    float(log_prob),
                    math.exp(-log_prob / count),
                )
        return scores[0] if is_single else scores

    def _translate(
        self, model: Model, sources: list[Ids], prefixes: list[Ids]
    ) -> list[Translation]:
        limit, n = self.max_length, self.num_translations
        # There is room for the end token, after a prefix for another one too.
        longest = limit - 1, max(limit - 2, 0)
        cut = [
            any(len(x) > most for x, most in zip(pair, longest, strict=True))
            for pair in zip(sources, prefixes, strict=True)
        ]
        sources = [ids[: longest[0]] for ids in sources]
        prefixes = [ids[: longest[1]] for ids in prefixes]
        limits = self._pipeline.max_lengths(sources, self.search, prefixes)
        found = self._pipeline.search(
            model, sources, self.search, prefixes, limits
        )
        translations = []
        for row, hypotheses in enumerate(found):
            best = hypotheses[:n]
            texts = [self.tokenizer.target.decode(one.ids) for one in best]
            scores = [one.score for one in best]
            # All translations of a source without tokens are the same.
            rest = -math.inf if sources[row] else 0.0
            texts += [""] * (n - len(best))
            scores += [rest] * (n - len(best))
            length = max((len(one.ids) for one in best[:1]), default=0)
            at_limit = bool(length >= limits[row])
            translations.append(Translation(texts, scores, cut[row], at_limit))
        return translations


def _map(
    function: Callable, batches: Sequence[list[int]], workers: int
) -> list[list[Translation]]:
    if workers == 1:  # this thread
        return list(map(function, batches))
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, batches))
