import gzip
import sys

import pytest
from compressions import COMPRESS

from keras_transformer.support.errors import InputError
from keras_transformer.support.text_files import read_lines

TEXT = b"".join(b"line %d, %d\n" % (i, i * i % 977) for i in range(20_000))
LINES = TEXT.decode().splitlines()


def read(path):
    return list(read_lines(path))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_suffix_decides(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    content = COMPRESS[suffix](TEXT)
    path.write_bytes(content)
    assert read(path) == LINES
    path.write_bytes(content + content)
    assert read(path) == 2 * LINES
    path.write_bytes(COMPRESS[suffix](b""))
    assert read(path) == []


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
        with pytest.raises(InputError, match=f"a{suffix} must be complete"):
            read(path)


def test_other_files_are_read_as_they_are(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    assert read(path) == LINES
    path.write_bytes(gzip.compress(TEXT))
    with pytest.raises(InputError, match=r"a\.txt must be UTF-8"):
        read(path)


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.zst"
    path.write_bytes(COMPRESS[".zst"](TEXT))
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(InputError, match="backports.zstd"):
        read(path)
