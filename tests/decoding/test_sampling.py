"""Sampling against exact distributions, which tables define."""

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from search_tables import (
    BANNED,
    BOS,
    EOS,
    LONGEST,
    PAD,
    PENALTIES,
    UNK,
    WORDS,
    A,
    B,
    assert_same,
    hypotheses,
    random_table,
    score,
    table_of,
    tables_as_step,
)

from keras_transformer.decoding import sample
from keras_transformer.decoding.sampling import (
    _choose,
    _draw,
    _filtered,
    _random_numbers,
)
from keras_transformer.decoding.settings import Sampling
from keras_transformer.text.ids import SpecialIds

MANY = 2000
# Of a chi-square distribution with up to 14 degrees of freedom, 36.1 is
# exceeded once in a thousand seeds.
CHI_SQUARE = 36.1
TOKENS = SpecialIds(BOS, EOS, PAD, BANNED)


def sample_tables(
    tables,
    max_lengths=None,
    keys=None,
    graph=False,
    prefix=None,
    tokens=TOKENS,
    **settings,
):
    """Samples from a batch with one table per row.

    Returns:
        `SearchResult` of arrays, and the number of sentences of each step.
    """
    settings = Sampling(**settings)
    limits = max_lengths or [LONGEST] * len(tables)
    keys = keys or range(len(tables))
    step, cache, calls = tables_as_step(tables, settings.num_hypotheses)

    def run():
        limit, key = tf.constant(limits), tf.constant(list(keys), tf.int64)
        return sample(step, cache, limit, key, settings, tokens, prefix)

    result = tf.function(run)() if graph else run()
    return tf.nest.map_structure(lambda x: x.numpy(), result), calls


def samples(table, max_length=LONGEST, **settings):
    """`[(score, ids)]` of one table."""
    result, _ = sample_tables([table], [max_length], **settings)
    return hypotheses(result, 0)


def filtered(log_probs, temperature, top_k, top_p):
    """The distribution of a token, in float64, token by token."""
    allowed = [EOS, *WORDS]
    weights = np.exp(log_probs[allowed] / temperature)
    ranked = sorted(zip(weights, allowed, strict=True), reverse=True)
    ranked = ranked[: top_k or None]
    total = sum(weight for weight, _ in ranked)
    kept, mass = {}, 0.0
    for weight, token in ranked:
        if top_p == 1.0 or mass < top_p * total:
            kept[token] = weight
        mass += weight
    return {token: w / sum(kept.values()) for token, w in kept.items()}


def distribution(table, max_length, *settings):
    """`{ids: probability}` of every sample that is possible."""
    found = {}
    for length in range(max_length):
        for words in itertools.product(WORDS, repeat=length):
            ids, probability = (*words, EOS), 1.0
            for i, token in enumerate(ids):
                if i + 1 < max_length:  # the last is forced
                    allowed = filtered(table[ids[:i]], *settings)
                    probability *= allowed.get(token, 0.0)
            if probability:
                found[ids] = probability
    assert sum(found.values()) == pytest.approx(1.0)
    return found


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [
        (1.0, 0, 1.0),
        (0.5, 0, 1.0),
        (1.0, 2, 1.0),
        (1.5, 0, 0.5),
        # Top-p counts what top-k has left: of two tokens the first is enough.
        (1.0, 2, 0.55),
        # The best token alone.
        (0.01, 0, 1.0),
        (1.0, 0, 1e-6),
    ],
)
def test_frequencies_are_those_of_the_filtered_distribution(
    temperature, top_k, top_p
):
    tables = [random_table(seed) for seed in range(3)]
    limits = [LONGEST, 3, 2]
    # Several rows per table: a row has at most 256 samples.
    rows = MANY // 250
    result, _ = sample_tables(
        [table for table in tables for _ in range(rows)],
        [limit for limit in limits for _ in range(rows)],
        num_samples=250,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
    )
    for i, (table, limit) in enumerate(zip(tables, limits, strict=True)):
        expected = distribution(table, limit, temperature, top_k, top_p)
        found = dict.fromkeys(expected, 0)
        for row in range(i * rows, (i + 1) * rows):
            for _, ids in hypotheses(result, row):
                found[ids] += 1  # no other is possible
        chi_square = sum(
            (found[ids] - MANY * p) ** 2 / (MANY * p)
            for ids, p in expected.items()
        )
        assert chi_square < CHI_SQUARE, (found, expected)


def test_samples_depend_on_the_seed():
    tables = [random_table(seed) for seed in range(4)]
    (first, _), (other, _) = (
        sample_tables(tables, num_samples=8, seed=seed) for seed in (1, 2)
    )
    assert not np.array_equal(first.ids, other.ids)
    graph, _ = sample_tables(tables, num_samples=8, seed=1, graph=True)
    np.testing.assert_array_equal(first.ids, graph.ids)
    np.testing.assert_allclose(first.scores, graph.scores, rtol=1e-5)


def test_keys_tell_sentences_apart():
    table = random_table(0)
    result, _ = sample_tables([table] * 3, keys=[5, 6, 5], num_samples=8)
    first, other, again = result.ids.tolist()
    assert first == again != other


def test_a_row_does_not_depend_on_its_batch():
    tables = [random_table(seed) for seed in range(8)]
    limits = [4, 1, 3, 4, 2, 4, 4, 3]
    settings = dict(num_samples=5, top_p=0.9)
    together, _ = sample_tables(tables, limits, **settings)
    order = [6, 2, 7, 0]
    others, _ = sample_tables(
        [tables[i] for i in order],
        [limits[i] for i in order],
        order,
        **settings,
    )
    for row, i in enumerate(order):
        assert_same(hypotheses(others, row), hypotheses(together, i))


def test_more_samples_contain_the_fewer():
    table = random_table(0)
    found = Counter(ids for _, ids in samples(table, num_samples=9))
    for count in (1, 5):
        fewer = Counter(ids for _, ids in samples(table, num_samples=count))
        assert fewer <= found


@pytest.mark.parametrize("penalties", PENALTIES)
def test_samples_are_scored_by_the_model_and_best_first(penalties):
    table = random_table(1)
    found = samples(table, num_samples=20, temperature=2.0, **penalties)
    assert found == sorted(found, key=lambda sampled: -sampled[0])
    assert len({ids for _, ids in found}) > 5
    for value, ids in found:
        assert value == pytest.approx(score(table, ids, **penalties), rel=1e-5)
    result, _ = sample_tables([table])
    assert result.scores.dtype == np.float32
    assert result.ids.dtype == result.lengths.dtype == np.int32


def test_banned_ids_are_never_drawn():
    table = random_table(0)
    for log_probs in table.values():
        log_probs[[PAD, UNK, BOS]] = 5.0
    # None of the three most likely tokens would be allowed.
    found = samples(table, num_samples=200, top_k=3)
    assert {token for _, ids in found for token in ids} == {EOS, A, B}


@pytest.mark.parametrize("start", [PAD, EOS])
def test_the_start_id_may_be_padding_or_the_end(start):
    table = random_table(0)
    expected = samples(table, num_samples=50)
    assert len({ids for _, ids in expected}) > 5
    tokens = TOKENS._replace(bos_id=start)
    assert_same(samples(table, num_samples=50, tokens=tokens), expected)


def test_only_banned_ids_are_banned():
    table = table_of(a=-1.0, a_=0.0)
    table[()][UNK] = 0.0
    table[UNK,][EOS] = 0.0
    tokens = TOKENS._replace(banned_ids=())
    found = samples(table, num_samples=50, tokens=tokens)
    assert {ids for _, ids in found} == {(UNK, EOS), (A, EOS)}


@pytest.mark.parametrize("limit", [-1, 3])
def test_the_last_token_is_the_end(limit):
    table = random_table(0)
    for log_probs in table.values():
        log_probs[EOS] = -50.0
    for value, ids in samples(table, limit, num_samples=20):
        assert len(ids) == max(limit, 1) and ids.index(EOS) == len(ids) - 1
        assert value == pytest.approx(score(table, ids, 0.6), rel=1e-5)


def test_prefix():
    table = random_table(0)
    prefix = tf.constant([[B, A], [A, PAD], [PAD, PAD], [B, EOS]])
    result, _ = sample_tables([table] * 4, num_samples=50, prefix=prefix)
    for row, start in enumerate(((B, A), (A,), (), (B, EOS))):
        found = hypotheses(result, row)
        assert {ids[: len(start)] for _, ids in found} == {start}
        assert (len({ids for _, ids in found}) == 1) == (EOS in start)
        for value, ids in found:
            assert value == pytest.approx(score(table, ids, 0.6), rel=1e-5)


def test_sentences_that_are_done_leave_the_batch():
    short, long = table_of(_=0.0), table_of(a=0.0, ab=0.0, aba=0.0, aba_=0.0)
    result, calls = sample_tables([short, long, short], num_samples=2)
    assert calls == [3, 1, 1, 1]
    for row, ids in enumerate([(EOS,), (A, B, A, EOS), (EOS,)]):
        assert hypotheses(result, row) == [(0.0, ids)] * 2


def test_empty_batch():
    no_lengths, no_keys = tf.zeros([0], tf.int32), tf.zeros([0], tf.int64)
    settings = Sampling(num_samples=3)
    result = sample(None, (), no_lengths, no_keys, settings, TOKENS)
    assert result.ids.shape == (0, 3, 0)
    assert result.scores.shape == result.lengths.shape == (0, 3)


@pytest.mark.parametrize("vocab_size", [6400, 2003])
@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_top_k_and_top_p_of_a_large_vocabulary(vocab_size, spread):
    """With and without blocks; a nucleus of most tokens, and one of few."""
    logits = np.random.default_rng(0).normal(size=(1, 2, vocab_size)) * spread
    logits = logits.astype("float32")
    for top_k, top_p in ((0, 0.9), (7, 1.0), (1500, 0.8), (10**6, 0.5)):
        settings = Sampling(0.8, top_k, top_p)
        found = _filtered(tf.constant(logits), settings).numpy()
        for row, kept in zip(logits[0], np.isfinite(found[0]), strict=True):
            order = np.argsort(-row)[: top_k or None]
            weights = np.exp(row[order] / 0.8)
            before = np.cumsum(weights) - weights
            expected = order[before < top_p * weights.sum()]
            # Sums in float32 may differ by a token at the end.
            differing = set(expected) ^ set(np.flatnonzero(kept))
            assert len(differing) <= (vocab_size // 1000 if top_p < 1 else 0)
            assert np.allclose(row[kept].max(), row.max())


def test_tokens_of_all_blocks_are_drawn_as_often_as_they_are_likely():
    tokens = [0, 1, 127, 128, 300, 301, 302, 500, 639]  # of five blocks
    logits = np.full(640, -np.inf, "float32")
    logits[tokens] = np.random.default_rng(0).normal(size=len(tokens))
    logits -= logits.max()
    numbers = _random_numbers(0, tf.range(MANY), tf.range(1), tf.constant(0))
    batch = tf.broadcast_to(logits, [MANY, 1, 640])
    found = np.bincount(_draw(batch, *numbers).numpy()[:, 0], minlength=640)
    assert found[tokens].sum() == MANY
    expected = MANY * np.exp(logits[tokens]) / np.exp(logits[tokens]).sum()
    chi_square = ((found[tokens] - expected) ** 2 / expected).sum()
    assert chi_square < CHI_SQUARE


def test_a_token_without_weight_is_never_chosen():
    weights = tf.constant([[[0.0, 0.0, 1.0, 0.0, 1.0, 0.0]]])
    for number, index in ((0.0, 2), (0.5 - 2**-31, 2), (1.0 - 2**-31, 4)):
        chosen = _choose(weights, tf.constant([[number]], tf.float64))
        assert chosen.numpy().tolist() == [[index]]


def test_samples_repeat_no_ngram():
    table = random_table(3)
    some = samples(table, num_samples=100)
    assert any(len({*ids}) < len(ids) for _, ids in some)
    found = samples(table, num_samples=100, no_repeat_ngram=1, alpha=0.0)
    for log_prob, ids in found:
        assert len({*ids}) == len(ids)
        # The score is the model's own.
        assert log_prob == pytest.approx(score(table, ids, 0.0), rel=1e-5)
    assert {(A, EOS), (A, B, EOS), (B, A, EOS)} < {ids for _, ids in found}
