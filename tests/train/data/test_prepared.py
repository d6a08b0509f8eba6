"""Reading a prepared corpus; test_preparation.py writes one from texts."""

import json
import pathlib
import re
import sys

import ids
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.train.data import prepared as module
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.prepared import Prepared

PAIRS = [ids.pair(n, (2 + n % 5, 2 + n * 3 % 7)) for n in range(50)]


@pytest.fixture
def prepared(tmp_path):
    return ids.write(tmp_path / "prepared", PAIRS, shard_pairs=20)


def change_json(prepared, **values):
    path = prepared.path / "prepared.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_ids_and_lengths(prepared):
    assert prepared.shards == (20, 20, 10)
    rows = ids.rows(prepared)
    assert rows == [side for pair in PAIRS for side in pair]
    expected = [max(map(len, pair)) + 1 for pair in PAIRS]
    assert prepared.lengths().tolist() == expected
    assert prepared.lengths().dtype == np.uint8


def test_a_variable_has_the_memory_of_the_array(prepared):
    array, _ = prepared._arrays(0)
    assert isinstance(array, np.memmap)
    variable = module._as_variable(array)
    dataset = tf.data.Dataset.range(1).map(lambda _: variable.read_value()[0])
    array[0] = 77
    assert variable.numpy()[0] == 77
    assert [int(found) for found in dataset] == [77]
    # Not so the file.
    assert np.load(prepared.path / "train-00000.ids.npy")[0] != 77


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_tf_data_does_not_copy_a_variable(tmp_path):
    """As it does with a tensor, here of 128 MiB."""
    np.save(tmp_path / "array.npy", np.zeros(2**27, np.uint8))
    array = np.load(tmp_path / "array.npy", mmap_mode="c")
    variable = module._as_variable(array)
    dataset = tf.data.Dataset.range(3).map(
        lambda i: tf.gather(variable.read_value(), i)
    )
    before = own_memory()
    iterator = iter(dataset)
    assert next(iterator) == 0
    assert own_memory() - before < 64 * 1024


def own_memory():
    """Returns the KiB in memory that no file backs."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"RssAnon:\s*(\d+)", status)[1])


def test_open_corpus_recognizes_the_folder(prepared):
    name = str(prepared.path)
    corpus = open_corpus(name)
    assert (corpus.source, corpus.target) == ("en", "de")
    assert corpus.splits == ("train",)
    assert corpus.name == name
    assert corpus.prepared.checksum == prepared.checksum
    assert open_corpus(name, "en").target == "de"
    with pytest.raises(InputError, match="en to de. Received: source='de'"):
        open_corpus(name, "de", "en")


def test_languages_may_be_unknown(prepared):
    change_json(prepared, source=None, target=None)
    corpus = open_corpus(str(prepared.path), "en", "fr")
    assert (corpus.source, corpus.target) == ("en", "fr")
    assert open_corpus(str(prepared.path)).source is None


def test_the_training_split_has_no_texts(prepared):
    corpus = open_corpus(str(prepared.path))
    message = "Received: .*prepared, train, which has token ids"
    with pytest.raises(InputError, match=message):
        corpus.check("train")
    with pytest.raises(InputError, match=message):
        corpus.pairs("train")


def test_the_recipe_must_agree(prepared):
    assert prepared.recipe_values() == {"vocab_size": 270, "max_length": 20}
    prepared.check_recipe(270, 20)
    message = "vocab_size=270, max_length=20, .*vocab_size=270, max_length=21$"
    with pytest.raises(InputError, match=message):
        prepared.check_recipe(270, 21)
    with pytest.raises(InputError, match="Received: vocab_size=271"):
        prepared.check_recipe(271, 20)


def test_another_tokenizer_is_refused(prepared):
    other = Tokenizer.train(["a cat", "eine Katze"], 270)
    other.save(prepared.path / "tokenizer.model")
    with pytest.raises(InputError, match="tokenizer.model must be the"):
        Prepared.open(prepared.path)


def test_another_format_is_refused(prepared):
    change_json(prepared, format=0)
    with pytest.raises(InputError, match="have format 1. Received: format=0"):
        Prepared.open(prepared.path)
    (prepared.path / "prepared.json").write_text("{")
    with pytest.raises(InputError, match="is not valid JSON"):
        Prepared.open(prepared.path)


def test_missing_and_damaged_shards_are_refused(prepared):
    path = prepared.path / "train-00001.ids.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-2])
    with pytest.raises(InputError, match="00001.ids.npy must be an array"):
        Prepared.open(prepared.path)
    path.unlink()
    with pytest.raises(InputError, match="00001.ids.npy must .*No such file"):
        Prepared.open(prepared.path)
    np.save(path, np.zeros(7, np.uint16))
    with pytest.raises(InputError, match="Shard 1 .*20 pairs.* and 7 ids"):
        Prepared.open(prepared.path)
    path.write_bytes(content)
    Prepared.open(prepared.path)
    change_json(prepared, shards=[20, 19, 10])
    with pytest.raises(InputError, match="19 pairs. Received: 20"):
        Prepared.open(prepared.path)


@pytest.mark.parametrize(
    ("at", "offset", "message"),
    [
        (0, 1, "begin 1, "),
        (3, 500, "begin 0, -4"),  # beyond the next one
        (3, -500, "begin 0, -4"),  # before the last one
    ],
)
def test_damaged_offsets_are_refused(prepared, at, offset, message):
    path = prepared.path / "train-00001.offsets.npy"
    offsets = np.load(path)
    offsets[at] += offset
    np.save(path, offsets)
    with pytest.raises(InputError, match=f"Received: .*{message}.* ids. Re"):
        Prepared.open(prepared.path)


def test_texts_that_are_too_long_are_refused(prepared):
    limit = int(prepared.lengths().max())
    change_json(prepared, max_length=limit)
    Prepared.open(prepared.path)
    change_json(prepared, max_length=limit - 1)
    with pytest.raises(
        InputError, match=f"0 to {limit - 2} ids. .* to {limit - 1}"
    ):
        Prepared.open(prepared.path)
