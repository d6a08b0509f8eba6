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
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.prepared import open_prepared

PAIRS = [ids.pair(n, (2 + n % 5, 2 + n * 3 % 7)) for n in range(50)]


@pytest.fixture
def prepared(tmp_path):
    return ids.write(tmp_path / "prepared", PAIRS, shard_pairs=20)


def change_json(prepared, **values):
    path = prepared.path / "prepared.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_ids(prepared):
    assert [shard.pairs for shard in prepared.shards] == [20, 20, 10]
    assert ids.rows(prepared.shards) == [
        side for pair in PAIRS for side in pair
    ]


def test_a_tensor_has_the_memory_of_the_file(prepared):
    array = prepared.shards[0].ids
    assert isinstance(array, np.memmap)
    read = batching._as_tensor(array)
    dataset = tf.data.Dataset.range(1).map(lambda _: read()[0])
    array[0] = 77
    assert read().numpy()[0] == 77
    assert [int(found) for found in dataset] == [77]
    # Not so the file.
    assert np.load(prepared.path / "train-00000.ids.npy")[0] != 77


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_tf_data_does_not_copy_a_mapped_array(tmp_path):
    """As it does with a tensor, here of 128 MiB."""
    np.save(tmp_path / "array.npy", np.zeros(2**27, np.uint8))
    array = np.load(tmp_path / "array.npy", mmap_mode="c")
    read = batching._as_tensor(array)
    dataset = tf.data.Dataset.range(3).map(lambda i: tf.gather(read(), i))
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
    assert corpus.path == prepared.path
    assert open_corpus(name, "en").target == "de"
    with pytest.raises(InputError, match="en to de. Received: source='de'"):
        open_corpus(name, "de", "en")


def test_languages_may_be_unknown(prepared):
    part = dict(data=["pairs"], splits=[], statistics={})
    change_json(prepared, parts=[part])
    corpus = open_corpus(str(prepared.path), "en", "fr")
    assert (corpus.source, corpus.target) == ("en", "fr")
    assert open_corpus(str(prepared.path)).source is None


def test_the_training_split_has_no_texts(prepared):
    corpus = open_corpus(str(prepared.path))
    with pytest.raises(InputError, match=r"prepared .*split='train'"):
        corpus.pairs("train")


@pytest.mark.parametrize("name", ["task", "shards", "parts", "max_length"])
def test_a_damaged_description(prepared, name):
    path = prepared.path / "prepared.json"
    values = json.loads(path.read_text())
    del values[name]
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"'{name}'"):
        open_prepared(prepared.path)
    part = dict(data=["a"], splits=[])
    path.write_text(json.dumps({**values, name: 1, "parts": [part]}))
    with pytest.raises(InputError, match="'statistics'|used. task must"):
        open_prepared(prepared.path)
    path.write_text("{")
    with pytest.raises(InputError, match="prepared.json"):
        open_prepared(prepared.path)


def test_missing_and_truncated_shards(prepared):
    path = prepared.path / "train-00001.ids.npy"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(InputError, match="00001.ids.npy"):
        print(open_prepared(prepared.path).shards)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="00001.ids.npy"):
        print(open_prepared(prepared.path).shards)
