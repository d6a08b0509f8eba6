"""`translate`: files of lines to files of translations, with many workers."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import MetricsFilter
from apache_beam.ml.inference.base import RunInference

from keras_transformer import __version__
from keras_transformer.beam.beam_files import (
    absolute_path,
    create_file,
    find_inputs,
    is_on_disk,
    match_files,
)
from keras_transformer.beam.line_shards import (
    FAILED,
    PARTIAL,
    ReadShards,
    ShardHandler,
    WriteShard,
)
from keras_transformer.beam.runners import (
    BeamFlags,
    make_pipeline,
    run_pipeline,
)
from keras_transformer.beam.translate_transform import METRICS
from keras_transformer.cli.flags import Flag, PositiveInteger
from keras_transformer.inference.opening import read_export
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_creatable
from keras_transformer.support.locks import locked

_JOB_FILE = "job.json"


def translate(
    *beam_flags: BeamFlags,
    input: list[str],
    model: str,
    output: str,
    lines_per_shard: PositiveInteger = 10_000,
    gzip: Flag = False,
    threads: PositiveInteger = 1,
    share_model: Flag = False,
) -> None:
    """Translate the lines of many files with a SavedModel or a LiteRT model.

    A job that was stopped is resumed by the same command. Options that are not
    listed are Beam's, such as --runner.

    Args:
        *beam_flags: Flags of Beam, and their values.
        input: Text files, also compressed (.gz, .bz2, .zst), or patterns:
            `'crawl-*.txt.gz'`.
        model: Folder of the export, where every worker finds it.
        output: New folder, or that of the same command, which is resumed.
        lines_per_shard: Lines of an output file, which a worker translates at
            a time.
        gzip: Compress the output.
        threads: Threads of a worker process; 1 is for a process per core.
        share_model: Use one model for all processes of a machine, as for a
            single GPU.
    """
    handler = ShardHandler(model, threads, share_model)
    inputs = _find_files(input)
    output = absolute_path(output)
    job = {
        "version": __version__,
        "model": _fingerprint(handler.path),
        "inputs": inputs,
        "lines_per_shard": lines_per_shard,
        "gzip": gzip,
        "threads": threads,
    }
    pipeline = make_pipeline(beam_flags)
    if _is_complete(output, job):
        print(f"{output} is complete{_describe_failed(output)}")
        return
    suffix = ".tsv.gz" if gzip else ".tsv"
    _ = (
        pipeline
        | beam.Create(list(inputs))
        | "Spread files" >> beam.Reshuffle()
        | beam.ParDo(ReadShards(output, suffix, lines_per_shard))
        | "Spread shards" >> beam.Reshuffle()
        | RunInference(handler)
        | beam.ParDo(WriteShard(output, suffix))
    )
    partial = FileSystems.join(output, PARTIAL)
    with locked(partial) if is_on_disk(output) else contextlib.nullcontext():
        _write_job(output, job)
        start = time.monotonic()
        result = run_pipeline(pipeline)
        seconds = time.monotonic() - start
        _write_job(output, {**job, "complete": True})
        # Killed workers have left files there.
        if is_on_disk(output):
            shutil.rmtree(partial)
        else:
            left = match_files(FileSystems.join(partial, "*"))
            FileSystems.delete([file.path for file in left])
    metrics = result.metrics().query(MetricsFilter().with_namespace(METRICS))
    counts = Counter({x.key.metric.name: x.result for x in metrics["counters"]})
    print(
        f"Translated {counts['lines']:,} lines in {seconds:,.0f} s. Skipped "
        f"{counts['shards_skipped']:,} shards of an earlier start"
        f"{_describe_failed(output)}"
    )


def _describe_failed(output: str) -> str:
    """Returns where the lines are that failed, now or before, as text."""
    pattern = FileSystems.join(output, f"*{FAILED}")
    if not match_files(pattern):
        return ""
    return f"; lines that failed are in {pattern}"


def _find_files(patterns: Sequence[str]) -> dict[str, list[float]]:
    """Returns size and time of each file by its path, in their order."""
    files = {}
    for pattern in patterns:
        for file in find_inputs(pattern):
            files[file.path] = [
                file.size_in_bytes,
                file.last_updated_in_seconds,
            ]
    names = Counter(FileSystems.split(path)[1] for path in files)
    name, count = names.most_common(1)[0]
    if count > 1:
        raise InputError(
            "The files of --input must have different names, from which those "
            f"of the output are made. Received: {count} with the name {name}"
        )
    return dict(sorted(files.items()))


def _fingerprint(model: str) -> str:
    """Returns a SHA-256 that differs between models; weights are not read."""
    folder = read_export(model)
    files = [folder.path / name for name in folder.identifying_files]
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
            earlier = json.loads(stream.read())
        complete = earlier.pop("complete", False)
        differing = [name for name in job if job[name] != earlier.get(name)]
        if differing:
            raise InputError(
                f"{output} has the output of another job, which differs in "
                f"{', '.join(differing)}. Choose another --output, or give "
                "the arguments of that job to resume it."
            )
        return complete
    if not is_on_disk(output):
        is_free = not match_files(FileSystems.join(output, "*"))
    else:
        check_creatable(output)
        # A job that was stopped before it wrote the file leaves this folder.
        is_free = not os.path.exists(output) or (
            os.path.isdir(output) and set(os.listdir(output)) <= {PARTIAL}
        )
    if not is_free:
        raise InputError(
            f"{output} already exists. Choose a new folder as --output."
        )
    return False


def _write_job(output: str, job: dict[str, Any]) -> None:
    text = json.dumps(job, indent=2, ensure_ascii=False) + "\n"
    partial_folder = FileSystems.join(output, PARTIAL)
    with create_file(
        FileSystems.join(output, _JOB_FILE), partial_folder
    ) as file:
        file.write(text.encode())
