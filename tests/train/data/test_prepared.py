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
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.prepared import Prepared

PAIRS = [ids.pair(n, (2 + n % 5, 2 + n * 3 % 7)) for n in range(50)]


@pytest.fixture
def prepared(tmp_path):
    return ids.write(tmp_path / "prepared", PAIRS, shard_pairs=20)


def change_json(prepared, **values):
    path = prepared.path / "prepared.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_ids(prepared):
    assert prepared.shard_pairs == (20, 20, 10)
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
        list(corpus.pairs("train"))


def test_what_the_preparation_fixes(prepared):
    assert prepared.fixed == dict(vocab_size=270, max_length=20)


def test_another_tokenizer_is_refused(prepared):
    other = Tokenizer.train(["a cat", "eine Katze"], 270)
    other.save(prepared.path / "tokenizer.model")
    with pytest.raises(InputError, match="must be the one that the corpus was"):
        Prepared.open(prepared.path)


def test_another_format_is_refused(prepared):
    change_json(prepared, format=0)
    with pytest.raises(InputError, match="have format 1. Received: format=0"):
        Prepared.open(prepared.path)
    (prepared.path / "prepared.json").write_text("{")
    with pytest.raises(InputError, match="is not valid JSON"):
        Prepared.open(prepared.path)


def test_a_damaged_description_is_refused(prepared):
    path = prepared.path / "prepared.json"
    text = path.read_text()
    for name in ("task", "shards", "checksum", "statistics", "tokenizer"):
        values = json.loads(text)
        del values[name]
        path.write_text(json.dumps(values))
        with pytest.raises(InputError, match=f"KeyError.'{name}'.*again"):
            Prepared.open(prepared.path)
    path.write_text(text)
    # Earlier versions counted these reasons only.
    counts = json.loads(text)["statistics"]
    old = {x: y for x, y in counts.items() if not x.startswith("dropped_")}
    old |= {"dropped_long": 0, "dropped_empty": 0}
    change_json(prepared, statistics=old)
    assert Prepared.open(prepared.path).statistics == prepared.statistics
    for name in old:
        change_json(prepared, statistics={**old, name: None})
        refuse(prepared, "must be what `prepare` wrote")
        change_json(
            prepared, statistics={x: y for x, y in old.items() if x != name}
        )
        refuse(prepared, f"KeyError.'{name}'")
    for values in (dict(shards=[None]), dict(max_length="x"), dict(shards=3)):
        change_json(prepared, **values)
        with pytest.raises(InputError, match="must be what `prepare` wrote"):
            Prepared.open(prepared.path)


def refuse(prepared, message):
    with pytest.raises(InputError, match=message):
        print(Prepared.open(prepared.path).shards)


def test_missing_and_damaged_shards_are_refused(prepared):
    path = prepared.path / "train-00001.ids.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-2])
    refuse(prepared, "00001.ids.npy must be an array")
    path.unlink()
    refuse(prepared, "00001.ids.npy must .*No such file")
    np.save(path, np.zeros(7, np.uint16))
    refuse(prepared, "files were changed")
    path.write_bytes(content)
    print(Prepared.open(prepared.path).shards)
    change_json(prepared, shards=[20, 19, 10])
    refuse(prepared, r"\(20, 19, 10\) pairs.*\(20, 20, 10\).*were changed")
    change_json(prepared, shards=[20, 20])
    refuse(prepared, "files were changed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ids: ids[::-1], "must have the checksum .* were changed"),
        (lambda ids: ids * 0 + 270, "files were changed"),
        (lambda ids: ids.astype(np.int32) * 0 - 1, "files were changed"),
        (lambda ids: ids.astype(np.float32), "Received: float32.* changed"),
        # The same bytes.
        (lambda ids: ids.view(np.float16), "Received: float16.* changed"),
        (lambda ids: ids[:, None], "Received: uint16 .*, 1.* changed"),
    ],
)
def test_changed_ids_are_refused(prepared, change, message):
    path = prepared.path / "train-00001.ids.npy"
    np.save(path, change(np.load(path)))
    refuse(prepared, message)


@pytest.mark.parametrize(
    ("at", "offset"),
    [
        (0, 1),
        (3, 500),  # beyond the next one
        (3, -500),  # before the last one
        (-1, 2),
    ],
)
def test_damaged_offsets_are_refused(prepared, at, offset):
    path = prepared.path / "train-00001.offsets.npy"
    offsets = np.load(path)
    offsets[at] += offset
    np.save(path, offsets)
    refuse(prepared, "files were changed")


def test_texts_that_are_too_long_are_refused(prepared):
    longest = max(map(len, ids.rows(prepared.shards)))
    change_json(prepared, max_length=longest + 1)
    print(Prepared.open(prepared.path).shards)
    change_json(prepared, max_length=longest)
    refuse(prepared, f"at most {longest} tokens.*up to {longest + 1} tokens")
