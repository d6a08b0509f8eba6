import gzip
import sys

import pytest
from compressions import COMPRESS

from keras_transformer.support.compressed import decompressed
from keras_transformer.support.errors import InputError

TEXT = b"".join(b"line %d, %d\n" % (i, i * i % 977) for i in range(20_000))


def read(path):
    with open(path, "rb") as file, decompressed(file, path) as text:
        return b"".join(iter(text.readline, b""))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_suffix_decides(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    content = COMPRESS[suffix](TEXT)
    path.write_bytes(content)
    assert read(path) == TEXT
    path.write_bytes(content + content)
    assert read(path) == 2 * TEXT
    path.write_bytes(COMPRESS[suffix](b""))
    assert read(path) == b""


@pytest.mark.parametrize("suffix", COMPRESS)
def test_what_is_truncated_or_damaged(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    content = COMPRESS[suffix](TEXT)
    middle = len(content) // 2
    flipped = bytes([content[middle] ^ 255])
    for damaged in (
        content[:middle],
        content[:-1],
        content[:12],
        content[:middle] + flipped * 50 + content[middle + 50 :],
        TEXT,
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"a{suffix}"):
            read(path)


@pytest.mark.parametrize("text", [b"", TEXT, gzip.compress(TEXT)])
def test_other_files_are_read_as_they_are(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_bytes(text)
    assert read(path) == text


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.zst"
    path.write_bytes(COMPRESS[".zst"](TEXT))
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(InputError, match="backports.zstd"):
        read(path)


def test_errors_of_the_system_stay(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(OSError, match="disk is full"):
        with open(path, "rb") as file, decompressed(file, path):
            raise OSError(28, "disk is full")
