"""Tables that stand for a model in the tests of the search.

`table[prefix]` is the distribution of the next token after a prefix, so that
all hypotheses can be enumerated.
"""

import itertools

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import numpy_search

PAD, UNK, BOS, EOS, A, B = range(6)
VOCAB = 6
WORDS = (A, B)
BANNED = (PAD, UNK, BOS)
LONGEST = 4
# In this order, prefixes are numbered as the nodes of a V-ary tree.
PREFIXES = [
    prefix
    for length in range(LONGEST)
    for prefix in itertools.product(range(VOCAB), repeat=length)
]

# Alpha, and the form of the length penalty.
PENALTIES = [
    dict(alpha=0.0),
    dict(alpha=0.6),
    dict(alpha=5.0),
    dict(alpha=1.0, length_penalty="power"),
    dict(alpha=1.0, length_penalty="power_without_end"),
]


def random_table(seed):
    """Log-probabilities `[V]` after every prefix, also of banned ids."""
    logits = np.random.default_rng(seed).normal(size=(len(PREFIXES), VOCAB))
    logits *= 1.5
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return dict(zip(PREFIXES, log_probs, strict=True))


def table_of(**log_probs):
    """A table by hand: `a=-1` is log P(a), `ab=-2` log P(b | a), `_` the end.

    All others have probability 0.
    """
    ids = {"a": A, "b": B, "_": EOS}
    table = {prefix: np.full(VOCAB, -np.inf) for prefix in PREFIXES}
    for name, value in log_probs.items():
        *prefix, token = (ids[letter] for letter in name)
        table[tuple(prefix)][token] = value
    return table


def as_array(tables):
    """Returns float32 `[B, prefixes, V]`."""
    return np.array([list(table.values()) for table in tables], np.float32)


class TableDecoding:
    """Decodes with one table per row, as `numpy_search.beam_search` asks."""

    finished_share = 0.5

    def __init__(self, tables, num_candidates):
        self.log_probs = as_array(tables)
        self.num_candidates = num_candidates
        self.nodes = None  # [B, K] the prefix of each hypothesis
        self.batch_sizes = []  # of each step

    def step(self, ids, parents, forced_ids):
        rows = np.arange(len(ids))[:, None]
        if self.batch_sizes:
            self.nodes = self.nodes[rows, parents] * VOCAB + ids + 1
        else:
            self.nodes = np.zeros_like(ids)
        self.batch_sizes.append(len(ids))
        log_probs = self.log_probs[rows, self.nodes]
        tokens = np.argsort(-log_probs, axis=-1, kind="stable")
        tokens = tokens[..., : self.num_candidates].astype(np.int32)
        best, forced = (
            np.take_along_axis(log_probs, x, axis=-1)
            for x in (tokens, forced_ids[..., None])
        )
        return numpy_search.Predictions(best, tokens, forced)

    def keep(self, rows):
        self.log_probs = self.log_probs[rows]
        self.nodes = self.nodes[rows]


def tables_as_step(tables, count):
    """Returns a step function on one table per row, for `count` hypotheses.

    Returns:
        The step, its first cache, and a list to which each call adds the
        number of sentences.
    """
    calls = []

    def step(ids, parents, cache, index):
        log_probs, node = cache
        calls.append(len(ids))
        child = tf.gather(node, parents, batch_dims=1) * VOCAB + ids + 1
        node = tf.where(index == 0, tf.zeros_like(child), child)
        return tf.gather(log_probs, node, batch_dims=1), (log_probs, node)

    nodes = tf.zeros([len(tables), count], tf.int32)
    return step, (tf.constant(as_array(tables)), nodes), calls


def hypotheses(result, row):
    """`[(score, ids)]` of a row; unused slots must be empty."""
    found = []
    for ids, score, n in zip(*(field[row] for field in result), strict=True):
        assert (ids[n:] == PAD).all()
        assert (n == 0) == (score == -np.inf)
        if n:
            found.append((float(score), tuple(ids[:n].tolist())))
    return found


def assert_same(found, expected):
    assert [ids for _, ids in found] == [ids for _, ids in expected]
    scores = [[score for score, _ in x] for x in (found, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-5)


def penalty(length, alpha, length_penalty="wu"):
    """The penalty of a length that counts the end token, by its definition."""
    if length_penalty == "power":
        return length**alpha
    if length_penalty == "power_without_end":
        return max(length - 1, 1) ** alpha
    return ((5 + length) / 6) ** alpha


def score(table, ids, alpha, length_penalty="wu"):
    log_prob = sum(table[ids[:i]][token] for i, token in enumerate(ids))
    return log_prob / penalty(len(ids), alpha, length_penalty)


def repeats(ids, size):
    """Whether the last n-gram is there twice."""
    ngrams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
    return bool(size) and ngrams[-1:] != [] and ngrams[-1] in ngrams[:-1]
