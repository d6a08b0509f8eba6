"""Turns pairs of texts into the token ids that training reads."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import replace_invalid
from keras_transformer.train.data.filters import (
    REASONS,
    Examined,
    keep_passing,
)

if TYPE_CHECKING:
    import tensorflow as tf

# Pairs that are tokenized at once.
BATCH = 1024
# Ids of a shard, give or take a batch: 128 MiB with 2 bytes per id. Offsets
# in a shard fit into int32.
SHARD_IDS = 2**26
# Of a new tokenizer: special tokens, bytes, and a character.
_SMALLEST_VOCABULARY = 4 + 256 + 1


# Ids of texts one after the other, and how many each text has.
Texts = tuple[np.ndarray, np.ndarray]


class TokenShard(NamedTuple):
    """Token ids of pairs, without end tokens."""

    ids: np.ndarray  # of source, target, source, ..., uint16 or int32
    # Where each text begins, and the last one ends: int32 [2 * pairs + 1].
    offsets: np.ndarray

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return self.offsets.size // 2


@dataclasses.dataclass
class Statistics:
    """Numbers of the pairs that training uses of a split, and of the others.

    Tokens are counted with end tokens.
    """

    pairs: int = 0  # that are kept
    # That are dropped, for each of `REASONS`.
    dropped_long: int = 0  # because a side has more than `max_length` tokens
    dropped_empty: int = 0  # because a side has no token but the end token
    dropped_identical: int = 0
    dropped_letters: int = 0
    dropped_duplicate: int = 0
    dropped_ratio: int = 0
    source_tokens: int = 0  # of the kept pairs
    target_tokens: int = 0
    longest: int = 0  # tokens of the longest text that is tokenized

    @property
    def dropped(self) -> dict[str, int]:
        """Numbers of dropped pairs by reason."""
        return {x: getattr(self, f"dropped_{x}") for x in REASONS}

    @property
    def read(self) -> int:
        """Number of pairs, kept or dropped."""
        return self.pairs + sum(self.dropped.values())

    def drop(self, reason: str) -> None:
        """Adds a pair that is dropped."""
        name = f"dropped_{reason}"
        setattr(self, name, getattr(self, name) + 1)

    def count(
        self,
        lengths: np.ndarray,
        max_length: int,
        max_ratio: float | None = None,
    ) -> np.ndarray:
        """Adds pairs, and returns the reason to drop each, `""` to keep it.

        The lengths are those of source, target, source, ..., without end
        tokens, which the limits include.
        """
        lengths = lengths.reshape(-1, 2) + 1
        shorter, longer = lengths.min(axis=1), lengths.max(axis=1)
        is_uneven = longer > (max_ratio or math.inf) * shorter
        tests = [shorter < 2, longer > max_length, is_uneven]
        reasons = np.select(tests, ["empty", "long", "ratio"], "")
        for reason in reasons[reasons != ""]:
            self.drop(reason)
        kept = lengths[reasons == ""]
        source_tokens, target_tokens = kept.sum(axis=0).tolist()
        self.pairs += len(kept)
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens
        self.longest = max(self.longest, int(lengths.max(initial=0)))
        return reasons

    def add(self, other: "Statistics") -> None:
        """Adds those of other pairs."""
        for field in dataclasses.fields(self):
            join = max if field.name == "longest" else sum
            values = getattr(self, field.name), getattr(other, field.name)
            setattr(self, field.name, join(values))

    def describe(self, max_length: int) -> str:
        """Returns what is kept and what is dropped as a line of text."""
        *others, last = (
            f"{count:,} {REASONS[reason]}"
            for reason, count in self.dropped.items()
            if count or reason in ("long", "empty")
        )
        dropped = f"{', '.join(others)} and {last}"
        return (
            f"{self.pairs:,} pairs kept, {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens; dropped "
            f"{dropped.format(max_length=max_length)}; the longest text has "
            f"{self.longest:,} tokens"
        )

    def check(self, max_length: int) -> None:
        """Raises InputError if no pair is kept."""
        if not self.pairs:
            raise InputError(
                f"No pair is left to train on. Received: "
                f"{self.describe(max_length)}. Increase max_length, or check "
                "the filters and the data."
            )


class PairEncoder:
    """Tokenizes pairs, and drops those that training cannot use.

    These have an empty side, one of more than `max_length` tokens, with the
    end token, or sides of a larger ratio than `max_ratio`. `on_dropped` gets
    reason and texts of these pairs; `statistics` are those of all so far.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        task: Task | None = None,
        max_ratio: float | None = None,
        on_dropped: Callable[[str, Iterable[str]], None] | None = None,
    ) -> None:
        self.statistics = Statistics()
        self._tokenizer = tokenizer
        self._task = task or TranslationTask()
        self._limits = max_length, max_ratio
        self._on_dropped = on_dropped
        size = max(tokenizer.source.vocab_size, tokenizer.target.vocab_size)
        self._dtype = np.uint16 if size <= 2**16 else np.int32

    def shards(
        self, pairs: "Iterable[tuple[str, ...]] | tf.data.Dataset"
    ) -> Iterator[TokenShard]:
        """Yields the ids of the pairs that are kept, in their order.

        There is at least one shard, and only the last one is small. Pairs may
        be `filters.Examined`, some of which have a reason already.
        """
        if hasattr(pairs, "as_numpy_iterator"):
            pairs = map(_decoded, pairs.as_numpy_iterator())
        examined = ((*pair, "")[:3] for pair in pairs)
        return _make_shards(self._encode(examined), self._dtype)

    def _encode(self, pairs: Iterable[Examined]) -> Iterator[Texts]:
        """Yields ids and lengths of the texts of a batch that are kept."""
        cores = available_cores()
        with ThreadPoolExecutor(cores) as executor:
            # `map` takes all batches that it is given at once.
            for batches in _batched(_batched(pairs, BATCH), 4 * cores):
                encoded = executor.map(self._tokenize, batches)
                for batch, texts in zip(batches, encoded, strict=True):
                    yield self._select(batch, *texts)

    def _select(
        self,
        pairs: Sequence[Examined],
        ids: np.ndarray,
        lengths: np.ndarray,
    ) -> Texts:
        reasons = self.statistics.count(lengths, *self._limits)
        of_lengths = iter(reasons.tolist())
        for source, target, reason in pairs:
            if reason:
                self.statistics.drop(reason)
            else:
                reason = next(of_lengths)
            if reason and self._on_dropped is not None:
                self._on_dropped(reason, (source, target))
        keep = np.repeat(reasons == "", 2)
        return ids[np.repeat(keep, lengths)], lengths[keep]

    def _tokenize(self, pairs: Sequence[Examined]) -> Texts:
        passing = list(keep_passing(pairs))
        sources, targets = list(zip(*passing, strict=True)) or ((), ())
        sources = self._task.encode_sources(self._tokenizer, sources)
        targets = self._task.encode_targets(self._tokenizer, targets)
        # Source, target, source, ...
        rows = [*chain.from_iterable(zip(sources, targets, strict=True))]
        ids = np.fromiter(chain.from_iterable(rows), self._dtype)
        return ids, np.fromiter(map(len, rows), np.int64)


def _decoded(pair: tuple[bytes, bytes]) -> tuple[str, str]:
    """Returns texts; as in a graph, U+FFFD is each byte that is not UTF-8."""
    texts = (text.decode(errors="surrogateescape") for text in pair)
    return tuple(map(replace_invalid, texts))


def _make_shards(batches: Iterable[Texts], dtype: type) -> Iterator[TokenShard]:
    ids, lengths, size, is_first = [], [], 0, True
    for new_ids, new_lengths in batches:
        ids.append(new_ids)
        lengths.append(new_lengths)
        size += new_ids.size
        if size >= SHARD_IDS:
            yield _make_shard(ids, lengths, dtype)
            ids, lengths, size, is_first = [], [], 0, False
    if size or is_first:
        yield _make_shard(ids, lengths, dtype)


def _make_shard(
    ids: list[np.ndarray], lengths: list[np.ndarray], dtype: type
) -> TokenShard:
    offsets = np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int32)
    return TokenShard(np.concatenate([np.zeros(0, dtype), *ids]), offsets)


def check_new_vocabulary(vocab_size: int) -> None:
    """Raises InputError if no tokenizer can have so few tokens."""
    if vocab_size < _SMALLEST_VOCABULARY:
        raise InputError(
            f"vocab_size must be at least {_SMALLEST_VOCABULARY}: 4 special "
            "tokens, 256 bytes and a token for each character of the text. "
            f"Received: vocab_size={vocab_size}"
        )


def check_budget(batch_tokens: int, max_length: int, workers: int = 1) -> None:
    """Raises InputError if a pair of `max_length` exceeds a worker's batch."""
    minimum = 2 * max_length * workers
    if batch_tokens < minimum:
        per_worker = f" for each of {workers} workers" if workers > 1 else ""
        raise InputError(
            "batch_tokens counts the tokens of source and target, so it must "
            f"be at least 2 * max_length{per_worker} = {minimum}. Received: "
            f"batch_tokens={batch_tokens}, max_length={max_length}. Raise "
            "batch_tokens or lower max_length."
        )


def _batched(items: Iterable, size: int) -> Iterator[list]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
