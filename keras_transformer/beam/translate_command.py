"""`translate`: text files to files of translations, with many workers."""

import codecs
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.direct.direct_runner import DirectRunner
from cyclopts import Parameter

from keras_transformer.beam.translate_transform import (
    METRICS,
    Failed,
    Translate,
    Translated,
)
from keras_transformer.cli.flags import PositiveInteger
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.support.startup import available_cores

_BeamOptions = Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]
# The name of an output, and a line of it after the number of its input line.
_Row = tuple[str, tuple[int, bytes]]


def translate(
    *beam_options: _BeamOptions,
    input: list[str],
    model: str,
    output: str,
    threads: PositiveInteger = 1,
    share_model: bool = False,
) -> None:
    """Translate the lines of text files with a SavedModel or a LiteRT model.

    All other options are those of Beam, such as --runner.

    Args:
        *beam_options: Options of Beam.
        input: Text files, also compressed ones, or patterns:
            `'crawl-*.txt.gz'`.
        model: Folder of the export, where every worker finds it.
        output: New or empty folder for NAME.tsv, and NAME.failed if lines of
            the input NAME failed.
        threads: Threads of a worker process; 1 is for a process per core.
        share_model: Use one model for all processes of a machine, as for a
            single GPU.
    """
    pipeline = _make_pipeline(beam_options)
    transform = Translate(model, threads=threads, share_model=share_model)
    paths = _find_files(input)
    if FileSystems.get_scheme(output) is None:
        check_free(output)
    translated, failed = (
        pipeline
        | beam.Create(paths)
        | beam.FlatMap(_read_lines)
        | beam.Reshuffle()
        | transform
    )
    rows = (
        pipeline | "Name outputs" >> beam.Create(map(_first_row, paths)),
        translated | beam.Map(_translated_row),
        failed | beam.Map(_failed_row),
    )
    files = rows | beam.Flatten() | beam.GroupByKey()
    _ = files | beam.Map(_write_file, output)
    result = pipeline.run()
    result.wait_until_finish()
    metrics = result.metrics().query(MetricsFilter().with_namespace(METRICS))
    counts = Counter({x.key.metric.name: x.result for x in metrics["counters"]})
    lines, failures = counts["num_inferences"], counts["failed"]
    print(f"{output}: {lines:,} lines, {failures:,} of them failed")


def _make_pipeline(words: Sequence[str]) -> beam.Pipeline:
    """Returns an empty pipeline, by default for a process per core here."""
    defaults = (
        f"--direct_num_workers={available_cores()}",
        "--direct_running_mode=multi_processing",
        "--default_sdk_harness_log_level=ERROR",
    )
    options = PipelineOptions([*defaults, *words])
    # Beam itself ignores options that it does not know.
    parsers: list = []
    options.get_all_options(add_extra_args_fn=parsers.append)
    unknown = parsers[0].parse_known_args(words)[1]
    if unknown:
        raise InputError(
            "Options must be those of the command or of Beam. Received: "
            + " ".join(unknown)
        )
    runner = None
    if options.view_as(StandardOptions).runner is None:
        runner = DirectRunner()
        runner.is_interactive()  # it does not download Prism, a runner in Go
    return beam.Pipeline(runner, options)


def _find_files(patterns: Sequence[str]) -> list[str]:
    """Returns the paths of all files that match; their names must differ."""
    paths: set[str] = set()
    for pattern in patterns:
        (match,) = FileSystems.match([pattern])
        if not match.metadata_list or os.path.isdir(pattern):
            raise InputError(
                "--input must be text files, or patterns of their names. "
                f"Received: {pattern}"
            )
        paths.update(file.path for file in match.metadata_list)
    names = Counter(FileSystems.split(path)[1] for path in paths)
    name, count = names.most_common(1)[0]
    if count > 1:
        raise InputError(
            "The files of --input must have different names, from which those "
            f"of the output are made. Received: {count} with the name {name}"
        )
    return sorted(paths)


def _read_lines(path: str) -> Iterator[tuple[tuple[str, int], bytes]]:
    """Yields the lines of a file, with its name and their numbers as keys."""
    name = FileSystems.split(path)[1]
    with FileSystems.open(path) as file:
        for number, line in enumerate(iter(file.readline, b""), start=1):
            if number == 1:  # some editors write a byte order mark
                line = line.removeprefix(codecs.BOM_UTF8)
            yield (name, number), line.removesuffix(b"\n").rstrip(b"\r")


def _first_row(path: str) -> _Row:
    """Returns a row without content, so that every input has an output."""
    return f"{FileSystems.split(path)[1]}.tsv", (0, b"")


def _translated_row(record: Translated) -> _Row:
    (name, number), source, text, score = record
    columns = number, score, _column(text), source
    return f"{name}.tsv", (number, b"%d\t%.4f\t%b\t%b\n" % columns)


def _failed_row(record: Failed) -> _Row:
    (name, number), source, error = record
    columns = number, _column(error), source
    return f"{name}.failed", (number, b"%d\t%b\t%b\n" % columns)


def _column(text: str) -> bytes:
    # A model may spell tabs and line ends.
    text = " ".join(text.replace("\t", " ").splitlines())
    return text.encode("utf-8", "replace")


def _write_file(
    file: tuple[str, Iterable[tuple[int, bytes]]], output: str
) -> None:
    """Writes a file, which appears under its name when it is complete."""
    path = FileSystems.join(output, file[0])
    partial = f"{path}.{uuid.uuid4().hex}"  # two workers may write the same
    with FileSystems.create(partial) as stream:
        stream.writelines(row for _, row in sorted(file[1]))
    FileSystems.rename([partial], [path])
