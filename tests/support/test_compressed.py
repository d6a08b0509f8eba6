"""Files of text, compressed in every way and under every name."""

import gzip
import io
import sys
import tarfile

import pytest
from compressions import COMPRESS

from keras_transformer.support.compressed import decompressed
from keras_transformer.support.errors import InputError

TEXT = b"".join(b"line %d, %d\n" % (i, i * i % 977) for i in range(20_000))


def read(path):
    with open(path, "rb") as file, decompressed(file, path) as text:
        return b"".join(iter(text.readline, b""))


@pytest.mark.parametrize("name", ["a", "a.txt", "a.gz", "a.zst"])
@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_first_bytes_say_what_it_is(tmp_path, suffix, name):
    path = tmp_path / name
    content = COMPRESS[suffix](TEXT)
    path.write_bytes(content)
    assert read(path) == TEXT
    path.write_bytes(content + content)
    assert read(path) == 2 * TEXT
    path.write_bytes(COMPRESS[suffix](b""))
    assert read(path) == b""
    with open(path, "rb") as file, decompressed(file, path) as text:
        assert text is not file


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
        b"",
    ):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"must be complete .*a{suffix}"):
            read(path)


@pytest.mark.parametrize("text", [b"", b"BZh", b"BZh9 is a type.\n", TEXT])
def test_plain_text(tmp_path, text):
    path = tmp_path / "a.txt"
    path.write_bytes(text)
    assert read(path) == text
    with open(path, "rb") as file, decompressed(file, path) as stream:
        assert stream is file


def test_archives_are_refused(tmp_path):
    path = tmp_path / "en-de.txt.zip"
    path.write_bytes(b"PK\x03\x04\x14\x00")
    with pytest.raises(InputError, match="not be an archive.*zip. Unpack it"):
        read(path)


@pytest.mark.parametrize("suffix", ("", *COMPRESS))
def test_archives_of_tar_are_refused(tmp_path, suffix):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("train.en")
        member.size = len(TEXT)
        tar.addfile(member, io.BytesIO(TEXT))
    path = tmp_path / f"a.tar{suffix}"
    compress = COMPRESS.get(suffix, bytes)
    path.write_bytes(compress(archive.getvalue()))
    with pytest.raises(InputError, match=f"not be an archive.*tar{suffix}. "):
        read(path)


@pytest.mark.parametrize("error", (EOFError(), OSError("no number")))
def test_errors_of_the_caller_of_a_plain_file_stay(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_bytes(TEXT)
    with pytest.raises(type(error)):
        with open(path, "rb") as file, decompressed(file, path):
            raise error


def test_the_package_that_is_missing_is_named(tmp_path, monkeypatch):
    path = tmp_path / "a.zst"
    path.write_bytes(COMPRESS[".zst"](TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(
        InputError, match=r"a\.zst\. Run `pip install zstandard"
    ):
        read(path)


def test_errors_of_others_stay(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))

    class NetworkError(OSError):
        pass

    for error in (OSError(28, "disk is full"), NetworkError("gone")):
        with pytest.raises(type(error)):
            with open(path, "rb") as file, decompressed(file, path):
                raise error
