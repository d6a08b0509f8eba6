"""Statistics and checksums of the pairs of a split."""

import dataclasses
import math

import numpy as np
import tensorflow as tf

from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text.tokenizer import Tokenizer
from keras_transformer.train.data.batching import filter_pairs
from keras_transformer.train.data.pipeline import SHUFFLE_BUFFER
from keras_transformer.train.data.reading import NUM_PARALLEL_CALLS, READ_BATCH

# A file counts as sorted if its first and its last tenth differ by more than
# this many standard deviations in the mean length, ...
_LENGTH_SHIFT = 0.5
# ... or by more than this share of the tokens, beyond what chance explains.
# The shuffled bundled corpus and Multi30k stay below 0.02 in both. Sorted by
# length they reach 3 standard deviations, and 0.2 of the tokens if source and
# target are swapped in the second half.
_TOKEN_SHIFT = 0.1
# Tokens are counted in this many groups of ids.
_GROUPS = 32


@dataclasses.dataclass(frozen=True)
class Statistics:
    """What training uses of a split, and what it drops.

    Attributes:
        pairs: Number of pairs that are kept.
        dropped_long: Number of pairs dropped because a side has more than
            `max_length` tokens, including its end token.
        dropped_empty: Number of pairs dropped because a side has no token.
        source_tokens: Source tokens of the kept pairs, with end tokens.
        target_tokens: Target tokens of the kept pairs, with end tokens.
        longest: Tokens of the longest text, dropped or not, with its end
            token.
        sorted_by: `"length"` or `"kind"` if the pairs seem to be sorted by
            length or by language, domain or the like; None otherwise.
    """

    pairs: int
    dropped_long: int
    dropped_empty: int
    source_tokens: int
    target_tokens: int
    longest: int
    sorted_by: str | None = None

    def describe(self, max_length: int) -> str:
        """Returns what is kept and what is dropped as a line of text."""
        return (
            f"{self.pairs:,} pairs kept, {self.source_tokens:,} source and "
            f"{self.target_tokens:,} target tokens; dropped "
            f"{self.dropped_long:,} longer than {max_length} tokens and "
            f"{self.dropped_empty:,} with an empty side; the longest text has "
            f"{self.longest:,} tokens"
        )

    def order_warning(self) -> str | None:
        """Returns a warning about the order of the pairs, None if it is fine.

        It is meant for the training split.
        """
        if self.sorted_by == "length":
            reason = "by length: they are shorter or longer at the end"
        elif self.sorted_by == "kind":
            reason = (
                "by language or kind: the first and the last ones have "
                "different words"
            )
        else:
            return None
        return (
            f"The pairs seem to be sorted {reason}. Training draws from "
            f"{SHUFFLE_BUFFER:,} pairs at a time, so shuffle a longer corpus "
            "before training."
        )


def collect_statistics(
    pairs: tf.data.Dataset,
    tokenizer: Tokenizer,
    max_length: int,
    task: Task | None = None,
) -> Statistics:
    """Counts in one pass what is kept and what is dropped.

    The pairs seem sorted if the kept pairs of the first and of the last tenth
    differ more than a shuffled file could: in the mean length, or in how often
    tokens occur in the sources or in the targets. A file with fewer than about
    10,000 pairs is not examined: training shuffles it completely.

    Args:
        pairs: Finite dataset of (source, target) scalar strings.
        tokenizer: The `Tokenizer`.
        max_length: Maximum number of tokens in a text, including its end
            token.
        task: The task. Default: translation.
    """
    task = task or TranslationTask()

    def count(source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        s_ids = tokenizer.tokenize(source)
        t_ids = task.target_ids(tokenizer, target)
        return count_pairs(s_ids, t_ids, max_length)

    counts = pairs.batch(READ_BATCH).map(count, NUM_PARALLEL_CALLS)
    return summarize(list(counts.as_numpy_iterator()))


def count_pairs(
    source: tf.RaggedTensor, target: tf.RaggedTensor, max_length: int
) -> dict[str, tf.Tensor]:
    """Counts what `summarize` needs of some consecutive pairs.

    Args:
        source: Ids of the sources, `[N, (T)]`, without end tokens.
        target: Ids of the targets, `[N, (T)]`, without end tokens.
        max_length: As in `collect_statistics`.
    """
    s, t = source.row_lengths() + 1, target.row_lengths() + 1  # [N]
    keep, empty = filter_pairs(s, t, max_length)
    kept_s, kept_t = tf.boolean_mask(s, keep), tf.boolean_mask(t, keep)

    def count_groups(ids: tf.RaggedTensor) -> tf.Tensor:
        kept = tf.ragged.boolean_mask(ids, keep).flat_values
        return tf.math.bincount(
            kept % _GROUPS, minlength=_GROUPS, dtype=tf.int64
        )

    return {
        "pairs": tf.size(kept_s, tf.int64),
        "dropped_long": tf.math.count_nonzero(~keep & ~empty),
        "dropped_empty": tf.math.count_nonzero(empty),
        "source_tokens": tf.reduce_sum(kept_s),
        "target_tokens": tf.reduce_sum(kept_t),
        "squared_tokens": tf.reduce_sum((kept_s + kept_t) ** 2),
        "longest": tf.reduce_max(tf.maximum(s, t)),
        "source_groups": count_groups(source),
        "target_groups": count_groups(target),
    }


def summarize(parts: list[dict[str, np.ndarray]]) -> Statistics:
    """Returns the statistics of a split from the counts of its parts.

    Args:
        parts: What `count_pairs` returns for all pairs, in file order.
    """
    if not parts:
        return Statistics(0, 0, 0, 0, 0, 0)
    total = _sum(parts)
    return Statistics(
        pairs=int(total["pairs"]),
        dropped_long=int(total["dropped_long"]),
        dropped_empty=int(total["dropped_empty"]),
        source_tokens=int(total["source_tokens"]),
        target_tokens=int(total["target_tokens"]),
        longest=max(int(part["longest"]) for part in parts),
        sorted_by=_sorted_by(parts),
    )


def _sorted_by(parts: list[dict[str, np.ndarray]]) -> str | None:
    """Returns the `sorted_by` of `Statistics` from the counts of each part."""
    tenth = len(parts) // 10
    if tenth == 0:
        return None
    total, first, last = _sum(parts), _sum(parts[:tenth]), _sum(parts[-tenth:])
    if first["pairs"] == 0 or last["pairs"] == 0:
        return None
    variance = total["squared_tokens"] / total["pairs"] - _mean(total) ** 2
    shift = abs(_mean(first) - _mean(last))
    if shift > _LENGTH_SHIFT * math.sqrt(variance):
        return "length"
    for side in ("source_groups", "target_groups"):
        if _token_shift(first[side], last[side]) > _TOKEN_SHIFT:
            return "kind"
    return None


def _mean(part: dict[str, np.ndarray]) -> float:
    """Returns the mean number of tokens of a pair."""
    return (part["source_tokens"] + part["target_tokens"]) / part["pairs"]


def _token_shift(first: np.ndarray, last: np.ndarray) -> float:
    """Returns the share of tokens that differ, less what chance explains.

    The share is the total variation distance of two distributions. That of
    two samples of `n` tokens from one distribution is `sqrt(groups / (pi n))`
    at most, on average.
    """
    distance = np.abs(first / first.sum() - last / last.sum()).sum() / 2
    tokens = min(first.sum(), last.sum())
    return distance - math.sqrt(_GROUPS / (math.pi * tokens))


def _sum(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def checksum(*datasets: tf.data.Dataset) -> int:
    """Returns 32 bits that depend on the texts and on their order.

    Args:
        *datasets: Finite datasets of (source, target) scalar strings. Their
            order matters too.
    """

    def hash_batch(source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        hashes = tf.strings.to_hash_bucket_fast(source + "\t" + target, 2**31)
        places = tf.range(1, tf.size(hashes, tf.int64) + 1)
        return tf.reduce_sum(hashes * places)

    total = tf.constant(0, tf.int64)
    for pairs in datasets:
        hashes = pairs.batch(READ_BATCH).map(hash_batch, NUM_PARALLEL_CALLS)
        # Overflow is intended: the arithmetic is modulo 2^64.
        total = hashes.reduce(total, lambda so_far, new: so_far * 31 + new)
    return int(total) % 2**32
