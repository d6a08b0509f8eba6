"""What the commands refuse: code 2 and a sentence."""

import shutil

import pytest
from commands import fails, train, translate, write_corpus


def test_missing_file(run_cli, tmp_path):
    result = train(run_cli, tmp_path / "nowhere", tmp_path / "run")
    fails(result, "nowhere")
    assert not (tmp_path / "run").exists()


def test_sides_of_different_length(run_cli, tmp_path):
    data = write_corpus(tmp_path / "d", train_en="a\nb\nc\n", train_de="a\nb\n")
    fails(train(run_cli, data, tmp_path / "run"), "3", "2", "train.de")
    assert not (tmp_path / "run").exists()


def test_empty_corpus(run_cli, tmp_path):
    data = write_corpus(tmp_path / "d", train_en="", train_de="")
    fails(train(run_cli, data, tmp_path / "run"), "empty")


def test_only_empty_lines(run_cli, tmp_path):
    data = write_corpus(tmp_path / "d", train_en="\n\n", train_de="\n\n")
    fails(train(run_cli, data, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_invalid_utf8_names_the_line(run_cli, tmp_path):
    data = write_corpus(
        tmp_path / "d", train_en="a\nb\n", train_de=b"a\n\xe4\n"
    )
    fails(train(run_cli, data, tmp_path / "run"), "train.de", "line 2")
    assert not (tmp_path / "run").exists()


def test_unknown_preset(run_cli, tmp_path, trained):
    _, data = trained
    fails(
        train(run_cli, data, tmp_path / "run", "--preset", "huge"),
        "'huge'",
        "base",
    )


def test_unknown_split(run_cli, trained):
    run, data = trained
    fails(
        run_cli("evaluate", run, "--data", data, "--split", "dev"),
        "'dev'",
        "train, valid, test",
    )


def test_vocabulary_larger_than_the_corpus_can_fill(run_cli, tmp_path, trained):
    _, data = trained
    fails(
        train(run_cli, data, tmp_path / "run", "--vocab-size", "9000"), "9000"
    )
    assert not (tmp_path / "run").exists()


def test_run_without_a_checkpoint(run_cli, trained, tmp_path):
    run, _ = trained
    for name in ("config.json", "tokenizer.model"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    fails(run_cli("export", tmp_path, tmp_path / "exported"), "no checkpoint")
    assert not (tmp_path / "exported").exists()


def test_a_folder_that_is_no_run(run_cli, tmp_path):
    fails(run_cli("translate", tmp_path), "config.json", str(tmp_path))


def test_output_that_holds_another_run_is_not_overwritten(run_cli, trained):
    run, data = trained
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    fails(
        train(run_cli, data, run, "--seed", "7"), "seed=1 and not 7", str(run)
    )
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


def test_output_below_a_file(run_cli, trained, tmp_path):
    _, data = trained
    (tmp_path / "file").write_text("kept")
    fails(train(run_cli, data, tmp_path / "file" / "run"), "is a file")
    assert (tmp_path / "file").read_text() == "kept"


def test_damaged_checkpoint(run_cli, trained, tmp_path):
    run, _ = trained
    shutil.copytree(run, tmp_path / "run")
    newest = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    newest.write_bytes(newest.read_bytes()[:1000])
    fails(
        run_cli("export", tmp_path / "run", tmp_path / "exported"),
        newest.name,
        "damaged",
    )


def test_backend_without_tensorflow_graphs(run_cli, trained, monkeypatch):
    run, _ = trained
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    fails(run_cli("translate", run), "KERAS_BACKEND=jax")


def test_attention_of_a_sentence_that_is_too_long(run_cli, trained, tmp_path):
    run, _ = trained
    output = tmp_path / "a.png"
    fails(run_cli("attention", run, "q" * 99, "--output", output), "31 tokens")
    assert not output.exists()


def test_disk_full(run_cli, trained, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keras_transformer.train.run.write_json", fail)
    _, data = trained
    result = train(run_cli, data, tmp_path / "run")
    fails(result, "The disk is full. Received: [Errno 28] No space left")
    assert not (tmp_path / "run" / "config.json").exists()


def test_the_scores_are_told_though_they_cannot_be_written(
    run_cli, trained, monkeypatch
):
    def fail(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("keras_transformer.train.evaluation.write_json", fail)
    run, data = trained
    result = run_cli("evaluate", run, "--data", data)
    fails(result, "Permission denied")
    assert "BLEU  " in result[1]


def test_the_other_direction(run_cli, trained):
    run, data = trained
    swapped = ["--source", "de", "--target", "en"]
    result = run_cli("evaluate", run, "--data", data, *swapped)
    fails(result, "from en to de. Received: source=de, target=en")


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("OOM of [9,9]", "smaller --beam-size"),
        ("a.index; No space left on device", "The disk is full."),
    ],
)
def test_too_few_resources(run_cli, trained, monkeypatch, message, advice):
    import tensorflow as tf

    def fail(*_, **__):
        raise tf.errors.ResourceExhaustedError(None, None, message)

    monkeypatch.setattr("keras_transformer.train.evaluation.evaluate", fail)
    run, data = trained
    result = run_cli("evaluate", run, "--data", data)
    fails(result, advice, f"Received: {message}")


def test_an_error_in_a_graph_names_its_reason(run_cli, trained, monkeypatch):
    import tensorflow as tf

    @tf.function
    def read(path):
        return tf.io.read_file(path)

    monkeypatch.setattr(
        "keras_transformer.train.evaluation.evaluate",
        lambda *_, **__: read(tf.constant("/nowhere/a")),
    )
    run, data = trained
    result = run_cli("evaluate", run, "--data", data)
    fails(result, "cannot be read or written. Received: /nowhere/a; No such")


def test_an_export_that_cannot_be_written(run_cli, trained, monkeypatch):
    import tensorflow as tf

    def fail(*_, **__):
        raise tf.errors.PermissionDeniedError(None, None, "exported; denied")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    run, _ = trained
    fails(run_cli("export", run, run.parent / "exported"), "exported; denied")


def test_nan_loss(run_cli, trained, tmp_path):
    _, data = trained
    wild = ("--learning-rate-scale", "1e30", "--steps", "9")
    fails(train(run_cli, data, tmp_path / "run", *wild), "loss", "nan")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--dtype", "float99"],
        ["--steps", "0"],
        ["--label-smoothing", "1.5"],
        ["--batch-tokens", "3"],
        ["--max-length", "1"],
        ["--seed", "-1"],
        ["--num-heads", "3"],
    ],
)
def test_values_out_of_range(run_cli, trained, tmp_path, arguments):
    _, data = trained
    result = train(run_cli, data, tmp_path / "run", *arguments)
    fails(result, arguments[0][2:].replace("-", "_"))
    assert "tokenizer" not in result[1]  # before the corpus is read
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--beam-size", "0"],
        ["--alpha", "-1"],
        ["--n-best", "9"],
        ["--n-best", "0"],
    ],
)
def test_search_values_out_of_range(run_cli, trained, monkeypatch, arguments):
    run, _ = trained
    fails(translate(run_cli, monkeypatch, run, b"a\n", *arguments))


def test_unknown_layer(run_cli, trained, tmp_path):
    run, _ = trained
    output = tmp_path / "a.png"
    fails(
        run_cli("attention", run, "a", "--output", output, "--layer", "7"),
        "layers 1 to 2",
    )
    assert not output.exists()
