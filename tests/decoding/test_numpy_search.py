"""The rules of lengths, which all engines share."""

import numpy as np
import pytest
import tensorflow as tf
from search_tables import repeats as ends_twice

from keras_transformer.decoding.numpy_search import longest_outputs, repeats
from keras_transformer.text.ids import padded


@pytest.mark.parametrize("library", [np, tf])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_repeats(library, size):
    """Compared with all n-grams, one by one."""
    generator = np.random.default_rng(size)
    for length in range(9):
        ids = generator.integers(0, 2, [3, 4, length])
        tokens, are_repeats = map(np.array, repeats(library, ids, size))
        for place in np.ndindex(3, 4):
            own = ids[place].tolist()
            expected = {
                token for token in range(2) if ends_twice([*own, token], size)
            }
            assert {*tokens[place][are_repeats[place]].tolist()} == expected


def test_rows_are_padded():
    assert padded([[5], [], [7, 8]], 9).tolist() == [[5, 9], [9, 9], [7, 8]]


@pytest.mark.parametrize(
    ("source", "prefix", "factor", "extra", "expected"),
    [
        (4, 0, 1.0, 3, 7),
        (4, 2, 1.0, 3, 9),  # the prefix comes first
        (5, 0, 0.5, 0, 2),  # rounded down
        (1, 0, 0.5, 0, 1),  # at least the end token
        (9, 0, 3.0, 3, 20),
        (9, 8, 1.0, 9, 20),
    ],
)
def test_longest_outputs(source, prefix, factor, extra, expected):
    source, prefix = np.float32([[source], [prefix]])
    lengths = longest_outputs(np, source, prefix, factor, extra, 20)
    np.testing.assert_array_equal(lengths, [expected])
