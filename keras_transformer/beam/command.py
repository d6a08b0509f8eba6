"""Translate the lines of many files with a SavedModel or a LiteRT model.

Options that are not listed are Beam's, such as --runner.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import MetricsFilter
from apache_beam.ml.inference.base import RunInference

from keras_transformer import __version__, litert
from keras_transformer.beam.running import make_pipeline, run_pipeline
from keras_transformer.beam.shards import (
    FAILED,
    PARTIAL,
    ReadShards,
    ShardHandler,
    WriteShard,
)
from keras_transformer.beam.translating import METRICS
from keras_transformer.cli.options import flag, flags
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_creatable, write_json
from keras_transformer.support.locks import locked

_JOB_FILE = "job.json"

add_arguments = flags(
    flag(
        "--input PATTERN",
        "text files, also compressed (.gz, .bz2, .zst): 'crawl-*.txt.gz'",
        nargs="+",
        required=True,
    ),
    flag(
        "--model DIR",
        "folder of the export, where every worker finds it",
        required=True,
    ),
    flag(
        "--output DIR",
        "new folder, or that of the same command, which is resumed",
        required=True,
    ),
    flag(
        "--lines-per-shard N",
        "lines of an output file and of what a worker translates at a time",
        default=10_000,
    ),
    flag("--gzip", "compress the output"),
    flag(
        "--threads N",
        "threads of a worker process (default: 1, for a process per core)",
        default=1,
    ),
    flag(
        "--share-model",
        "one model for all processes of a machine, as for a single GPU",
    ),
)


def run(options: argparse.Namespace, beam_arguments: Sequence[str]) -> None:
    """Translates files, or resumes an unfinished job.

    Raises:
        InputError: If there is no such input or model, an option is invalid,
            the output is another job's, or the pipeline fails.
    """
    handler = ShardHandler(options.model, options.threads, options.share_model)
    inputs = _find_inputs(options.input)
    output = _absolute(options.output)
    job = {
        "version": __version__,
        "model": _fingerprint(Path(handler.path)),
        "inputs": inputs,
        "lines_per_shard": options.lines_per_shard,
        "gzip": options.gzip,
        "threads": options.threads,
    }
    pipeline = make_pipeline(beam_arguments)
    if _is_complete(output, job):
        print(f"{output} is complete{_about_failed(output)}")
        return
    suffix = ".tsv.gz" if options.gzip else ".tsv"
    reading = ReadShards(output, suffix, options.lines_per_shard)
    _ = (
        pipeline
        | beam.Create(list(inputs))
        | "Spread files" >> beam.Reshuffle()
        | beam.ParDo(reading)
        | "Spread shards" >> beam.Reshuffle()
        | RunInference(handler)
        | beam.ParDo(WriteShard(output, suffix))
    )
    is_local = FileSystems.get_scheme(output) is None
    partial = FileSystems.join(output, PARTIAL)
    with locked(partial) if is_local else contextlib.nullcontext():
        _write_job(output, job)
        start = time.monotonic()
        result = run_pipeline(pipeline)
        seconds = time.monotonic() - start
        # Killed workers have left files there.
        if is_local:
            shutil.rmtree(partial)
        else:
            FileSystems.delete(_match(FileSystems.join(partial, "*")))
        _write_job(output, {**job, "complete": True})
    found = result.metrics().query(MetricsFilter().with_namespace(METRICS))
    counts = Counter({x.key.metric.name: x.result for x in found["counters"]})
    print(
        f"Translated {counts['lines']:,} lines in {seconds:,.0f} s. Skipped "
        f"{counts['shards_skipped']:,} shards of an earlier start"
        f"{_about_failed(output)}"
    )


def _about_failed(output: str) -> str:
    """Returns where the lines are that failed, now or before, as text."""
    files = FileSystems.join(output, f"*{FAILED}")
    return f"; lines that failed are in {files}" if _match(files) else ""


def _match(pattern: str) -> list[str]:
    """Returns the paths that match."""
    (match,) = FileSystems.match([pattern])
    return [x.path for x in match.metadata_list]


def _absolute(path: str) -> str:
    """Returns a path that is the same in every folder; gs://... stays."""
    if FileSystems.get_scheme(path) is None:
        return os.path.abspath(path)
    try:
        FileSystems.get_filesystem(path)
    except ValueError as error:
        raise InputError(
            "Files must be on a file system that Beam reads, some of them with "
            f"its extras, such as apache-beam[gcp]. Received: {path}"
        ) from error
    return path


def _find_inputs(patterns: Sequence[str]) -> dict[str, list[float]]:
    """Returns path, size and time of each file, in the order of the names."""
    found: dict[str, list[float]] = {}
    for pattern in patterns:
        (match,) = FileSystems.match([_absolute(pattern)])
        if not match.metadata_list:
            raise InputError(
                f"The --input must be text files. Received: {pattern}, which "
                "matches none"
            )
        for x in match.metadata_list:
            if os.path.isdir(x.path):
                raise InputError(
                    f"The --input must be text files. Received: {x.path}, a "
                    "folder; its files are 'FOLDER/*'"
                )
            found[x.path] = [x.size_in_bytes, x.last_updated_in_seconds]
    names = Counter(FileSystems.split(path)[1] for path in found)
    name, count = names.most_common(1)[0]
    if count > 1:
        raise InputError(
            "The files of --input must have different names, from which those "
            f"of the output are made. Received: {count} with the name {name}"
        )
    return dict(sorted(found.items()))


def _fingerprint(model: Path) -> str:
    """Returns a SHA-256 that differs between models; weights are not read."""
    if litert.is_export(model):  # has that of the model
        files = [model / litert.METADATA_FILE]
    else:  # the index has the checksums of the weights
        files = [model / "saved_model.pb", model / "variables/variables.index"]
    content = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()


def _is_complete(output: str, job: dict[str, Any]) -> bool:
    """Returns whether the job is complete.

    Raises:
        InputError: If the output has anything but a part of this job.
    """
    if re.search(r"[*?\[]", output):
        raise InputError(
            "The --output must not contain *, ? or [, in which Beam sees a "
            f"pattern. Received: {output}"
        )
    file = FileSystems.join(output, _JOB_FILE)
    if FileSystems.exists(file):
        with FileSystems.open(file) as stream:
            found = json.loads(stream.read())
        complete = found.pop("complete", False)
        differing = [name for name in job if job[name] != found.get(name)]
        if differing:
            raise InputError(
                f"{output} has the output of another job, which differs in "
                f"{', '.join(differing)}. Choose another --output, or give "
                "the arguments of that job to resume it."
            )
        return complete
    if FileSystems.get_scheme(output):
        names = _match(FileSystems.join(output, "*"))
    elif os.path.isdir(output):
        check_creatable(output)
        names = os.listdir(output)
    else:
        check_creatable(output)
        names = [output] if os.path.exists(output) else []
    # A job that was stopped before it wrote the file leaves hidden ones.
    if any(not name.startswith(PARTIAL) for name in names):
        raise InputError(
            f"{output} already exists. Choose a new folder as --output."
        )
    return False


def _write_job(output: str, job: dict[str, Any]) -> None:
    file = FileSystems.join(output, _JOB_FILE)
    if FileSystems.get_scheme(file) is None:
        write_json(file, job)
    else:  # an object appears when it is complete
        with FileSystems.create(file) as stream:
            stream.write(json.dumps(job, indent=2).encode() + b"\n")
