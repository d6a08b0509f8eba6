"""What is read, and what is written."""

import gzip

import pytest
from apache_beam.io.filesystems import FileSystems

from keras_transformer.beam.line_shards import (
    LineShard,
    ReadShards,
    WriteShard,
)
from keras_transformer.beam.translate_transform import Translated

LINES = ["\ufeffa", "b\r", "", "c\td", "e"]
CONTENT = "\n".join(LINES).encode()
SHARDS = [
    ("-00000", [(1, b"a"), (2, b"b")]),
    ("-00001", [(3, b""), (4, b"c\td")]),
    ("-00002", [(5, b"e")]),
]


@pytest.mark.parametrize("name", ["x.txt", "x.txt.gz"])
def test_lines_are_numbered_and_the_last_may_be_unfinished(tmp_path, name):
    file = tmp_path / name
    if name.endswith(".gz"):  # of two members, as concatenated files are
        first, rest = CONTENT[:6], CONTENT[6:]
        file.write_bytes(gzip.compress(first) + gzip.compress(rest))
    else:
        file.write_bytes(CONTENT)
    reading = ReadShards(str(tmp_path), ".tsv", 2)
    expected = [LineShard(name + end, records) for end, records in SHARDS]
    assert list(reading.process(str(file))) == expected
    (tmp_path / f"{name}-00001.tsv").touch()
    assert list(reading.process(str(file))) == [expected[0], expected[2]]
    file.write_bytes(gzip.compress(b"") if name.endswith(".gz") else b"")
    assert list(reading.process(str(file))) == []


RECORDS = [
    Translated(1, b"a", "A\tb\nc", -1.25, None),
    Translated(2, b"\xff", None, None, "not\nvalid"),
    Translated(3, b"c\td", "", 0.0, None),
]


def test_translations_and_failures_are_written_apart(tmp_path):
    WriteShard(str(tmp_path), ".tsv").process(LineShard("x-0", RECORDS))
    assert (tmp_path / "x-0.tsv").read_bytes() == (
        b"1\t-1.2500\tA b c\ta\n3\t0.0000\t\tc\td\n"
    )
    assert (tmp_path / "x-0.failed").read_bytes() == b"2\tnot valid\t\xff\n"
    WriteShard(str(tmp_path), ".tsv.gz").process(LineShard("y-0", RECORDS[:1]))
    content = (tmp_path / "y-0.tsv.gz").read_bytes()
    assert gzip.decompress(content) == b"1\t-1.2500\tA b c\ta\n"
    assert content[4:8] == bytes(4)  # without the time, which would differ
    assert not (tmp_path / "y-0.failed").exists()
    # What failed in a worker that died, and not in the next one.
    WriteShard(str(tmp_path), ".tsv").process(LineShard("x-0", RECORDS[:1]))
    assert (tmp_path / "x-0.tsv").read_bytes() == b"1\t-1.2500\tA b c\ta\n"
    assert not (tmp_path / "x-0.failed").exists()


def test_a_file_is_there_when_it_is_complete(tmp_path, monkeypatch):
    def seen(sources, targets):
        visible = {file.name for file in tmp_path.iterdir()} - {".partial"}
        assert visible <= {"x-0.failed"}
        (source,) = sources
        contents.append(open(source, "rb").read())
        rename(sources, targets)

    contents, rename = [], FileSystems.rename
    monkeypatch.setattr(FileSystems, "rename", seen)
    WriteShard(str(tmp_path), ".tsv").process(LineShard("x-0", RECORDS))
    assert contents == [
        (tmp_path / f"x-0{suffix}").read_bytes()
        for suffix in (".failed", ".tsv")
    ]
