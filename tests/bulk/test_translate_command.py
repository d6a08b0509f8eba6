import bz2
import gzip

import pytest
from commands import Result, check_error

import keras_transformer as kt
from keras_transformer.bulk.__main__ import main


@pytest.fixture
def run(capsys, monkeypatch, tmp_path, fake):
    """Runs the command in this process, and returns its `Result`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\r\nbad\n\nf\tive")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"four\n"))
    (tmp_path / "c.txt.bz2").write_bytes(bz2.compress(b""))

    def run(*arguments, **changed):
        options = {
            "input": "?.txt*",
            "model": fake[0],
            "output": "out",
            "direct_running_mode": "in_memory",
            "direct_num_workers": 1,
        }
        options |= changed
        flags = [f"--{name}={value}" for name, value in options.items()]
        code = main(["translate", *flags, *arguments])
        return Result(code, *capsys.readouterr())

    return run


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_files_of_lines_become_files_of_translations(run, tmp_path, fake):
    # Another option of Beam, whose name in `PipelineOptions` is machine_type.
    code, out, _ = run("--worker_machine_type=n1-standard-4", threads=2)
    assert (code, out) == (0, "out: 6 lines, 1 of them failed\n")
    assert files(tmp_path / "out") == {
        "a.txt.tsv": b"1\t-1.5000\tONE\tone\n2\t-1.5000\tTWO\ttwo\n"
        b"4\t0.0000\t\t\n5\t-2.5000\tF IVE\tf\tive\n",
        "a.txt.failed": b"3\tRuntimeError: no kernel\tbad\n",
        "b.txt.gz.tsv": b"1\t-2.0000\tFOUR\tfour\n",
        "c.txt.bz2.tsv": b"",
    }
    assert fake[1][-1].threads == 2
    check_error(run(), "out already")


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("input", "*.md", "*.md"),
        ("input", "model", "model"),
        ("model", "out", "out"),
        ("output", "a.txt", "a.txt"),
        ("thread", "2", "--thread=2"),
        ("threads", "0", "--threads"),
    ],
)
def test_what_is_wrong_is_found_before_the_pipeline_starts(
    run, tmp_path, fake, name, value, message
):
    check_error(run(**{name: value}), message)
    assert not (tmp_path / "out").exists() and not fake[1]


def test_a_truncated_file_is_named(run, tmp_path):
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"four\n" * 9)[:-8])
    check_error(run(), "b.txt.gz must be complete")


@pytest.mark.slow
def test_no_line_is_lost_or_doubled(litert_folder, pairs, tmp_path, capfd):
    """With a process per core, as by default."""
    sources = [*pairs, ""]
    lines = [sources[i * i % len(sources)] for i in range(3_000)]
    lines[777] = "too long " * 20
    for name, part in (("a", lines[:1_000]), ("b", lines[1_000:])):
        text = "".join(f"{line}\n" for line in part)
        (tmp_path / f"{name}.txt").write_text(text)
    command = ["translate", "--input", f"{tmp_path}/*.txt"]
    command += ["--model", str(litert_folder), "--output", f"{tmp_path}/out"]
    assert main(command) == 0
    assert "3,000 lines, 1 of them failed" in capfd.readouterr().out
    written = files(tmp_path / "out")
    assert written.pop("a.txt.failed").startswith(b"778\t")
    translator = kt.open_translator(litert_folder)
    distinct = list(dict.fromkeys(lines))
    expected = dict(zip(distinct, translator.translate(distinct), strict=True))
    rows = [x.split("\t") for x in written["a.txt.tsv"].decode().splitlines()]
    numbers = [int(number) for number, *_ in rows]
    assert numbers == [i for i in range(1, 1_001) if i != 778]
    rows += [x.split("\t") for x in written["b.txt.tsv"].decode().splitlines()]
    assert [row[3] for row in rows] == lines[:777] + lines[778:]
    for _, score, text, source in rows:
        assert text == expected[source].texts[0]
        score = float(score)
        assert score == pytest.approx(expected[source].scores[0], abs=2e-4)
