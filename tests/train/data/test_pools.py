"""How the pairs of a pool become batches; see also test_batching.py."""

import random
import types

import numpy as np
import tensorflow as tf

from keras_transformer.train.data.pools import (
    bucket_lengths,
    cut_pool,
    make_batch,
    padded_rows,
)

IDS = types.SimpleNamespace(pad_id=0, bos_id=2, eos_id=3)


def test_bucket_lengths():
    assert bucket_lengths(33) == [8, 10, 12, 14, 17, 20, 23, 27, 32, 33]
    assert bucket_lengths(32)[-2:] == [27, 32]
    assert bucket_lengths(8) == [8]
    assert bucket_lengths(5) == [5]
    assert len(bucket_lengths(256)) == 24


def test_padded_rows():
    ids = tf.ragged.constant([[5], [6, 7], [8, 9, 8]], dtype=tf.int32)
    rows = padded_rows(ids, 0, 3, 4)
    assert rows.numpy().tolist() == [[5, 3, 0, 0], [6, 7, 3, 0], [8, 9, 8, 3]]


def test_a_pool_is_cut_from_the_longest_pair_down():
    lengths = random.Random(0).choices(range(2, 21), k=200)
    expected = []
    rest = sorted(lengths, reverse=True)
    while rest:
        padded = min(n for n in bucket_lengths(20) if n >= rest[0])
        size = 300 // (2 * padded)
        expected.append((padded, rest[:size]))
        rest = rest[size:]
    order, padded, cuts = cut_pool(tf.constant(lengths, tf.int64), 300, 20)
    chosen = np.array(lengths)[order]
    found = [
        (padded[begin], chosen[begin:end].tolist())
        for begin, end in cuts.numpy()
    ]
    assert found == expected
    assert sorted(order.numpy().tolist()) == list(range(200))
    # Pairs of the same length stay in their order.
    same = [i for i in order.numpy() if lengths[i] == 20]
    assert same == sorted(same)


def test_a_batch():
    source = tf.constant([[5, 3, 0], [6, 7, 3]])
    labels = tf.constant([[8, 9, 3], [4, 3, 0]])
    inputs, found = make_batch(source, labels, IDS)
    assert inputs["source"] is source and found is labels
    assert inputs["target"].numpy().tolist() == [[2, 8, 9], [2, 4, 0]]
