"""Shards: as many successive lines of a file as one worker translates.

A shard is read, sent, translated and written as one, so that its batches, and
with them its bytes, are the same whichever worker has it.
"""

import codecs
import itertools
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from keras_transformer.beam.inputs import open_input
from keras_transformer.beam.translating import (
    METRICS,
    Translated,
    TranslationHandler,
)
from keras_transformer.support.files import sync

FAILED = ".failed"
PARTIAL = ".partial"  # folder of what is not complete yet


class Shard(NamedTuple):
    """Successive lines of a file, or their translations."""

    name: str  # of the file it is written to, without suffix
    records: list[tuple[int, bytes]] | list[Translated]  # keys: line numbers

    def __len__(self) -> int:  # what Beam counts as the size of a batch
        return len(self.records)


class ReadShards(beam.DoFn):
    """Reads the shards of text files that are not written yet.

    Args:
        output: The folder of the output.
        suffix: That of the files there.
        size: Lines of a shard.
    """

    def __init__(self, output: str, suffix: str, size: int) -> None:
        self._output, self._suffix, self._size = output, suffix, size

    def process(self, path):
        name = FileSystems.split(path)[1]
        with open_input(path) as file:
            lines = enumerate(_read_lines(file), start=1)
            for index in itertools.count():
                shard = Shard(f"{name}-{index:05d}", [])
                for record in lines:
                    shard.records.append(record)
                    if len(shard) == self._size:
                        break
                if not shard.records:
                    return
                written = FileSystems.join(
                    self._output, shard.name + self._suffix
                )
                if FileSystems.exists(written):
                    Metrics.counter(METRICS, "shards_skipped").inc()
                else:
                    yield shard


def _read_lines(file: Any) -> Iterator[bytes]:
    """Yields the lines of a file as `keras-transformer translate` does."""
    for number, line in enumerate(iter(file.readline, b"")):
        if number == 0:  # some editors write a byte order mark
            line = line.removeprefix(codecs.BOM_UTF8)
        yield line.removesuffix(b"\n").rstrip(b"\r")


class ShardHandler(TranslationHandler):
    """A `TranslationHandler` whose batches and results are shards."""

    def should_skip_batching(self) -> bool:
        return True

    def get_num_bytes(self, batch: Shard) -> int:
        return super().get_num_bytes(batch.records)

    def run_inference(self, batch: Shard, *arguments: Any) -> list[Shard]:
        found = super().run_inference(batch.records, *arguments)
        return [Shard(batch.name, found)]


class WriteShard(beam.DoFn):
    """Writes translations, and before them what failed, atomically.

    Args:
        output: The folder of the output.
        suffix: That of the files there; `.gz` compresses them.
    """

    def __init__(self, output: str, suffix: str) -> None:
        self._output, self._suffix = output, suffix

    def process(self, shard):
        failed = [
            b"%d\t%b\t%b\n" % (one.key, _column(one.error), one.source)
            for one in shard.records
            if one.error
        ]
        translated = [
            b"%d\t%.4f\t%b\t%b\n"
            % (one.key, one.score, _column(one.text), one.source)
            for one in shard.records
            if not one.error
        ]
        earlier = FileSystems.join(self._output, shard.name + FAILED)
        if failed:
            self._write(shard.name + FAILED, failed)
        elif FileSystems.exists(earlier):  # of a worker that died then
            FileSystems.delete([earlier])
        # The shard is complete when this file is there.
        self._write(shard.name + self._suffix, translated)

    def _write(self, name: str, lines: list[bytes]) -> None:
        # Two workers may write the same shard.
        partial = FileSystems.join(
            self._output, PARTIAL, f"{uuid.uuid4().hex}-{name}"
        )
        with FileSystems.create(partial) as file:
            file.write(b"".join(lines))
        if FileSystems.get_scheme(partial) is None:
            sync(partial)
        FileSystems.rename([partial], [FileSystems.join(self._output, name)])


def _column(text: str) -> bytes:
    # A model may spell tabs and line ends.
    text = " ".join(text.replace("\t", " ").splitlines())
    return text.encode("utf-8", "replace")
