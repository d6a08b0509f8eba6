"""The commands that make a run."""

import errno
import json
import shutil
import types

import pytest
from commands import check_refused, write_corpus

from keras_transformer import cli
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.presets import PRESETS
from keras_transformer.support.startup import available_cores
from keras_transformer.tasks import TranslationTask

RESULTS = {
    "task": "translation",
    "split": "test",
    "sentences": 3,
    "truncated": 0,
    "repaired": 0,
    "bleu": 12.34,
    "bleu_signature": "signature",
    "chrf": 1.0,
    "chrf_signature": "signature",
    "tokenized_bleu": 1.0,
    "perplexity": 2.0,
    "perplexity_sentences": 3,
    "beam_size": 4,
    "alpha": 0.6,
    "seconds": 0.1,
}


# === train ===


def test_train_reports_what_it_drops_and_what_is_next(trained):
    code, out, _ = trained.result
    assert code == 0
    assert "1 longer than 32 tokens and 1 with an empty side" in out
    assert out.endswith(
        f"The run is in {trained.run}. Next:\n"
        f"  keras-transformer evaluate {trained.run} --split test\n"
        f"  keras-transformer translate {trained.run}\n"
        f"  keras-transformer export {trained.run} --output exported/1\n"
    )


def test_train_writes_checkpoints_and_a_log(trained):
    names = sorted(p.name for p in (trained.run / "checkpoints").glob("step*"))
    assert names == [f"step-{n:08d}.weights.h5" for n in (1, 2)]
    header, *lines = (trained.run / "log.csv").read_text().splitlines()
    assert {"loss", "val_loss", "val_perplexity"} <= set(header.split(","))
    assert len(lines) == 2


@pytest.fixture
def train_call(monkeypatch):
    """Replaces the training; holds the arguments of the last call."""
    call = {}

    def train(corpus, output, preset, recipe, **keywords):
        call.update(corpus=corpus, output=output, preset=preset, recipe=recipe)
        call.update(keywords)
        return types.SimpleNamespace(path=output, task=TranslationTask())

    monkeypatch.setattr("keras_transformer.train.train", train)
    return call


def test_train_passes_its_flags_on(run_cli, trained, train_call, any_run):
    code, *_ = run_cli(
        *("train", trained.data, "--source", "de", "--target", "en"),
        *("--output", "runs/x", "--preset", "tiny", "--strategy", "mirrored"),
        *("--init-from", "runs/y", "--vocab-size", 300, "--max-length", 24),
        *("--gradient-accumulation-steps", 2, "--clip-norm", 0.5),
        *("--tensorboard", "--dtype", "mixed_bfloat16", "--max-to-keep", 2),
        *("--d-model", 64, "--d-k", 5, "--positional-encoding", "learned"),
    )
    assert code == 0
    corpus = train_call["corpus"]
    assert (corpus.source, corpus.target) == ("de", "en")
    assert (train_call["output"], train_call["preset"]) == ("runs/x", "tiny")
    assert train_call["init_from"] == "runs/y"
    assert (train_call["strategy"], train_call["cluster"]) == ("mirrored", None)
    assert train_call["recipe"] == dict(
        vocab_size=300,
        max_length=24,
        gradient_accumulation_steps=2,
        clip_norm=0.5,
        tensorboard=True,
        dtype="mixed_bfloat16",
        max_to_keep=2,
    )
    assert train_call["architecture"] == dict(
        d_model=64, d_k=5, positional_encoding="learned"
    )


def test_train_without_flags_is_the_preset_small(run_cli, trained, train_call):
    arguments = ("--source", "en", "--target", "de", "--output", "runs/x")
    code, *_ = run_cli("train", trained.data, *arguments)
    assert code == 0
    assert train_call["preset"] is None
    assert train_call["recipe"] == {}  # the defaults are those of `train`
    assert train_call["architecture"] == {}
    assert train_call["init_from"] is None


def test_train_is_silent_on_other_workers(run_cli, trained, monkeypatch):
    monkeypatch.setattr("keras_transformer.train.train", lambda *_, **__: None)
    arguments = ("--source", "en", "--target", "de", "--output", "runs/x")
    result = run_cli("train", trained.data, *arguments)
    assert result == (0, "", "")


def test_train_reports_all_invalid_values_before_it_starts(run_cli, tmp_path):
    result = run_cli(
        *("train", "embedded", "--output", tmp_path / "x"),
        *("--steps", 0, "--label-smoothing", 1.5),
    )
    check_refused(
        result,
        "--steps must be a positive integer. Received: --steps 0",
        "--label-smoothing must be",
        "Received: --label-smoothing 1.5",
    )
    assert list(tmp_path.iterdir()) == []


def test_train_suggests_a_preset(run_cli):
    result = run_cli("train", "embedded", "--output", "y", "--preset", "tny")
    check_refused(
        result, "no preset 'tny'", "'tiny'", "keras-transformer presets"
    )


def test_train_on_invalid_data_leaves_no_run(run_cli, tmp_path):
    data = write_corpus(
        tmp_path / "data", train_en="a\nb\n", train_de=b"a\n\xe4\n"
    )
    arguments = ("--source", "en", "--target", "de", "--preset", "tiny")
    result = run_cli("train", data, "--output", tmp_path / "run", *arguments)
    check_refused(result, "UTF-8", "train.de", "line 2")
    assert not (tmp_path / "run" / "config.json").exists()


def test_the_backend_must_be_tensorflow(run_cli, any_run, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    check_refused(run_cli("translate", "run"), "KERAS_BACKEND=jax")


# === evaluate ===


def test_evaluate_measures_and_records(run_cli, trained):
    code, out, _ = run_cli("evaluate", trained.run, "--data", trained.data)
    assert code == 0
    *_, results = json.loads((trained.run / "results.json").read_text())
    assert results["split"] == "test"
    assert results["sentences"] == 3
    assert (results["step"], results["beam_size"]) == (2, 4)
    assert {"bleu", "chrf", "tokenized_bleu"} < set(results)
    assert "ter" not in results and results["dtype"] == "float32"
    # Of the three, one is empty and one too long to have a perplexity.
    assert results["perplexity_sentences"] == 1
    assert f"{results['bleu']:.2f}  {results['bleu_signature']}" in out
    assert out.startswith(f"decoding test of {trained.data}\n")
    assert out.endswith(f"recorded in {trained.run / 'results.json'}\n")
    lines = (trained.run / "translations-test.txt").read_text().splitlines()
    assert len(lines) == 3
    assert lines[1] == ""


@pytest.fixture
def evaluate_call(monkeypatch):
    """Replaces the measurement; holds the arguments of the last call."""
    call = {}

    def evaluate(translator, corpus, split, target, workers, metrics):
        call.update(translator=translator, corpus=corpus, metrics=metrics)
        call.update(split=split, target=target, workers=workers)
        return RESULTS, ["a", "b", "c"]

    monkeypatch.setattr("keras_transformer.train.evaluation.evaluate", evaluate)
    return call


def test_evaluate_passes_its_flags_on(run_cli, trained, evaluate_call):
    code, *_ = run_cli(
        *("evaluate", trained.run, "--data", trained.data, "--split", "valid"),
        *("--checkpoint", 1, "--beam-size", 2, "--alpha", 1),
        *("--extra-length", 7, "--metric", "bleu", "ter"),
        *("--dtype", "bfloat16"),
    )
    assert code == 0
    assert evaluate_call["metrics"] == ["bleu", "ter"]
    model = evaluate_call["translator"].model
    assert model.dtype_policy.name == "bfloat16"
    search = evaluate_call["translator"].search
    assert (search.beam_size, search.alpha, search.extra_length) == (2, 1.0, 7)
    assert (evaluate_call["split"], evaluate_call["target"]) == ("valid", "de")
    assert evaluate_call["workers"] == available_cores()
    *_, results = json.loads((trained.run / "results.json").read_text())
    assert results["checkpoint"] == "step-00000001.weights.h5"
    assert results["step"] == 1


def test_evaluate_has_the_search_of_the_run(
    run_cli, trained, evaluate_call, tmp_path
):
    run = tmp_path / "run"
    shutil.copytree(trained.run, run)
    config = json.loads((run / "config.json").read_text())
    config["search"] = {"beam_size": 6, "length_penalty": "power"}
    (run / "config.json").write_text(json.dumps(config))
    arguments = ("evaluate", run, "--data", trained.data, "--alpha", 1)
    assert run_cli(*arguments).code == 0
    search = BeamSearch(6, 1.0, length_penalty="power")
    assert evaluate_call["translator"].search == search


def test_evaluate_prints_results_that_it_cannot_record(
    run_cli, trained, evaluate_call, monkeypatch
):
    def fail(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("keras_transformer.train.evaluation.write_json", fail)
    result = run_cli("evaluate", trained.run, "--data", trained.data)
    check_refused(result, "Permission denied")
    assert "12.34  signature" in result.out


@pytest.mark.parametrize(
    ("flags", "received"),
    [
        (["--source", "de", "--target", "en"], "--source de, --target en"),
        (["--target", "fr"], "--source en, --target fr"),
        (["--source", "fr"], "--source fr, --target de"),
    ],
)
def test_evaluate_refuses_other_languages(run_cli, trained, flags, received):
    result = run_cli("evaluate", trained.run, *flags)
    check_refused(result, f"{trained.run} translates from en to de", received)


def test_an_unknown_checkpoint(run_cli, trained):
    flags = ("--data", trained.data, "--checkpoint", 7)
    result = run_cli("evaluate", trained.run, *flags)
    check_refused(result, "1, 2, last", "--checkpoint 7")


def test_evaluate_on_what_the_run_was_trained_on(
    run_cli, trained, evaluate_call, tmp_path
):
    assert run_cli("evaluate", trained.run).code == 0
    corpus = evaluate_call["corpus"]
    assert corpus.name == str(trained.data)
    assert (corpus.source, corpus.target) == ("en", "de")
    run = shutil.copytree(trained.run, tmp_path / "run")
    config = json.loads((run / "config.json").read_text())

    def evaluated(data):
        config["recipe"]["data"] = data
        (run / "config.json").write_text(json.dumps(config))
        return run_cli("evaluate", run, "--split", "train")

    pair = f"{trained.data / 'train.en'} {trained.data / 'train.de'}"
    assert evaluated(pair).code == 0
    assert evaluate_call["corpus"].name == pair
    check_refused(evaluated(None), f"{run} does not say", "--data")
    check_refused(evaluated("go ne"), f"that {run} was trained", "go ne")


def test_evaluate_measures_an_ensemble(
    run_cli, trained, evaluate_call, tmp_path
):
    before = sorted(trained.run.iterdir())
    runs = (trained.run, trained.run)
    code, out, _ = run_cli("evaluate", *runs)
    assert code == 0 and len(evaluate_call["translator"].models) == 2
    assert out.endswith("not recorded: the results of an ensemble\n")
    assert sorted(trained.run.iterdir()) == before


# === average ===


def test_average_lists_what_it_averaged(run_cli, trained, tmp_path):
    code, out, _ = run_cli(
        "average", trained.run, "--output", tmp_path / "mean", "--last", 2
    )
    assert code == 0
    assert out.splitlines() == [
        f"{tmp_path / 'mean'} holds the mean of",
        "  step-00000001.weights.h5",
        "  step-00000002.weights.h5",
        *("", "Next:", f"  keras-transformer evaluate {tmp_path / 'mean'}"),
    ]
    assert (tmp_path / "mean" / "config.json").exists()


# === presets ===


def test_presets_lists_every_preset_beside_the_paper(run_cli):
    code, out, _ = run_cli("presets")
    assert code == 0
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert set(PRESETS) <= set(rows)
    assert rows["base"][1:5] == ["63,045,632", "37,000", "50,000", "100,000"]
    assert rows["base"][5:8] == ["65M", "4.92", "25.8"]
    assert rows["big"][4:8] == ["300,000", "213M", "4.33", "26.4"]
    assert rows["tiny"][2:8] == ["2,000", "4,096", "1,000", "-", "-", "-"]


# === main ===


def test_main_reads_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["keras-transformer", "presets"])
    assert cli.main() == 0
    assert "C-d_ff-4096" in capsys.readouterr().out


def test_a_command_is_required(run_cli):
    result = run_cli()
    assert result.code == 2
    assert "arguments are required: COMMAND" in result.err
