"""`translate`: text files to files of translations, with many workers."""

import argparse
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import MetricsFilter
from apache_beam.options import pipeline_options
from cyclopts import Parameter

from keras_transformer.bulk.translate_transform import (
    METRICS,
    Failed,
    Translate,
    Translated,
)
from keras_transformer.cli.flags import PositiveInteger
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.support.startup import available_cores
from keras_transformer.support.text_files import encoded_lines

_BeamOptions = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]


def translate(
    *beam_options: _BeamOptions,
    input: list[str],
    model: str,
    output: str,
    threads: PositiveInteger = 1,
    share_model: bool = False,
) -> None:
    """Translate the lines of text files with a SavedModel or a LiteRT model.

    All other options are Beam's, such as --runner.

    Args:
        *beam_options: Options of Beam.
        input: Text files, also compressed ones, or patterns: `'crawl-*.gz'`.
        model: Folder of the export, where every worker finds it.
        output: New or empty folder, for NAME.tsv and perhaps NAME.failed.
        threads: Threads of a worker process; 1 is for a process per core.
        share_model: Use one model for all processes of a machine, as for a
            single GPU.
    """
    pipeline = _make_pipeline(beam_options)
    transform = Translate(model, threads=threads, share_model=share_model)
    files = _find_files(input)
    if FileSystems.get_scheme(output) is None:
        check_free(output)
        os.makedirs(output, exist_ok=True)
    translated, failed = (
        pipeline
        | beam.Create(files.items())
        | beam.FlatMapTuple(_read_lines)
        | beam.Reshuffle()
        | transform
    )
    # An empty input also gets an output.
    starts = [(f"{name}.tsv", (0, b"")) for name in files]
    rows = (
        pipeline | "Outputs" >> beam.Create(starts),
        translated | "Translations" >> beam.Map(_row),
        failed | "Failures" >> beam.Map(_row),
    ) | beam.Flatten()
    _ = rows | beam.GroupByKey() | beam.Map(_write_file, output)
    result = pipeline.run()
    result.wait_until_finish()
    metrics = result.metrics().query(MetricsFilter().with_namespace(METRICS))
    counts = Counter({x.key.metric.name: x.result for x in metrics["counters"]})
    lines = counts["num_inferences"]
    print(f"{output}: {lines:,} lines, {counts['failed']:,} of them failed")


def _make_pipeline(words: Sequence[str]) -> beam.Pipeline:
    """Returns an empty pipeline, by default with one process per core."""
    flags = [
        f"--direct_num_workers={available_cores()}",
        "--direct_running_mode=multi_processing",
        "--default_sdk_harness_log_level=ERROR",
    ]
    options = pipeline_options.PipelineOptions(flags + list(words))
    unknown: list[str] = []  # Beam would ignore them

    def find_unknown(parser: argparse.ArgumentParser) -> None:
        unknown.extend(parser.parse_known_args(words)[1])

    # Beam passes the parser of all its options.
    options.get_all_options(add_extra_args_fn=find_unknown)
    if unknown:
        raise InputError(
            f"All other options must be Beam's. Received: {' '.join(unknown)}"
        )
    runner = None
    if options.view_as(pipeline_options.StandardOptions).runner is None:
        runner = beam.runners.DirectRunner()
        runner.is_interactive()  # a mark; others download Prism, in Go
    return beam.Pipeline(runner, options)


def _find_files(patterns: Sequence[str]) -> dict[str, str]:
    """Returns the paths of all matching files, by name."""
    files: dict[str, str] = {}
    for pattern in patterns:
        # Beam finds no pattern without a folder on the disk.
        is_on_disk = FileSystems.get_scheme(pattern) is None
        path = os.path.abspath(pattern) if is_on_disk else pattern
        (match,) = FileSystems.match([path])
        if not match.metadata_list or os.path.isdir(path):
            received = f"Received: {pattern}"
            raise InputError(f"must be text files. {received}", "input")
        for file in match.metadata_list:
            name = FileSystems.split(file.path)[1]
            if files.setdefault(name, file.path) != file.path:
                raise InputError(
                    "The input files must have different names. "
                    f"Received: {files[name]}, {file.path}"
                )
    return files


def _read_lines(name: str, path: str) -> Iterator[tuple[Any, bytes]]:
    """Yields the lines of a file, with its name and their numbers as keys."""
    number = 0
    with FileSystems.open(path, compression_type="uncompressed") as file:
        for lines in encoded_lines(file, path):
            for line in lines:
                number += 1
                yield (name, number), line


def _row(record: Translated | Failed) -> tuple[str, tuple[int, bytes]]:
    """Returns the name of an output file, and a line with its number."""
    name, number = record.key
    if isinstance(record, Failed):
        file = f"{name}.failed"
        columns = [str(number), record.error]
    else:
        file = f"{name}.tsv"
        columns = [str(number), f"{record.score:.4f}", record.text]
    # A model may spell tabs and line ends.
    columns = [" ".join(x.replace("\t", " ").splitlines()) for x in columns]
    line = "\t".join(columns).encode("utf-8", "replace")
    return file, (number, line + b"\t" + record.source + b"\n")


def _write_file(group: tuple[str, Iterable], output: str) -> None:
    """Writes a file atomically."""
    path = FileSystems.join(output, group[0])
    partial = f"{path}.{uuid.uuid4().hex}"  # two workers may write the same
    with FileSystems.create(partial) as file:
        file.writelines(row for _, row in sorted(group[1]))
    FileSystems.rename([partial], [path])
