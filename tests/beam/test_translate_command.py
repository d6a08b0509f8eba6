"""`python -m keras_transformer.beam translate`, in this process."""

import gzip
import json
import os

import pytest
from commands import Result, check_refused

from keras_transformer.beam.__main__ import main
from keras_transformer.support.locks import locked


@pytest.fixture
def run(capsys, tmp_path, fake):
    """Runs the command on two files, and returns its `Result`."""
    (tmp_path / "a.txt").write_text("one\ntwo\nbad\nthree\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"four\n"))

    def run(*arguments, **changed):
        options = {
            "input": tmp_path / "?.txt*",
            "model": fake[0],
            "output": tmp_path / "out",
            "lines-per-shard": 3,
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
    code, out, _ = run("--worker_machine_type=n1-standard-4")
    assert code == 0
    output = tmp_path / "out"
    assert out.startswith("Translated 5 lines in ")
    failed = f"; lines that failed are in {output}/*.failed\n"
    assert out.endswith(f" s. Skipped 0 shards of an earlier start{failed}")
    written = files(output)
    assert json.loads(written.pop("job.json"))["complete"] is True
    assert written == {
        "a.txt-00000.tsv": b"1\t-1.5000\tONE\tone\n2\t-1.5000\tTWO\ttwo\n",
        "a.txt-00000.failed": b"3\tRuntimeError: no kernel\tbad\n",
        "a.txt-00001.tsv": b"4\t-2.5000\tTHREE\tthree\n",
        "b.txt.gz-00000.tsv": b"1\t-2.0000\tFOUR\tfour\n",
    }
    opened = len(fake[1])
    assert fake[1][-1].threads == 1
    assert run() == (0, f"{output} is complete{failed}", "")
    assert len(fake[1]) == opened


def test_a_job_is_resumed_with_the_shards_that_it_lacks(run, tmp_path, fake):
    assert run().code == 0
    output = tmp_path / "out"
    before = files(output)
    job = json.loads(before["job.json"])
    del job["complete"]
    (output / "job.json").write_text(json.dumps(job))
    (output / "a.txt-00001.tsv").unlink()
    (output / ".partial").mkdir()
    (output / ".partial" / "killed").touch()
    out = run().out
    assert out.startswith("Translated 1 lines in ")
    assert ". Skipped 2 shards of an earlier start; lines that failed" in out
    assert files(output) == before
    assert fake[1][-1].sizes == [1]


def test_what_another_job_has_written_is_not_touched(run, tmp_path):
    output = tmp_path / "out"
    assert run().code == 0
    before = files(output)
    result = run("--gzip", **{"lines-per-shard": 2})
    check_refused(result, "another job", "differs in lines_per_shard, gzip. ")
    metadata = tmp_path / "model" / "keras_transformer.json"
    metadata.write_text(metadata.read_text() + " ")
    check_refused(run(), "another job, which differs in model. ")
    assert files(output) == before
    (output / "job.json").unlink()
    check_refused(run(), f"{output} already exists")
    for file in output.glob("*.*"):
        file.unlink()
    (output / "folder").mkdir()
    check_refused(run(), f"{output} already exists")
    (tmp_path / "file").touch()
    check_refused(run(output=tmp_path / "file"), "already exists")


def test_settings_reach_the_model_and_the_files(run, tmp_path, fake):
    output = tmp_path / "out"
    (output / ".partial").mkdir(parents=True)  # all that a stopped job left
    assert run("--gzip", threads=2).code == 0
    assert fake[1][-1].threads == 2
    names = ("a.txt-00000", "a.txt-00001", "b.txt.gz-00000")
    written = {x.name for x in output.glob("*.tsv*")}
    assert written == {f"{name}.tsv.gz" for name in names}
    content = gzip.decompress((output / "a.txt-00001.tsv.gz").read_bytes())
    assert content == b"4\t-2.5000\tTHREE\tthree\n"


def test_two_jobs_do_not_write_to_one_folder(run, tmp_path):
    output = tmp_path / "out"
    with locked(output / ".partial"):
        check_refused(run(), "Another process is writing to ")
    assert run().code == 0


def test_what_is_wrong_is_found_before_the_pipeline_starts(run, tmp_path, fake):
    for changed, *messages in (
        ({"input": tmp_path / "*.md"}, "*.md, which matches none"),
        ({"model": tmp_path}, "must be a SavedModel or a folder for LiteRT"),
        ({"input": "xyz://a/b"}, "file system that Beam reads", "xyz://a/b"),
        ({"output": "xyz://a/b"}, "file system that Beam reads", "xyz://a/b"),
        ({"output": tmp_path / "a[1]"}, "must not contain *, ? or [", "a[1]"),
        (
            {"runner": "MyRunner"},
            "valid options",
            "--runner=MyRunner",
            "It says",
        ),
    ):
        check_refused(run(**changed), *messages)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.txt").touch()
    result = run(input=f"{tmp_path}/**a.txt")
    check_refused(result, "different names", "2 with the name a.txt")
    assert not (tmp_path / "out").exists() and not fake[1]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--lines-per-shards=2", "Did you mean --lines-per-shard?"),
        ("--runer=FlinkRunner", "Did you mean --runner?"),
        ("--threads=0", 'Invalid value "0" for --threads. Must be >= 1.'),
        ("--threads=1.5", "must be an integer. Received: 1.5"),
        ("--xyz", "See python -m keras_transformer.beam translate --help."),
    ],
)
def test_a_mistyped_flag_is_not_ignored(run, tmp_path, flag, message):
    result = run(flag)
    assert result.code == 2 and message in result.err
    assert not (tmp_path / "out").exists()


def test_commands_are_listed(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "prepare" in out and "translate" in out
    assert main(["translate", "--help"]) == 0
    assert "--lines-per-shard INT" in capsys.readouterr().out


def test_truncated_and_changed_input(run, tmp_path):
    whole = (tmp_path / "b.txt.gz").read_bytes()
    (tmp_path / "b.txt.gz").write_bytes(whole[:-4])
    check_refused(run(), "must be complete", "b.txt.gz")
    (tmp_path / "b.txt.gz").write_bytes(whole)
    assert run(output=tmp_path / "new").code == 0
    os.utime(tmp_path / "a.txt", (1, 1))
    check_refused(run(output=tmp_path / "new"), "differs in inputs")
    (tmp_path / "c.txt").mkdir()
    check_refused(run(input=tmp_path / "c.txt"), "must be text", "a folder")
