"""Shards: successive lines of a file that a worker translates together.

A shard is read, sent, translated and written as a whole, so that its batches,
and with them its bytes, are the same whichever worker has it.
"""

import codecs
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics

from keras_transformer.beam import translate_transform
from keras_transformer.beam.beam_files import create_file, open_input
from keras_transformer.beam.translate_transform import METRICS, Translated

FAILED = ".failed"
PARTIAL = ".partial"  # folder of files that are not complete yet


class LineShard(NamedTuple):
    """Successive lines of a file, or their translations."""

    name: str  # of the file it is written to, without suffix
    records: list[tuple[int, bytes]] | list[Translated]  # keys: line numbers

    def __len__(self) -> int:  # what Beam counts as the size of a batch
        return len(self.records)


class ReadShards(beam.DoFn):
    """Reads the shards, of `size` lines, that have no file in the output."""

    def __init__(self, output: str, suffix: str, size: int) -> None:
        self._output, self._suffix, self._size = output, suffix, size

    def process(self, path):
        name = FileSystems.split(path)[1]
        with open_input(path) as file:
            lines = enumerate(_read_lines(file), start=1)
            for index in itertools.count():
                records = list(itertools.islice(lines, self._size))
                if not records:
                    return
                shard = LineShard(f"{name}-{index:05d}", records)
                written = shard.name + self._suffix
                if FileSystems.exists(FileSystems.join(self._output, written)):
                    Metrics.counter(METRICS, "shards_skipped").inc()
                else:
                    yield shard


def _read_lines(file: Any) -> Iterator[bytes]:
    """Yields the lines of a file as `keras-transformer translate` does."""
    for number, line in enumerate(iter(file.readline, b"")):
        if number == 0:  # some editors write a byte order mark
            line = line.removeprefix(codecs.BOM_UTF8)
        yield line.removesuffix(b"\n").rstrip(b"\r")


class ShardHandler(translate_transform.TranslationHandler):
    """A `TranslationHandler` whose batches and results are shards."""

    def should_skip_batching(self) -> bool:
        return True

    def get_num_bytes(self, batch: LineShard) -> int:
        return super().get_num_bytes(batch.records)

    def run_inference(self, batch: LineShard, *others: Any) -> list[LineShard]:
        records = super().run_inference(batch.records, *others)
        return [LineShard(batch.name, records)]


class WriteShard(beam.DoFn):
    """Writes the lines that failed, and then the translations.

    The suffix `.gz` compresses files of the output.
    """

    def __init__(self, output: str, suffix: str) -> None:
        self._output, self._suffix = output, suffix

    def process(self, shard):
        failed, translated = [], []
        for key, source, text, score, error in shard.records:
            if error:
                failed.append(b"%d\t%b\t%b\n" % (key, _column(error), source))
            else:
                columns = key, score, _column(text), source
                translated.append(b"%d\t%.4f\t%b\t%b\n" % columns)
        path = FileSystems.join(self._output, shard.name)
        if failed:
            self._write(path + FAILED, failed)
        elif FileSystems.exists(path + FAILED):  # of a worker that died then
            FileSystems.delete([path + FAILED])
        # The shard is complete when this file is there.
        self._write(path + self._suffix, translated)

    def _write(self, path: str, lines: list[bytes]) -> None:
        partial = FileSystems.join(self._output, PARTIAL)
        with create_file(path, partial) as file:
            file.write(b"".join(lines))


def _column(text: str) -> bytes:
    # A model may spell tabs and line ends.
    text = " ".join(text.replace("\t", " ").splitlines())
    return text.encode("utf-8", "replace")
