"""What translators have in common."""

import pytest

from keras_transformer.inference.texts import (
    BaseTranslator,
    batches_by_length,
    check_lengths,
    read_pairs,
    read_sources,
)
from keras_transformer.support.errors import InputError


def test_batches_have_texts_of_similar_length():
    # With the end token: 4, 2, 10, 1, 4.
    lengths = [3, 1, 12, 0, 3]
    find = lambda *sizes: batches_by_length(lengths, 10, *sizes)  # noqa: E731
    assert find(1) == [[2], [0], [4], [1], [3]]
    assert find(8) == [[2], [0, 4], [1, 3]]
    assert find(20) == [[2, 0], [4, 1, 3]]
    assert find(50) == [[2, 0, 4, 1, 3]]
    assert find(50, 2) == [[2, 0, 4], [1, 3]]
    assert find(50, 9) == [[2], [0], [4], [1], [3]]
    assert batches_by_length([], 10, 8, 2) == []
    many = batches_by_length([1] * 300, 10, 10_000)
    assert list(map(len, many)) == [128, 128, 44]


@pytest.mark.parametrize(
    ("metadata", "languages"),
    [
        ({"runs": [{"source": "de", "target": "en"}, {}]}, ("de", "en")),
        ({"runs": [{"source": None, "target": "en"}]}, (None, "en")),
        ({"runs": []}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_languages_of_an_export(metadata, languages):
    translator = BaseTranslator()
    translator.metadata = metadata
    assert translator.languages == languages


def test_sources_and_prefixes():
    assert read_sources("a") == (["a"], [""], True)
    assert read_sources(["a", b"b"]) == (["a", "b"], ["", ""], False)
    assert read_sources(["a", "b"], iter("xy")) == (
        ["a", "b"],
        ["x", "y"],
        False,
    )
    for prefixes in ("x", ["x"], [], ["x", "y", "z"]):
        with pytest.raises(InputError, match="2 texts, [013] prefixes"):
            read_sources(["a", "b"], prefixes)


def test_pairs():
    assert read_pairs("a", b"b") == (["a"], ["b"], True)
    assert read_pairs(["a"], iter("b")) == (["a"], ["b"], False)
    for pair in (("a", ["b"]), (["a"], "b"), (["a"], [])):
        with pytest.raises(InputError, match="1 sources, [01] targets"):
            read_pairs(*pair)


def test_pairs_that_are_too_long_to_score():
    check_lengths([9, 0], [0, 9], 10)
    for pair in (([0, 10], [9, 0]), ([0, 9], [9, 10])):
        with pytest.raises(InputError, match="at most 9 .* at index 1"):
            check_lengths(*pair, 10)
