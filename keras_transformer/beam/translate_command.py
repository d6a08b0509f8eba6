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
from keras_transformer.beam import beam_files, line_shards, runners
from keras_transformer.beam.translate_transform import METRICS
from keras_transformer.cli import flags
from keras_transformer.inference.opening import read_export
from keras_transformer.support.errors import InputError
from keras_transformer.support.locks import locked

_JOB_FILE = "job.json"


def translate(
    *beam_flags: runners.BeamFlags,
    input: list[str],
    model: str,
    output: str,
    lines_per_shard: flags.PositiveInteger = 10_000,
    gzip: bool = False,
    threads: flags.PositiveInteger = 1,
    share_model: bool = False,
) -> None:
    """Translate the lines of many files with a SavedModel or a LiteRT model.

    A job that was stopped is resumed by the same command. Options that are not
    listed are Beam's, such as --runner.

    Args:
        *beam_flags: Flags of Beam, and their values.
        input: Text files, also compressed (.gz, .bz2, .xz, .zst), or patterns:
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
    handler = line_shards.ShardHandler(model, threads, share_model)
    inputs = _find_files(input)
    output = beam_files.absolute_path(output)
    job = {
        "version": __version__,
        "model": _fingerprint(handler.path),
        "inputs": inputs,
        "lines_per_shard": lines_per_shard,
        "gzip": gzip,
        "threads": threads,
    }
    pipeline = runners.make_pipeline(beam_flags)
    if _is_complete(output, job):
        print(f"{output} is complete{_describe_failed(output)}")
        return
    suffix = ".tsv.gz" if gzip else ".tsv"
    _ = (
        pipeline
        | beam.Create(list(inputs))
        | "Spread files" >> beam.Reshuffle()
        | beam.ParDo(line_shards.ReadShards(output, suffix, lines_per_shard))
        | "Spread shards" >> beam.Reshuffle()
        | RunInference(handler)
        | beam.ParDo(line_shards.WriteShard(output, suffix))
    )
    partial = FileSystems.join(output, line_shards.PARTIAL)
    is_on_disk = beam_files.is_on_disk(output)
    with locked(partial) if is_on_disk else contextlib.nullcontext():
        _write_job(output, job)
        start = time.monotonic()
        result = runners.run_pipeline(pipeline)
        seconds = time.monotonic() - start
        _write_job(output, {**job, "complete": True})
        # Killed workers have left files there.
        if is_on_disk:
            shutil.rmtree(partial)
        else:
            left = beam_files.match_files(FileSystems.join(partial, "*"))
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
    pattern = FileSystems.join(output, f"*{line_shards.FAILED}")
    if not beam_files.match_files(pattern):
        return ""
    return f"; lines that failed are in {pattern}"


def _find_files(patterns: Sequence[str]) -> dict[str, list[float]]:
    """Returns size and time of each file by its path, in their order."""
    files = {
        file.path: [file.size_in_bytes, file.last_updated_in_seconds]
        for pattern in patterns
        for file in beam_files.find_inputs(pattern)
    }
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
    """Returns whether the job is complete; refuses anything but its output."""
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
    if beam_files.is_on_disk(output):
        is_file = os.path.exists(output) and not os.path.isdir(output)
        names = os.listdir(output) if os.path.isdir(output) else []
        # A job that was stopped before it wrote the file leaves this folder.
        is_taken = is_file or set(names) - {line_shards.PARTIAL}
    else:
        is_taken = beam_files.match_files(FileSystems.join(output, "*"))
    if is_taken:
        raise InputError(
            f"{output} already exists. Choose a new folder as --output."
        )
    return False


def _write_job(output: str, job: dict[str, Any]) -> None:
    text = json.dumps(job, indent=2, ensure_ascii=False) + "\n"
    path = FileSystems.join(output, _JOB_FILE)
    partial = FileSystems.join(output, line_shards.PARTIAL)
    with beam_files.create_file(path, partial) as file:
        file.write(text.encode())
