"""`translate` with two processes, one of which is killed."""

import subprocess
import sys

import pytest
from beam_workers import kill_a_worker

from keras_transformer.litert import LiteRTTranslator

LINES = 8_000


@pytest.fixture(scope="module")
def job(litert_folder, pairs, tmp_path_factory):
    """Lines, few of them distinct, and the command that translates them."""
    sources = [*pairs, ""]
    lines = [sources[i * i % len(sources)] for i in range(LINES)]
    lines[777] = "too long " * 20
    text = tmp_path_factory.mktemp("texts") / "lines.txt"
    text.write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "keras_transformer.beam", "translate"]
    command += [
        "--input",
        text,
        "--model",
        litert_folder,
        "--lines-per-shard",
        "200",
    ]
    return lines, [*command, "--direct_num_workers", "2", "--output"]


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture(scope="module")
def complete(job, tmp_path_factory):
    """The output of a job that nothing stopped."""
    output = tmp_path_factory.mktemp("outputs") / "complete"
    done = subprocess.run([*job[1], output], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Translated 8,000 lines in ")
    return files(output)


@pytest.mark.slow
def test_no_line_is_lost_or_doubled(job, litert_folder, complete):
    lines, _ = job
    distinct = list(dict.fromkeys(lines))
    translator = LiteRTTranslator.open(litert_folder)
    expected = dict(zip(distinct, translator.translate(distinct), strict=True))
    numbers = []
    for name in sorted(complete):
        if not name.endswith(".tsv"):
            continue
        for row in complete[name].decode().splitlines():
            number, score, text, source = row.split("\t")
            numbers.append(int(number))
            assert source == lines[numbers[-1] - 1]
            assert text == expected[source].texts[0]
            score = float(score)
            assert score == pytest.approx(expected[source].scores[0], abs=2e-4)
    # In order, all but the one that failed.
    assert numbers == [i for i in range(1, LINES + 1) if i != 778]
    (failed,) = (x for name, x in complete.items() if name.endswith(".failed"))
    assert failed.startswith(b"778\tThe text is longer than the model reads.\t")
    assert len(complete) == LINES / 200 + 2


@pytest.mark.slow
def test_a_killed_job_leaves_complete_files_and_is_resumed(
    job, complete, tmp_path
):
    output = tmp_path / "out"
    command = [*job[1], output]
    kill_a_worker(command, lambda: list(output.glob("*.tsv")))
    left = {x.name: x.read_bytes() for x in output.iterdir() if x.is_file()}
    written = {name for name in left if name.endswith(".tsv")}
    assert 0 < len(written) < LINES / 200
    assert all(left[name] == complete[name] for name in written)
    before = {name: (output / name).stat().st_mtime_ns for name in written}
    resumed = subprocess.run(command, capture_output=True)
    assert resumed.returncode == 0, resumed.stderr
    assert files(output) == complete
    assert before == {
        name: (output / name).stat().st_mtime_ns for name in written
    }
