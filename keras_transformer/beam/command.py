"""Translate the lines of many files with a SavedModel or a LiteRT model.

Options that are not listed are Beam's, such as --runner.
"""

import argparse
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.ml.inference.base import RunInference

from keras_transformer import __version__, litert
from keras_transformer.beam.running import run_pipeline
from keras_transformer.beam.shards import (
    FAILED,
    PARTIAL,
    ReadShards,
    ShardHandler,
    WriteShard,
)
from keras_transformer.beam.translating import METRICS
from keras_transformer.cli.options import flag, flags
from keras_transformer.inference.saved_model import newest_version
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_creatable

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
        InputError: If there is no such input or model, the output is another
            job's, or the pipeline fails.
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
    if _start(output, job):
        print(f"{output} is complete{_about_failed(output)}")
        return
    suffix = ".tsv.gz" if options.gzip else ".tsv"

    def build(pipeline: beam.Pipeline) -> None:
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

    start = time.monotonic()
    counts = Counter(run_pipeline(build, beam_arguments, METRICS))
    seconds = time.monotonic() - start
    partial = FileSystems.join(output, PARTIAL)
    if FileSystems.exists(partial):  # also what killed workers left
        FileSystems.delete([partial])
    _write_job(output, {**job, "complete": True})
    print(
        f"{counts['lines']:,} lines in {seconds:,.0f} s, after "
        f"{counts['shards_resumed']:,} shards that were there"
        f"{_about_failed(output)}"
    )


def _about_failed(output: str) -> str:
    """Returns where the lines are that failed, now or before, as text."""
    files = FileSystems.join(output, f"*{FAILED}")
    (match,) = FileSystems.match([files])
    return f"; lines that failed are in {files}" if match.metadata_list else ""


def _absolute(path: str) -> str:
    """Returns a path that is the same in every folder; gs://... stays."""
    return path if FileSystems.get_scheme(path) else os.path.abspath(path)


def _find_inputs(patterns: Sequence[str]) -> dict[str, int]:
    """Returns path and size of each file, in the order of the names."""
    found: dict[str, int] = {}
    for pattern in patterns:
        (match,) = FileSystems.match([_absolute(pattern)])
        if not match.metadata_list:
            raise InputError(
                f"The --input must be text files. Received: {pattern}, which "
                "matches none"
            )
        found |= {x.path: x.size_in_bytes for x in match.metadata_list}
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
        model = newest_version(model)
        files = [model / "saved_model.pb", model / "variables/variables.index"]
    content = b"".join(file.read_bytes() for file in files)
    return hashlib.sha256(content).hexdigest()


def _start(output: str, job: dict[str, Any]) -> bool:
    """Starts or resumes a job; returns whether it is complete already."""
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
    if not FileSystems.get_scheme(output):
        check_creatable(output)
    (match,) = FileSystems.match([FileSystems.join(output, "*")])
    if match.metadata_list or os.path.isfile(output):
        raise InputError(
            f"{output} already exists. Choose a new folder as --output."
        )
    _write_job(output, job)
    return False


def _write_job(output: str, job: dict[str, Any]) -> None:
    file = FileSystems.join(output, _JOB_FILE)
    partial = FileSystems.join(output, PARTIAL + _JOB_FILE)
    with FileSystems.create(partial) as stream:
        stream.write(json.dumps(job, indent=2).encode() + b"\n")
    FileSystems.rename([partial], [file])
