"""Turns pairs of texts into the token ids that training reads."""

import dataclasses
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Vocabulary
from keras_transformer.text.normalization import replace_invalid

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
    dropped_long: int = 0  # because a side has more than `max_length` tokens
    dropped_empty: int = 0  # because a side has no token but the end token
    source_tokens: int = 0  # of the kept pairs
    target_tokens: int = 0
    longest: int = 0  # tokens of the longest text, dropped or not

    @property
    def read(self) -> int:
        """Number of pairs, kept or dropped."""
        return self.pairs + self.dropped_long + self.dropped_empty

    def count(
        self,
        lengths: np.ndarray,
        max_length: int,
        max_ratio: float | None = None,
    ) -> np.ndarray:
        """Adds pairs, and returns which of them are kept.

        The lengths are those of source, target, source, ..., without end
        tokens, which the limits include. Pairs that are dropped for the ratio
        of their longer side to the shorter one alone are not counted.
        """
        lengths = lengths.reshape(-1, 2) + 1
        shorter, longer = lengths.min(axis=1), lengths.max(axis=1)
        is_empty = shorter < 2
        is_long = ~is_empty & (longer > max_length)
        keep = ~is_empty & ~is_long
        if max_ratio is not None:
            keep &= longer <= max_ratio * shorter
        source_tokens, target_tokens = lengths[keep].sum(axis=0).tolist()
        self.pairs += int(keep.sum())
        self.dropped_long += int(is_long.sum())
        self.dropped_empty += int(is_empty.sum())
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens
        self.longest = max(self.longest, int(longer.max(initial=0)))
        return keep

    def describe(self, max_length: int) -> str:
        """Returns what is kept and what is dropped as a line of text."""
        return (
            f"{self.pairs:,} pairs kept, {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens; dropped "
            f"{self.dropped_long:,} longer than {max_length} tokens and "
            f"{self.dropped_empty:,} with an empty side; the longest text has "
            f"{self.longest:,} tokens"
        )


class PairEncoder:
    """Tokenizes pairs, and drops those that training cannot use.

    These have an empty side or one of more than `max_length` tokens, with the
    end token. `statistics` are those of all pairs so far.
    """

    def __init__(
        self, tokenizer: Vocabulary, max_length: int, task: Task | None = None
    ) -> None:
        self.statistics = Statistics()
        self._tokenizer = tokenizer
        self._task = task or TranslationTask()
        self._max_length = max_length
        self._dtype = ids_dtype(tokenizer)

    def shards(
        self, pairs: "Iterable[tuple[str, str]] | tf.data.Dataset"
    ) -> Iterator[TokenShard]:
        """Yields the ids of the pairs that are kept, as `make_shards` does."""
        if hasattr(pairs, "as_numpy_iterator"):
            pairs = map(_decoded, pairs.as_numpy_iterator())
        return make_shards(self._encode(pairs), self._dtype)

    def _encode(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Texts]:
        """Yields ids and lengths of the texts of a batch that are kept."""
        cores = available_cores()
        with ThreadPoolExecutor(cores) as executor:
            # `map` takes all batches that it is given at once.
            for batches in _batched(_batched(pairs, BATCH), 4 * cores):
                for ids, lengths in executor.map(self._tokenize_batch, batches):
                    keep = self.statistics.count(lengths, self._max_length)
                    keep = np.repeat(keep, 2)
                    yield ids[np.repeat(keep, lengths)], lengths[keep]

    def _tokenize_batch(self, pairs: list[tuple[str, str]]) -> Texts:
        sources, targets = zip(*pairs, strict=True)
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


def ids_dtype(tokenizer: Vocabulary) -> type:
    """Returns the type of the ids in a shard."""
    size = max(tokenizer.source.vocab_size, tokenizer.target.vocab_size)
    return np.uint16 if size <= 2**16 else np.int32


def make_shards(batches: Iterable[Texts], dtype: type) -> Iterator[TokenShard]:
    """Yields shards of the ids and lengths of batches, in their order.

    There is at least one shard, and only the last one is small.
    """
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


def check_max_length(max_length: int) -> None:
    """Raises InputError if it is less than 2."""
    if max_length < 2:
        raise InputError(
            "max_length must be at least 2, one token and the end token. "
            f"Received: max_length={max_length}"
        )


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
    check_max_length(max_length)
    minimum = 2 * max_length * workers
    if batch_tokens < minimum:
        per_worker = f" for each of {workers} workers" if workers > 1 else ""
        raise InputError(
            "batch_tokens counts the tokens of source and target, so it must "
            f"be at least 2 * max_length{per_worker} = {minimum}. Received: "
            f"batch_tokens={batch_tokens}, max_length={max_length}. Raise "
            "batch_tokens or lower max_length."
        )


def check_pairs(pairs: int, max_length: int, workers: int = 1) -> None:
    """Raises InputError if there are too few pairs to train on."""
    if not pairs:
        raise InputError(
            "No pair is left to train on: each has an empty side or more "
            "tokens than max_length. Increase max_length, or check the data. "
            f"Received: max_length={max_length}"
        )
    if pairs < workers:
        raise InputError(
            "Each worker needs a pair to train on. Received: "
            f"{pairs:,} pairs for {workers} workers"
        )


def _batched(items: Iterable, size: int) -> Iterator[list]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
