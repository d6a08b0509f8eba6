"""Backends: what a `Translator` translates and scores with."""

import abc
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from keras_transformer.decoding.numpy_search import longest_outputs
from keras_transformer.decoding.settings import Search, SearchResult
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.inference.records import (
    Score,
    Translation,
    TranslationAttention,
)
from keras_transformer.support import fields
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import without_blank

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


class EncodedPair(NamedTuple):
    """A source and a target: ids without end tokens, or texts if served."""

    text: str  # the source before it was encoded
    source: Ids | str
    target: Ids | str  # to score, or the prefix of a translation


EncodedPairs = Sequence[EncodedPair]


class Backend(abc.ABC):
    """Translates and scores batches. Several threads may use it.

    `LocalBackend` has an engine in this process, which reads ids;
    `ServedBackend` has an exported model, which reads texts.
    """

    task: Task = TranslationTask()  # of the model
    search: Search | None = None  # None: unknown
    num_translations: int
    max_length: int | None = None  # the model's, in tokens, if known
    dtype: str | None = None  # of the weights, if known
    target_languages: Sequence[str] = ()  # a source may begin with one
    units_per_token: int = 1  # the usual length of an encoded token

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A translator cannot be pickled or copied deeply. Open it in each "
            "process with kt.open_translator; threads may share one."
        )

    def with_task(self, task: Task) -> "Backend":
        """Returns this backend with a variant of its task."""
        backend = object.__new__(type(self))
        vars(backend).update(vars(self), task=task)
        return backend

    @abc.abstractmethod
    def encode_sources(self, texts: Sequence[str]) -> Sequence[Ids | str]:
        """Returns what the model reads."""

    @abc.abstractmethod
    def encode_targets(self, texts: Sequence[str]) -> Sequence[Ids | str]:
        """Returns translations to score."""

    def encode_prefixes(self, texts: Sequence[str]) -> Sequence[Ids | str]:
        """Returns prefixes of translations; they may be empty."""
        return self.encode_targets(texts)

    @abc.abstractmethod
    def translate(self, pairs: EncodedPairs, workers: int) -> list[Translation]:
        """Returns the translations of sources, with their prefixes.

        `workers` threads call it at the same time.
        """

    @abc.abstractmethod
    def score(self, pairs: EncodedPairs, workers: int) -> list[Score | None]:
        """Returns the scores of targets; None for pairs that are too long."""

    def make_batches(
        self, lengths: Sequence[int], batch_tokens: int, largest: int
    ) -> list[list[int]]:
        """Groups rows of similar length, longest first.

        `lengths` are those of encoded texts. A batch has at most `largest`
        rows.
        """
        longest = self.max_length or batch_tokens  # longer texts are cut
        tokens = [
            min(length / self.units_per_token + 1, longest)  # with an end
            for length in lengths
        ]
        rows = sorted(range(len(tokens)), key=lambda row: -tokens[row])
        batches = []
        start = 0
        while start < len(rows):
            size = min(int(batch_tokens // tokens[rows[start]]), largest)
            batches.append(rows[start : start + max(size, 1)])
            start += len(batches[-1])
        return batches


class LocalBackend(Backend):
    """Turns texts into ids, which an engine translates, and back."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        task: Task,
        search: Search,
        num_translations: int,
    ) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.task = task
        self.search = search
        self.num_translations = num_translations
        self.max_length = engine.max_length
        self.dtype = engine.dtype
        self.target_languages = tokenizer.languages

    def encode_sources(self, texts: Sequence[str]) -> Sequence[Ids]:
        return self.task.encode_sources(self.tokenizer, without_blank(texts))

    def encode_targets(self, texts: Sequence[str]) -> Sequence[Ids]:
        return self.task.encode_targets(self.tokenizer, texts)

    def encode_prefixes(self, texts: Sequence[str]) -> Sequence[Ids]:
        if not any(texts):
            return [[] for _ in texts]
        if not self.task.targets_are_text:
            raise InputError(
                f"A parser takes no prefixes. Received: {max(texts):.60}"
            )
        self.tokenizer.target.check_known(texts)
        return self.encode_targets(texts)

    def translate(self, pairs: EncodedPairs, workers: int) -> list[Translation]:
        longest = self.max_length - 1  # the end token follows
        longest_prefix = max(longest - 1, 0)  # a token follows, too
        sources = [pair.source[:longest] for pair in pairs]
        prefixes = [pair.target[:longest_prefix] for pair in pairs]
        limits, result = self.search_ids(sources, prefixes, workers)
        translations = []
        for row, (text, source, prefix) in enumerate(pairs):
            ids = result.ids[row]
            scores = result.scores[row].astype(float)
            is_at_limit = bool(result.lengths[row, 0] >= limits[row])
            if not source:  # the empty translation is certain
                ids = ids[:, :0]
                scores = np.zeros_like(scores)
                is_at_limit = False
            outputs = [self.task.decode(self.tokenizer, x, text) for x in ids]
            is_cut = len(source) > longest or len(prefix) > longest_prefix
            translation = Translation(
                texts=[output for output, _ in outputs],
                scores=scores.tolist(),
                source_truncated=is_cut,
                at_length_limit=is_at_limit,
                repaired=outputs[0][1],
            )
            translations.append(translation)
        return translations

    def search_ids(
        self, sources: Sequence[Ids], prefixes: Sequence[Ids], workers: int = 1
    ) -> tuple[np.ndarray, SearchResult]:
        """Returns the limits of a search for translations, and its result."""
        limits = self.limits(sources, prefixes)
        result = self.engine.search(
            [[*ids, self.tokenizer.source_eos_id] for ids in sources],
            prefixes,
            limits,
            settings=self.search,
            count=self.num_translations,
            workers=workers,
        )
        return limits, result

    def limits(
        self, sources: Sequence[Ids], prefixes: Sequence[Ids]
    ) -> np.ndarray:
        """Returns the maximum length of each translation, int32."""
        # Some imported models end their sources with padding.
        end = int(self.tokenizer.source_eos_id != self.tokenizer.pad_id)
        source_lengths = [len(ids) + end for ids in sources]
        prefix_lengths = [len(ids) for ids in prefixes]
        limits = longest_outputs(
            np,
            source_lengths=np.array(source_lengths, np.float32),
            prefix_lengths=np.array(prefix_lengths, np.float32),
            length_factor=np.float32(self.search.length_factor),
            extra_length=min(self.search.extra_length, self.max_length),
            max_length=self.max_length,
        )
        return limits.astype(np.int32)

    def attention(
        self, model: Any, text: str, source: Ids, hypothesis: int
    ) -> TranslationAttention:
        """Returns the attention of a model while a text is translated."""
        _, result = self.search_ids([source], [[]])
        lengths = result.lengths[0]
        is_index = fields.integer_from(0, np.count_nonzero(lengths) - 1)
        fields.check_values(is_index, hypothesis=hypothesis)
        ids = result.ids[0, hypothesis, : lengths[hypothesis]]
        output, _ = self.task.decode(self.tokenizer, ids, text)
        source = [*source, self.tokenizer.source_eos_id]
        target = [self.tokenizer.bos_id, *ids[:-1].tolist()]
        scores = self.engine.attention_scores(model, source, target)
        return TranslationAttention(
            source=text,
            output=output,
            source_tokens=self.tokenizer.source.pieces(source),
            target_tokens=self.tokenizer.target.pieces(target),
            source_words=self.tokenizer.source.words(source),
            target_words=self.tokenizer.target.words(target),
            encoder=scores.encoder,
            decoder=scores.decoder,
            cross=scores.cross,
        )

    def score(self, pairs: EncodedPairs, workers: int) -> list[Score | None]:
        longest = self.max_length - 1  # the end token follows
        tokenizer = self.tokenizer
        log_probs = self.engine.log_probs(
            [[*x.source[:longest], tokenizer.source_eos_id] for x in pairs],
            [[*x.target[:longest], tokenizer.eos_id] for x in pairs],
            workers=workers,
        )
        scores: list[Score | None] = []
        for pair, log_prob in zip(pairs, log_probs.tolist(), strict=True):
            if max(len(pair.source), len(pair.target)) > longest:
                scores.append(None)
                continue
            if not (pair.source or pair.target):  # it is certain
                log_prob = 0.0
            count = len(pair.target) + 1  # with the end token
            score = Score(
                score=log_prob / float(self.search.penalty(np.float32(count))),
                log_prob=log_prob,
                perplexity=math.exp(-log_prob / count),
                num_tokens=count,
            )
            scores.append(score)
        return scores


def in_batches(
    translator: "Translator",
    function: Callable[[Sequence[Any], int], list[Any]],
    pairs: Sequence[Any],
    encoded: Sequence[Any],
    batch_tokens: int | None = None,
    workers: int | None = None,
    progress: Callable[[int], Any] | None = None,
) -> list[Any]:
    """Calls a function with at least as many batches as workers.

    The arguments after `encoded` are those of `Translator.translate`.
    """
    tokens = translator.batch_tokens if batch_tokens is None else batch_tokens
    workers = translator.workers if workers is None else workers
    is_count = fields.POSITIVE_INTEGER
    fields.check_values(is_count, batch_tokens=tokens, workers=workers)
    workers = min(workers, len(pairs)) or 1
    largest = min(translator.max_batch_size, math.ceil(len(pairs) / workers))
    lengths = [len(x) for x in encoded]
    batches = translator.backend.make_batches(lengths, tokens, largest)

    def call(rows: Sequence[int]) -> list[Any]:
        return function([pairs[row] for row in rows], workers)

    results: list[Any] = [None] * len(pairs)
    with ThreadPoolExecutor(workers) as pool:
        run = map if workers == 1 else pool.map
        # After an error, `pool.map` cancels the waiting batches.
        for rows, values in zip(batches, run(call, batches), strict=True):
            for row, value in zip(rows, values, strict=True):
                results[row] = value
            if progress is not None:
                progress(len(rows))
    return results
