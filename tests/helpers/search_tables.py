"""Tables that stand for a model in the tests of the search.

`table[prefix]` is the distribution of the next token after a prefix, so that
all hypotheses can be enumerated.
"""

import itertools

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import beam_search

PAD, UNK, BOS, EOS, A, B = range(6)
VOCAB = 6
WORDS = (A, B)
LONGEST = 4


def prefixes(longest=LONGEST):
    for length in range(longest):
        yield from itertools.product(range(VOCAB), repeat=length)


def random_table(seed):
    """Log-probabilities `[V]` after every prefix, also of banned ids."""
    random = np.random.default_rng(seed)
    logits = {prefix: random.normal(size=VOCAB) * 1.5 for prefix in prefixes()}
    return {p: z - np.log(np.exp(z).sum()) for p, z in logits.items()}


def table_of(**log_probs):
    """A table by hand: `a=-1` is log P(a), `ab=-2` log P(b | a), `_` the end.

    All others have probability 0.
    """
    ids = {"a": A, "b": B, "_": EOS}
    table = {p: np.full(VOCAB, -np.inf) for p in prefixes()}
    for name, value in log_probs.items():
        *prefix, token = (ids[letter] for letter in name)
        table[tuple(prefix)][token] = value
    return table


def tables_as_step(tables, count, max_lengths=(LONGEST,)):
    """Returns a step function on one table per row, for `count` hypotheses.

    Returns:
        The step, its first cache, and a list to which each call adds the
        number of sentences.
    """
    # Prefixes are numbered in the order of `prefixes`, as a V-ary tree.
    longest = max(*max_lengths, 1)
    rows = [[table[p] for p in prefixes(longest)] for table in tables]
    log_probs = tf.constant(np.array(rows), tf.float32)  # [B, prefixes, V]
    calls = []

    def step(ids, parents, cache, index):
        log_probs, node = cache
        calls.append(len(ids))
        child = tf.gather(node, parents, batch_dims=1) * VOCAB + ids + 1
        node = tf.where(index == 0, tf.zeros_like(child), child)
        return tf.gather(log_probs, node, batch_dims=1), (log_probs, node)

    return step, (log_probs, tf.zeros([len(tables), count], tf.int32)), calls


def hypotheses(result, row):
    """`[(score, ids)]` of a row; unused slots must be empty."""
    found = []
    for ids, score, n in zip(*(field[row] for field in result), strict=True):
        assert (ids[n:] == PAD).all()
        assert (n == 0) == (score == -np.inf)
        if n:
            found.append((float(score), tuple(ids[:n].tolist())))
    return found


# Alpha, and the form of the length penalty.
PENALTIES = [
    dict(alpha=0.0),
    dict(alpha=0.6),
    dict(alpha=5.0),
    dict(alpha=0.6, length_penalty="power"),
    dict(alpha=1.0, length_penalty="power"),
    dict(alpha=1.0, length_penalty="power_without_end"),
    dict(alpha=5.0, length_penalty="power_without_end"),
]
# What a beam search may differ in.
STOPS = ("exact", "finished", "heuristic")
SEARCHES = [dict(x, stop=stop) for x in PENALTIES for stop in STOPS]


def penalty(length, alpha, length_penalty="wu", stop="exact"):
    """The penalty of a length that counts the end token, by its definition."""
    if length_penalty == "power":
        return length**alpha
    if length_penalty == "power_without_end":
        return max(length - 1, 1) ** alpha
    return ((5 + length) / 6) ** alpha


def score(table, ids, alpha, length_penalty="wu", stop="exact"):
    log_prob = sum(table[ids[:i]][token] for i, token in enumerate(ids))
    return log_prob / penalty(len(ids), alpha, length_penalty)


def search_tables(
    search,
    tables,
    max_lengths,
    graph=False,
    bos=BOS,
    banned=(PAD, UNK, BOS),
    prefix=None,
    count=None,
):
    """Searches a batch with one table per row.

    Returns:
        `SearchResult` of arrays, and the number of sentences of each step.
    """
    step, cache, calls = tables_as_step(tables, search.beam_size, max_lengths)

    def run():
        return beam_search(
            step,
            cache,
            tf.constant(max_lengths),
            search,
            count,
            bos_id=bos,
            eos_id=EOS,
            pad_id=PAD,
            banned_ids=banned,
            prefix=prefix,
        )

    result = tf.function(run)() if graph else run()
    return tf.nest.map_structure(lambda x: x.numpy(), result), calls


def assert_same(found, expected):
    assert [ids for _, ids in found] == [ids for _, ids in expected]
    np.testing.assert_allclose(
        [score for score, _ in found],
        [score for score, _ in expected],
        rtol=1e-5,
    )


def all_hypotheses(table, max_length, **penalties):
    """Every possible hypothesis with its score, best first."""
    found = [
        (score(table, (*words, EOS), **penalties), (*words, EOS))
        for length in range(max_length)
        for words in itertools.product(WORDS, repeat=length)
    ]
    return sorted(found, reverse=True)


def repeats(ids, size):
    """Whether the last n-gram is there twice."""
    ngrams = [tuple(ids[i : i + size]) for i in range(len(ids) - size + 1)]
    return bool(size) and ngrams[-1:] != [] and ngrams[-1] in ngrams[:-1]


def search_by_definition(
    table, beam_size, max_length, no_repeat_ngram=0, **penalties
):
    """Beam search by its definition, without batches.

    What stops as soon as the result is certain has the result of the maximum
    length, to which it continues here.
    """
    live, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        allowed = (EOS, *WORDS) if length < max_length else (EOS,)
        candidates = [
            ((*ids, token), log_prob + table[ids][token])
            for ids, log_prob in live
            for token in allowed
            if not repeats((*ids, token), no_repeat_ngram)
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        finished += [
            (log_prob / penalty(length, **penalties), ids)
            for ids, log_prob in candidates[:beam_size]
            if ids[-1] == EOS
        ]
        live = [c for c in candidates if c[0][-1] != EOS][:beam_size]
        if beam_size == 1 and finished:
            break
        stop = penalties.get("stop", "exact")
        if stop == "exact" or len(finished) < beam_size:
            continue
        finished.sort(key=lambda hypothesis: -hypothesis[0])
        best = max((x for _, x in live), default=-np.inf)
        worst, _ = finished[beam_size - 1]
        if stop == "finished" or best / penalty(length, **penalties) <= worst:
            break
    return sorted(finished, key=lambda hypothesis: -hypothesis[0])[:beam_size]
