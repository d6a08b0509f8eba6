"""Corpora in TFRecord files: order, shards and faults."""

import gzip
import re

import pytest
import tensorflow as tf
from corpora import assert_contains, read

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpus

PAIRS = [
    ("A cat.", "Eine Katze."),
    ("", "Leer links."),
    ("Über alles: „so“ 🦩", "tab-free, ½"),
    ("Two\nlines", "zwei\r\nZeilen"),
    ("The last one.", "Die Letzte."),
]


def values(*texts):
    data = [t if isinstance(t, bytes) else t.encode("utf-8") for t in texts]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=data))


def number(value):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def record(**features):
    features = tf.train.Features(feature=features)
    return tf.train.Example(features=features).SerializeToString()


def pair_record(pair):
    en, de = pair
    return record(en=values(en), de=values(de), id=number(7))


def write(path, records):
    with tf.io.TFRecordWriter(str(path)) as file:
        for each in records:
            file.write(each)
    return path


def write_pairs(path, pairs):
    return write(path, map(pair_record, pairs))


def open_folder(folder, source="en", target="de"):
    return open_corpus([str(folder)], source, target)


@pytest.mark.parametrize(
    "names",
    [
        ["train.tfrecord"],
        ["train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"],
        ["train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"],
        ["train.tfrecord", "train_extra.tfrecord"],
        [f"train-{index}.tfrecord" for index in "abcde"],
    ],
)
def test_files_are_read_in_the_order_of_their_names(tmp_path, names):
    size = -(-len(PAIRS) // len(names))
    for index, name in reversed(list(enumerate(names))):
        pairs = PAIRS[index * size : (index + 1) * size]
        write_pairs(tmp_path / name, pairs)
    corpus = open_folder(tmp_path)
    assert corpus.splits == ("train",)
    assert corpus.name == str(tmp_path)
    assert (corpus.source, corpus.target) == ("en", "de")
    assert_contains(corpus, "train", PAIRS)


def test_splits(tmp_path):
    write_pairs(tmp_path / "train.tfrecord", PAIRS)
    write_pairs(tmp_path / "valid.tfrecord-00000-of-00001", PAIRS[:1])
    write_pairs(tmp_path / "test-0.tfrecord", PAIRS[1:3])
    (tmp_path / "dataset_info.json").write_text("{}")
    corpus = open_folder(tmp_path)
    assert corpus.splits == ("train", "valid", "test")
    assert_contains(corpus, "train", PAIRS)
    assert_contains(corpus, "valid", PAIRS[:1])
    assert_contains(corpus, "test", PAIRS[1:3])


@pytest.mark.parametrize(
    "name", ["train-{}-of-00002.tfrecord", "train.tfrecord-{}-of-00002"]
)
def test_a_numbered_file_that_is_missing(tmp_path, name):
    write_pairs(tmp_path / name.format("00001"), PAIRS[3:])
    message = "Received: 1 of .*" + re.escape(name.format("*"))
    with pytest.raises(InputError, match=message):
        open_folder(tmp_path)
    write_pairs(tmp_path / name.format("00000"), PAIRS[:3])
    assert_contains(open_folder(tmp_path), "train", PAIRS)


def test_the_other_direction(tmp_path):
    write_pairs(tmp_path / "train.tfrecord", PAIRS)
    corpus = open_folder(tmp_path, "de", "en")
    assert_contains(corpus, "train", [(de, en) for en, de in PAIRS])


def test_more_records_than_are_parsed_at_once(tmp_path):
    pairs = [(f"a {index}", f"ein {index}") for index in range(2500)]
    write_pairs(tmp_path / "train-0.tfrecord", pairs[:1500])
    write_pairs(tmp_path / "train-1.tfrecord", pairs[1500:])
    assert_contains(open_folder(tmp_path), "train", pairs)


# === Faults ===


def test_text_files_in_the_same_folder(tmp_path):
    write_pairs(tmp_path / "valid.tfrecord", PAIRS)
    (tmp_path / "train.en").write_text("A cat.\n")
    (tmp_path / "train.de").write_text("Eine Katze.\n")
    message = r"either text files, .* with train\.de and valid\.tfrecord"
    with pytest.raises(InputError, match=message):
        open_folder(tmp_path)


@pytest.mark.parametrize("source, target", [(None, None), ("en", None)])
def test_missing_feature_names(tmp_path, source, target):
    write_pairs(tmp_path / "train.tfrecord", PAIRS)
    message = rf"names of the features.* source={source!r}, target=None"
    with pytest.raises(InputError, match=message):
        open_folder(tmp_path, source, target)


@pytest.mark.parametrize(
    "third, found",
    [
        (record(de=values("x"), id=number(1)), "de (1 bytes), id (1 int64)"),
        (
            record(en=values("a", "b"), de=values("x")),
            "de (1 bytes), en (2 bytes)",
        ),
        (record(en=values("a"), de=values()), "de (0 bytes), en (1 bytes)"),
        (
            record(en=tf.train.Feature(), de=values("x")),
            "de (1 bytes), en (0 bytes)",
        ),
        (record(en=number(1), de=values("x")), "de (1 bytes), en (1 int64)"),
        (record(), "no features"),
        (b"not an example", "no features"),
    ],
    ids=[
        "missing",
        "two values",
        "no value",
        "no kind",
        "integer",
        "empty example",
        "not an example",
    ],
)
def test_a_record_without_the_features(tmp_path, third, found):
    records = [*map(pair_record, PAIRS[:2]), third]
    path = write(tmp_path / "train.tfrecord", records)
    with pytest.raises(InputError, match="bytes value in each of en") as error:
        read(open_folder(tmp_path))
    assert str(error.value).endswith(
        f"Received: {path}, record 3, with {found}"
    )


# A record has a header of 12 bytes before it and a checksum of 4 after it.


def damage_the_third(data):
    start = sum(len(pair_record(pair)) + 16 for pair in PAIRS[:2])
    return data[: start + 20] + b"\0\0" + data[start + 22 :]


def damage_a_header(data):
    return b"\xff" + data[1:]


def cut_the_last(data):
    return data[:-3]


def leave_half_a_header(data):
    return data[: -len(pair_record(PAIRS[-1])) - 10]


@pytest.mark.parametrize(
    "damage, record",
    [
        (damage_the_third, 3),
        (damage_a_header, 1),
        (cut_the_last, 5),
        (leave_half_a_header, 5),
    ],
)
def test_a_damaged_record(tmp_path, damage, record):
    write_pairs(tmp_path / "train-0.tfrecord", PAIRS[:1])
    path = write_pairs(tmp_path / "train-1.tfrecord", PAIRS)
    path.write_bytes(damage(path.read_bytes()))
    message = rf"train-1\.tfrecord, record {record}, which is damaged"
    with pytest.raises(InputError, match=message):
        read(open_folder(tmp_path))


def test_nul_is_left_out(tmp_path):
    write_pairs(tmp_path / "train.tfrecord", [("a\0 cat", "eine Kat\0ze")])
    pairs = [("a cat", "eine Katze")]
    assert_contains(open_folder(tmp_path), "train", pairs)


def test_a_compressed_file(tmp_path):
    path = write_pairs(tmp_path / "train.tfrecord", PAIRS)
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match=r"not compressed.*, record 1, "):
        read(open_folder(tmp_path))


@pytest.mark.parametrize("source, target", [("en", "de"), ("de", "en")])
def test_bytes_that_are_not_utf8(tmp_path, source, target):
    write_pairs(tmp_path / "train-0.tfrecord", PAIRS)
    write_pairs(tmp_path / "train-1.tfrecord", [*PAIRS[:1], ("a", b"m\xfcde")])
    message = r"UTF-8.*train-1\.tfrecord, record 2: invalid start byte"
    with pytest.raises(InputError, match=message):
        read(open_folder(tmp_path, source, target))


def test_pairs_before_a_fault_are_returned(tmp_path):
    write_pairs(tmp_path / "train.tfrecord", [*PAIRS[:1], ("a", b"\xfc")])
    pairs = iter(open_folder(tmp_path).pairs("train"))
    assert next(pairs) == PAIRS[0]
    with pytest.raises(InputError, match="record 2"):
        next(pairs)


def test_no_records(tmp_path):
    write_pairs(tmp_path / "train.tfrecord", [])
    with pytest.raises(InputError, match="split train, which is empty"):
        read(open_folder(tmp_path))


def test_a_file_that_disappears(tmp_path):
    path = write_pairs(tmp_path / "train.tfrecord", PAIRS)
    corpus = open_folder(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match=r"train\.tfrecord \(No such file"):
        read(corpus)
