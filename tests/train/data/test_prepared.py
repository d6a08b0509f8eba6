"""Reading a prepared corpus; test_preparation.py writes one from texts."""

import json
import pathlib
import re
import sys

import ids
import numpy as np
import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train.data import batching
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.encoding import TokenShard
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


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_batches_do_not_copy_mapped_ids(tmp_path, monkeypatch):
    """128 MiB, read in pools of a pair."""
    monkeypatch.setattr(batching, "_POOL_IDS", 1)
    offsets = np.arange(0, 2**26 + 1, 2**14, np.int32)
    np.save(tmp_path / "ids.npy", np.ones(2**26, np.uint16))
    mapped = np.load(tmp_path / "ids.npy", mmap_mode="r")
    tokenizer = ids.tokenizer()
    before = own_memory()
    batches = batching.Batches(
        [TokenShard(mapped, offsets)],
        tokenizer,
        batch_tokens=2**16,
        max_length=2**14 + 1,
        seed=1,
    )
    assert batches[0][1].shape == (1, 2**14 + 1)
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
