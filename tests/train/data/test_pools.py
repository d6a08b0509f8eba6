"""How the pairs of a pool become batches; see also test_batching.py."""

import random

import numpy as np

from keras_transformer.train.data.pools import bucket_lengths, cut_pool


def test_bucket_lengths():
    assert bucket_lengths(33) == [8, 10, 12, 14, 17, 20, 23, 27, 32, 33]
    assert bucket_lengths(32)[-2:] == [27, 32]
    assert bucket_lengths(8) == [8]
    assert bucket_lengths(5) == [5]
    assert len(bucket_lengths(256)) == 24


def test_a_pool_is_cut_from_the_longest_pair_down():
    lengths = random.Random(0).choices(range(2, 21), k=200)
    expected = []
    rest = sorted(lengths, reverse=True)
    while rest:
        padded = min(n for n in bucket_lengths(20) if n >= rest[0])
        size = 300 // (2 * padded)
        expected.append((padded, rest[:size]))
        rest = rest[size:]
    longest_first = sorted(lengths, reverse=True)
    found = []
    for begin, rows, length in cut_pool(np.array(lengths), 300, 20):
        found.append((length, longest_first[begin : begin + rows]))
    assert found == expected
