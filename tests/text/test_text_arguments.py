import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.text import read_texts


@pytest.mark.parametrize(
    "text",
    [
        "Käse\0 🙂",
        "Käse\0 🙂".encode(),
        tf.constant("Käse\0 🙂"),
        np.array("Käse\0 🙂"),
        np.str_("Käse\0 🙂"),
    ],
)
def test_single_text(text):
    assert read_texts(text) == (["Käse\0 🙂"], True)
    assert read_texts([text, ""]) == (["Käse\0 🙂", ""], False)
    assert {type(text) for text in read_texts([text, ""])[0]} == {str}


@pytest.mark.parametrize(
    "texts",
    [
        ("Käse", ""),
        {"Käse": 1, "": 2}.keys(),
        iter(["Käse".encode(), ""]),
        tf.constant(["Käse", ""]),
        np.array(["Käse", ""]),
        np.array(["Käse", b""], dtype=object),
        tf.data.Dataset.from_tensor_slices(["Käse", ""]),
    ],
)
def test_several_texts(texts):
    assert read_texts(texts) == (["Käse", ""], False)


@pytest.mark.parametrize(
    "texts, received",
    [
        (None, "texts=None"),
        (["a", None], r"texts\[1\]=None"),
        (np.array([1, 2]), r"texts\[0\]=.*1"),
        ([["a"], ["b"]], r"texts\[0\]=\['a'\]"),
        # Not valid Unicode.
        ("ab\ud800", r"texts='ab\\ud800'.* 2"),
        (["ok", "\udcff"], r"texts\[1\]='\\udcff'"),
        (b"ab\xff", r"texts=b'ab\\xff'.* 2"),
        (["ok", b"\xc3"], r"texts\[1\]=b'\\xc3'"),
        (tf.constant([b"\xff"]), r"texts\[0\]=b'\\xff'"),
    ],
)
def test_what_is_not_text_is_named(texts, received):
    with pytest.raises(InputError, match=received):
        read_texts(texts)
