"""`prepare` with two processes, one of which is killed."""

import json
import os
import signal
import subprocess
import sys

import pytest
from beam_workers import is_running, kill_a_worker, wait_for, workers_of
from corpora import write_sides
from ids import rows

from keras_transformer.text import Tokenizer
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.preparation import Preparation
from keras_transformer.train.recipe import Recipe

PAIRS = 20_000


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Numbered pairs, and a tokenizer that every job is given."""
    folder = tmp_path_factory.mktemp("texts")
    words = [f"word{n}" for n in range(1, 500)]
    pairs = [
        (
            " ".join([str(n), *words[n * n % 450 :][: n % 40]]),
            " ".join([str(n), *words[n % 449 :][: n % 37]]),
        )
        for n in range(PAIRS)
    ]
    paths = write_sides(folder, pairs=pairs)
    Tokenizer.train(pairs[5_030] + pairs[9_999], 300).save(folder / "a.model")
    return folder, paths


@pytest.fixture(scope="module")
def expected(texts, tmp_path_factory):
    """What `prepare` writes."""
    folder, paths = texts
    tokenizer = Tokenizer.load(folder / "a.model")
    output = tmp_path_factory.mktemp("prepared")
    Preparation(open_corpus(paths), Recipe(), tokenizer).write(output)
    return files(output)


def command_for(texts, inputs, output, *others):
    command = [sys.executable, "-m", "keras_transformer.beam", "prepare"]
    command += ["--input", *inputs, "--tokenizer", texts[0] / "a.model"]
    command += ["--direct_num_workers", "2", "--output", output]
    return [*command, *others]


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stop", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, 2)],
)
def test_a_job_that_is_stopped_at_once_ends(texts, tmp_path, stop, code):
    """In the half second in which the workers start; with its processes."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        list(map(str, command_for(texts, texts[1], tmp_path / "out"))),
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    wait_for(lambda: workers_of(process))
    workers = workers_of(process)
    # A worker that is killed ends the whole job.
    is_kill = stop == signal.SIGKILL
    os.kill(workers[-1] if is_kill else process.pid, stop)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    assert b"Traceback" not in errors
    wait_for(lambda: not any(map(is_running, workers)), 10)
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_a_killed_job_is_resumed_and_writes_what_prepare_writes(
    texts, expected, tmp_path
):
    output, partial = tmp_path / "out", tmp_path / ".partial-out"
    command = command_for(texts, texts[1], output)
    kill_a_worker(command, lambda: list(partial.glob("work-*/chunk-*")))
    assert not output.exists()
    (work,) = partial.glob("work-*")
    written = len(list(work.glob("chunk-*")))
    assert 0 < written < 5
    resumed = subprocess.run(command, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert f"5 chunks, {written} of them done earlier" in resumed.stdout
    assert files(output) == expected
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    prepared = Prepared.open(output)
    texts = map(prepared.tokenizer.decode, rows(prepared.shards))
    numbers = [int(text.split()[0]) for text in texts]
    dropped = prepared.statistics.dropped_long
    assert len(numbers) == 2 * (PAIRS - dropped)
    assert numbers[::2] == numbers[1::2] == sorted(set(numbers))


@pytest.mark.slow
def test_each_of_equal_pairs_is_written_once(texts, expected, tmp_path):
    for name in ("a", "b"):
        for path, code in zip(texts[1], ("en", "de"), strict=True):
            (tmp_path / f"{name}.{code}").symlink_to(path)
    inputs = [tmp_path / "[ab].en", tmp_path / "[ab].de"]
    output = tmp_path / "out"
    command = command_for(texts, inputs, output, "--deduplicate")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = files(output)
    description = json.loads(written.pop("prepared.json"))
    assert description["statistics"]["dropped_duplicate"] == PAIRS
    assert written == {x: expected[x] for x in expected if x in written}
    assert written.keys() == expected.keys() - {"prepared.json"}
