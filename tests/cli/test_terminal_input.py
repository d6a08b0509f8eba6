import os

import pytest
from commands import Chunks, set_stdin

from keras_transformer.cli import terminal
from keras_transformer.support.errors import InputError


@pytest.fixture
def read(monkeypatch):
    """Returns what `read_lines` yields for chunks of standard input."""

    def read(*chunks):
        set_stdin(monkeypatch, Chunks(chunks))
        return list(terminal.read_lines())

    return read


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], []),
        ([b"one\n"], [["one"]]),
        ([b"one\ntwo\n"], [["one", "two"]]),
        ([b"one\n", b"two\n"], [["one"], ["two"]]),
        ([b"one\ntw", b"o\nthree\n"], [["one"], ["two", "three"]]),
        ([b"o", b"n", b"e\n"], [["one"]]),
        ([b"one\ntwo"], [["one"], ["two"]]),
        ([b"one\n\n\ntwo\n"], [["one", "", "", "two"]]),
        ([b"\xef\xbb\xbfone\r\ntwo\r\n"], [["one", "two"]]),
        (["schläft\n".encode()[:5], "schläft\n".encode()[5:]], [["schläft"]]),
    ],
)
def test_lines_are_yielded_as_they_arrive(read, chunks, expected):
    assert read(*chunks) == expected


def test_nothing_is_read_before_the_last_lines_were_used(monkeypatch):
    events = []
    stream = Chunks([b"one\n", b"two\n"], lambda: events.append("read"))
    set_stdin(monkeypatch, stream)
    for lines in terminal.read_lines():
        events.append(lines)
    assert events == ["read", ["one"], "read", ["two"], "read"]


def test_a_pipe_that_stays_open(monkeypatch):
    read_end, write_end = os.pipe()
    set_stdin(monkeypatch, os.fdopen(read_end, "rb"))
    lines = terminal.read_lines()
    os.write(write_end, b"one\n")
    assert next(lines) == ["one"]
    os.write(write_end, b"two\nthree\n")
    assert next(lines) == ["two", "three"]
    os.close(write_end)
    assert list(lines) == []


def test_lines_before_an_invalid_one_are_yielded(monkeypatch):
    set_stdin(monkeypatch, Chunks([b"one\n", b"two\nthr\xffee\nfour\n"]))
    lines = terminal.read_lines()
    assert next(lines) == ["one"]
    assert next(lines) == ["two"]
    with pytest.raises(InputError, match="line 3.*byte 4"):
        next(lines)


def test_a_terminal_has_a_prompt(monkeypatch, capsys):
    stream = Chunks([b"one\n", b"two\n"], is_terminal=True)
    set_stdin(monkeypatch, stream)
    assert list(terminal.read_lines()) == [["one"], ["two"]]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "keras-transformer: enter one sentence per line, and Ctrl-D to end\n"
        "> > > \n"
    )
