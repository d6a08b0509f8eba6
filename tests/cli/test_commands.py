"""What the commands do and print."""

import json
import os
import subprocess
import sys

from commands import fails, train, translate

from keras_transformer import presets


def test_train_says_what_it_drops(run_cli, trained, tmp_path):
    _, data = trained
    code, out, _ = train(run_cli, data, tmp_path / "run")
    assert code == 0
    assert "1 longer than 32 tokens and 1 with an empty side" in out
    assert f"evaluate {tmp_path / 'run'}" in out


def test_train_keeps_its_checkpoints_and_log(trained):
    run, _ = trained
    names = sorted(p.name for p in (run / "checkpoints").glob("step*"))
    assert names == [f"step-{n:08d}.weights.h5" for n in (1, 2)]
    header, *lines = (run / "log.csv").read_text().splitlines()
    assert {"loss", "nll", "val_perplexity"} <= set(header.split(","))
    assert len(lines) == 2


def test_evaluate_records_results(run_cli, trained):
    run, data = trained
    code, out, _ = run_cli("evaluate", run, "--data", data, "--split", "test")
    assert code == 0
    results = json.loads((run / "results.json").read_text())
    assert results[-1]["sentences"] == 3
    assert results[-1]["step"] == 2
    assert results[-1]["truncated"] >= 1
    # An empty line and one that is too long have no perplexity.
    assert results[-1]["perplexity_sentences"] == 1
    assert "perplexity is of 1 sentences" in out
    assert f"{results[-1]['bleu']:.2f}  {results[-1]['bleu_signature']}" in out
    lines = (run / "translations-test.txt").read_text().splitlines()
    assert len(lines) == 3
    assert lines[1] == ""


def test_translate_answers_line_by_line(run_cli, trained, monkeypatch):
    run, _ = trained
    text = "the cat sleeps\n\n" + "a" * 100_000 + "\nyes"
    code, out, err = translate(run_cli, monkeypatch, run, text.encode())
    assert code == 0
    assert out.count("\n") == 4
    assert out.split("\n")[1] == ""
    assert "line 3 was truncated" in err


def test_translate_n_best_prints_scores(run_cli, trained, monkeypatch):
    run, _ = trained
    code, out, _ = translate(
        run_cli, monkeypatch, run, b"the cat\nyes\n", "--n-best", "3"
    )
    assert code == 0
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == list("111222")
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)


def test_translate_takes_the_files_of_windows(run_cli, trained, monkeypatch):
    run, _ = trained
    plain = translate(run_cli, monkeypatch, run, b"the cat\nyes\n")
    marked = b"\xef\xbb\xbfthe cat\r\nyes\r\n"
    assert translate(run_cli, monkeypatch, run, marked) == plain


def test_translate_refuses_bytes_that_are_no_utf8(
    run_cli, trained, monkeypatch
):
    run, _ = trained
    fails(
        translate(run_cli, monkeypatch, run, b"yes\n\xff\n"), "UTF-8", "line 2"
    )


def test_attention_writes_a_picture(run_cli, trained, tmp_path):
    run, _ = trained
    picture = tmp_path / "a.png"
    code, out, _ = run_cli("attention", run, "the cat", "--output", picture)
    assert code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in out


def test_curve_writes_a_picture(run_cli, trained, tmp_path):
    run, _ = trained
    picture = tmp_path / "a.svg"
    code, out, _ = run_cli("curve", run, "--output", picture)
    assert code == 0
    assert "validation, greedy" in picture.read_text("utf-8")
    assert str(picture) in out


def test_params_lists_every_preset_beside_the_paper(run_cli):
    code, out, _ = run_cli("params")
    assert code == 0
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert set(presets.PRESETS) <= set(rows)
    assert rows["base"][1:2] == ["63,045,632"]
    assert rows["base"][5:8] == ["65M", "4.92", "25.8"]
    assert rows["big"][5:8] == ["213M", "4.33", "26.4"]
    assert rows["tiny"][5:8] == ["-", "-", "-"]


def test_flags_of_training_and_the_mean(run_cli, trained, tmp_path):
    past, data = trained
    flags = (
        "--accumulate 2 --clip-norm 0.5 --patience 3 --tensorboard "
        "--dtype mixed_bfloat16 --keep 2 --steps 3"
    ).split()
    result = train(run_cli, data, tmp_path / "run", *flags, "--init-from", past)
    assert result[0] == 0
    assert f"weights: {past / 'checkpoints' / 'step-00000002'}" in result[1]
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (
        config["recipe"].items()
        >= {
            "accumulate": 2,
            "clip_norm": 0.5,
            "patience": 3,
            "tensorboard": True,
            "dtype": "mixed_bfloat16",
            "keep": 2,
        }.items()
    )
    assert list((tmp_path / "run" / "tensorboard").iterdir())

    code, out, _ = run_cli("average", tmp_path / "run", tmp_path / "mean")
    assert code == 0
    assert out.splitlines() == [
        f"{tmp_path / 'mean'} holds the mean of",
        "  step-00000002.weights.h5",
        "  step-00000003.weights.h5",
    ]


def test_a_reader_that_has_gone():
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.cli", "params"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (141, b"")


def test_a_run_that_is_done_is_left_as_it_is(run_cli, trained):
    run, data = trained
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*.*")}
    code, out, _ = train(run_cli, data, run)
    assert code == 0
    assert "all 2 steps are done" in out
    code, out, _ = train(run_cli, "embedded", run, "--steps", "1")
    assert code == 0
    assert "all 1 steps are done" in out
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*.*")} == before


def test_a_checkpoint_by_its_name(run_cli, trained):
    run, data = trained
    arguments = ("evaluate", run, "--data", data, "--split", "test")
    code, *_ = run_cli(*arguments, "--checkpoint", "1")
    assert code == 0
    *_, newest = json.loads((run / "results.json").read_text())
    assert newest["checkpoint"] == "step-00000001.weights.h5"
    fails(run_cli(*arguments, "--checkpoint", "7"), "1, 2", "checkpoint=7")


def test_strategy_is_printed_with_the_devices(run_cli, trained, tmp_path):
    _, data = trained
    code, out, _ = train(
        run_cli, data, tmp_path / "run", "--strategy", "mirrored"
    )
    assert code == 0
    assert "strategy: mirrored, 2 replicas; here CPU:0, CPU:1" in out


def test_help_answers_without_tensorflow():
    script = (
        "import sys; sys.modules['tensorflow'] = None\n"
        "from keras_transformer.cli import main\n"
        "main(['--help'])"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
    )
    assert process.returncode == 0, process.stderr
    assert "translate standard input" in process.stdout
