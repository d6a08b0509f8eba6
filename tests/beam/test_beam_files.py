"""Compressed files that are whole, truncated and damaged."""

import gzip

import pytest
from apache_beam.io.filesystem import BeamIOError
from compressions import COMPRESS

import keras_transformer as kt
from keras_transformer.beam.beam_files import open_input

TEXT = b"".join(b"line %d, %d\n" % (i, i * i % 977) for i in range(2_000))


def read(path):
    with open_input(str(path)) as file:
        return b"".join(iter(file.readline, b""))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    content = COMPRESS[suffix](TEXT)
    path.write_bytes(content)
    assert read(path) == TEXT
    path.write_bytes(content + content)
    assert read(path) == 2 * TEXT
    for damaged in (content[: len(content) // 2], content[:-1], TEXT, b""):
        path.write_bytes(damaged)
        with pytest.raises(kt.InputError, match=f"complete .*{path.name}"):
            read(path)


def test_other_files(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    assert read(path) == TEXT
    path.write_bytes(b"")
    assert read(path) == b""


def test_errors_that_are_not_of_the_compression(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    for error in (OSError(28, "disk is full"), BeamIOError("no network")):
        with pytest.raises(type(error), match=str(error.args[-1])):
            with open_input(str(path)):
                raise error
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing.gz")
