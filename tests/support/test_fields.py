import dataclasses
import json
import math

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.support import fields
from keras_transformer.support.errors import InputError


@fields.document_fields
@dataclasses.dataclass(kw_only=True)
class Example:
    """An example.

    It has a second paragraph.
    """

    count: int = fields.described(fields.POSITIVE_INTEGER, "number of things")
    name: str = fields.described(
        fields.one_of("a", "b"), "one of two names", default="a"
    )
    limit: float | None = fields.described(
        fields.POSITIVE_NUMBER, "limit, if there is one", default=None
    )

    def __post_init__(self):
        fields.check_fields(self)


@pytest.mark.parametrize(
    ("rule", "accepted", "rejected"),
    [
        (
            fields.POSITIVE_INTEGER,
            [1, 7, np.int64(7), np.uint8(1)],
            [0, -1, 1.0, True, "1", None, np.int64(0), np.float64(1)],
        ),
        (fields.NON_NEGATIVE_INTEGER, [0, 1], [-1, 0.0, False, "0", None]),
        (
            fields.POSITIVE_NUMBER,
            [0.5, 1, 1e30, np.float32(0.5), np.int8(1)],
            [0, 0.0, -1.0, math.inf, math.nan, True, "1", None],
        ),
        (fields.FRACTION, [0, 0.0, 0.99], [1, -0.1, math.nan, False, "0"]),
        (fields.integer_from(1, 3), [1, 3], [0, 4, 2.0, True, None]),
        (fields.number_from(0, 5), [0, 0.5, 5.0], [-0.1, 5.1, math.nan, "1"]),
        (fields.SEED, [0, 2**32 - 1], [-1, 2**32, 1.0, True]),
        (fields.BOOLEAN, [True, False, np.True_], [0, 1, None, "True"]),
        (fields.one_of("a", "b"), ["a", "b"], ["c", "", None, 1]),
    ],
)
def test_rules(rule, accepted, rejected):
    assert [value for value in accepted if not rule.accepts(value)] == []
    assert [value for value in rejected if rule.accepts(value)] == []


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (fields.integer_from(1, 3), [0, 1, 3, 4], [False, True, True, False]),
        (fields.NON_NEGATIVE_NUMBER, [-1.0, 0.0, 1e30], [False, True, True]),
        (fields.POSITIVE_NUMBER, [math.inf, math.nan, 0.1], [0, 0, 1]),
        (fields.POSITIVE_FRACTION, [0.0, 0.5, 1.0, 1.1], [0, 1, 1, 0]),
        (fields.SEED, [-1, 0, 2**32 - 1, 2**32], [0, 1, 1, 0]),
    ],
)
def test_ranges_of_arrays(rule, values, expected):
    found = rule.in_range(np.array(values))
    assert found.tolist() == list(map(bool, expected))


def test_the_graph_checks_symbolic_tensors():
    @tf.function
    def double(count):
        return 2 * Example(count=count).count

    assert double(tf.constant(-3)) == -6
    with pytest.raises(InputError, match="count must be"):
        Example(count=tf.constant(-3))


def test_scalars_of_numpy_become_numbers_of_python():
    example = Example(count=np.int64(3), limit=np.float32(0.5))
    assert repr(example) == "Example(count=3, name='a', limit=0.5)"
    assert json.dumps(dataclasses.asdict(example))
    with pytest.raises(InputError, match="count must be .*-1"):
        Example(count=np.int64(-1))


def test_values_of_arguments():
    fields.check_values(fields.SEED, seed=0, other=7)
    with pytest.raises(InputError, match=r"^other must be .* Received: -1$"):
        fields.check_values(fields.SEED, seed=0, other=-1)


def test_the_docstring_describes_the_fields():
    lines = Example.__doc__.splitlines()
    assert lines[:5] == [
        "An example.",
        "",
        "It has a second paragraph.",
        "",
        "Args:",
    ]
    assert lines[5:8] == [
        "    count: Number of things.",
        "    name: One of two names. Default: 'a'.",
        "    limit: Limit, if there is one. Default: None.",
    ]
    assert "Raises:" in lines
