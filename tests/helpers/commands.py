import io
import sys
from typing import NamedTuple

import yaml

from keras_transformer.config import TransformerConfig
from keras_transformer.support.files import write_json


class Result(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str


class Chunks(io.RawIOBase):
    """A binary standard input that gives one chunk per read."""

    def __init__(self, chunks, on_read=lambda: None, is_terminal=False):
        self._chunks = [*chunks, b""]
        self._on_read = on_read
        self._is_terminal = is_terminal

    def read1(self, size):
        self._on_read()
        return self._chunks.pop(0)

    def readable(self):
        return True

    def isatty(self):
        return self._is_terminal


def set_stdin(monkeypatch, stream):
    """Makes a binary stream the standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))


def write_corpus(folder, **files):
    """Writes `train_en="a\\nb\\n"` as the file train.en, and so on."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        content = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("_", ".")).write_bytes(content)
    return folder


def check_error(result, *words):
    """Checks for code 2, no traceback, and words of the message, in order."""
    assert result.code == 2, result
    assert result.err.startswith("keras-transformer: ")
    assert "Traceback" not in result.err
    position = 0
    for word in words:
        assert word in result.err[position:]
        position = result.err.index(word, position) + len(word)


def parse(words):
    """Returns the function and the arguments that a command line names."""
    from keras_transformer.cli.commands import app

    app.config = None  # that of a command before
    function, bound, _ = app.parse_args(
        words, exit_on_error=False, print_error=False
    )
    return function, bound.arguments


def write_run(
    path,
    checkpoints=(1, 2),
    task="translation",
    tokenizer="0" * 64,
    languages=("en", "de"),
    **request,
):
    """Writes a run folder that can be described, but not be opened."""
    (path / "checkpoints").mkdir(parents=True)
    for step in checkpoints:
        (path / f"checkpoints/step-{step:08d}.weights.h5").touch()
    config = TransformerConfig.from_preset("tiny", vocab_size=300)
    values = {
        "task": task,
        "model": config.to_dict(),
        "languages": languages,
        "statistics": {},
        "tokenizer": tokenizer,
    }
    write_json(path / "config.json", values)
    request = {"data": ["embedded"], "preset": "tiny", **request}
    (path / "train.yaml").write_text(yaml.safe_dump(request), "utf-8")
    return path
