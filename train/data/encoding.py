"""Turns pairs of texts into the token ids that training reads."""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, starmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import replace_invalid
from keras_transformer.train.data import filters
from keras_transformer.train.data.filters import TextPair

if TYPE_CHECKING:
    import tensorflow as tf

# Pairs per call of the tokenizer.
BATCH = 1024
# Ids per shard, at least: 128 MiB with 2 bytes per id. Offsets fit into int32.
SHARD_IDS = 2**26


class _FlatIds(NamedTuple):
    ids: np.ndarray  # the ids of all texts, concatenated
    lengths: np.ndarray  # one per text


class TokenShard(NamedTuple):
    """Token ids of pairs, without end tokens."""

    ids: np.ndarray  # of source, target, source, ..., uint16 or int32
    # The begin of each text, and the end of the last: int32 [2 * pairs + 1].
    offsets: np.ndarray

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return self.offsets.size // 2


@dataclasses.dataclass
class Statistics:
    """Counts of the kept pairs, of their tokens, and of the dropped pairs.

    Tokens include end tokens. `vars` returns plain values.
    """

    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    dropped: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )

    def __post_init__(self) -> None:
        self.dropped = collections.Counter(self.dropped)

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(
            pairs=self.pairs + other.pairs,
            source_tokens=self.source_tokens + other.source_tokens,
            target_tokens=self.target_tokens + other.target_tokens,
            dropped=self.dropped + other.dropped,
        )

    def describe(self, max_length: int) -> str:
        """Returns the counts as one line of text."""
        counts = [
            f"{self.dropped[reason]:,} {description}"
            for reason, description in filters.REASONS.items()
            if self.dropped[reason] or reason in ("long", "empty")
        ]
        dropped = f"{', '.join(counts[:-1])} and {counts[-1]}"
        return (
            f"{self.pairs:,} pairs kept, {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens; dropped "
            f"{dropped.format(max_length=max_length)}"
        )

    def check(self, max_length: int) -> None:
        """Raises InputError if all pairs are dropped."""
        if not self.pairs:
            raise InputError(
                "No pair is left to train on. Received: "
                f"{self.describe(max_length)}. "
                "Increase max_length, or check the filters and the data."
            )


class PairEncoder:
    """Tokenizes pairs, and drops empty, overlong and uneven ones.

    A side may have at most `max_length` tokens with its end token. The ratio of
    the sides, without the `tags` of sources, may be at most `max_ratio`.
    `on_dropped` is called with each dropped pair; `statistics` count all pairs
    so far.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        task: Task | None = None,
        max_ratio: float | None = None,
        on_dropped: Callable[[TextPair], None] | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        self.statistics = Statistics()
        self._tokenizer = tokenizer
        self._task = task or TranslationTask()
        self._max_length = max_length
        self._max_ratio = max_ratio or math.inf
        self._num_tags = len(tags)
        self._on_dropped = on_dropped
        size = max(tokenizer.source.vocab_size, tokenizer.target.vocab_size)
        self._dtype = np.uint16 if size <= 2**16 else np.int32

    def shards(
        self, pairs: "Iterable[tuple[str, ...]] | tf.data.Dataset"
    ) -> Iterator[TokenShard]:
        """Yields the ids of the kept pairs in order, in one or more shards.

        Only the last shard is small. A pair consists of a source, a target, and
        optionally the reason for which it is dropped.
        """
        if hasattr(pairs, "as_numpy_iterator"):
            pairs = map(_decoded, pairs.as_numpy_iterator())
        batches: list[_FlatIds] = []
        size = num_shards = 0
        for batch in self._encode(starmap(TextPair, pairs)):
            batches.append(batch)
            size += batch.ids.size
            if size >= SHARD_IDS:
                yield self._shard(batches)
                batches = []
                size = 0
                num_shards += 1
        if size or num_shards == 0:
            yield self._shard(batches)

    def _shard(self, batches: Sequence[_FlatIds]) -> TokenShard:
        ids = [np.zeros(0, self._dtype)] + [batch.ids for batch in batches]
        lengths = [[0]] + [batch.lengths for batch in batches]
        offsets = np.cumsum(np.concatenate(lengths), dtype=np.int32)
        return TokenShard(np.concatenate(ids), offsets)

    def _encode(self, pairs: Iterable[TextPair]) -> Iterator[_FlatIds]:
        cores = available_cores()
        with ThreadPoolExecutor(cores) as executor:
            # `map` reads its whole input at once.
            for batches in _batched(_batched(pairs, BATCH), 4 * cores):
                encoded = executor.map(self._tokenize, batches)
                for batch, texts in zip(batches, encoded, strict=True):
                    yield self._select(batch, texts)

    def _tokenize(self, pairs: Sequence[TextPair]) -> _FlatIds:
        passing = [pair[:2] for pair in pairs if not pair.dropped_for]
        sources, targets = list(zip(*passing, strict=True)) or ((), ())
        sources = self._task.encode_sources(self._tokenizer, sources)
        targets = self._task.encode_targets(self._tokenizer, targets)
        # Source, target, source, ...
        rows = list(chain.from_iterable(zip(sources, targets, strict=True)))
        ids = np.fromiter(chain.from_iterable(rows), self._dtype)
        return _FlatIds(ids, np.fromiter(map(len, rows), np.int64))

    def _select(self, pairs: Sequence[TextPair], texts: _FlatIds) -> _FlatIds:
        """Counts pairs, and returns the ids of the kept ones."""
        statistics = self.statistics
        lengths = texts.lengths.reshape(-1, 2) + 1  # with end tokens
        is_empty = lengths.min(axis=1) < 2
        is_long = lengths.max(axis=1) > self._max_length
        sides = np.maximum(lengths - [self._num_tags, 0], 1)
        is_uneven = sides.max(axis=1) > self._max_ratio * sides.min(axis=1)
        tests = [is_empty, is_long, is_uneven]
        reasons = np.select(tests, ["empty", "long", "ratio"], "")
        remaining = iter(reasons.tolist())
        for pair in pairs:
            reason = pair.dropped_for or next(remaining)
            if reason:
                statistics.dropped[reason] += 1
                if self._on_dropped is not None:
                    self._on_dropped(pair._replace(dropped_for=reason))
        is_kept = reasons == ""
        source_tokens, target_tokens = lengths[is_kept].sum(axis=0).tolist()
        statistics.pairs += int(is_kept.sum())
        statistics.source_tokens += source_tokens
        statistics.target_tokens += target_tokens
        is_kept = np.repeat(is_kept, 2)
        ids = texts.ids[np.repeat(is_kept, texts.lengths)]
        return _FlatIds(ids, texts.lengths[is_kept])


def _decoded(pair: tuple[bytes, bytes]) -> tuple[str, str]:
    """Returns texts. Invalid bytes become U+FFFD, as in a graph."""
    texts = (text.decode(errors="surrogateescape") for text in pair)
    return tuple(map(replace_invalid, texts))


def check_budget(batch_tokens: int, max_length: int, workers: int = 1) -> None:
    """Raises InputError if a pair of `max_length` exceeds a worker's batch."""
    minimum = 2 * max_length * workers
    if batch_tokens < minimum:
        per_worker = f" for each of {workers} workers" if workers > 1 else ""
        raise InputError(
            f"must be at least 2 * max_length{per_worker} = {minimum}, since "
            f"it counts source and target tokens. Received: {batch_tokens}",
            argument="batch_tokens",
        )


def _batched(items: Iterable, size: int) -> Iterator[list]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
