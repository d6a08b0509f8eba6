import errno
import gzip
import json

import pytest
from commands import check_error, write_run

from keras_transformer.cli import flags
from keras_transformer.decoding.settings import BeamSearch

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
    "length_penalty": "wu",
    "alpha": 0.6,
    "seconds": 0.1,
}


def test_evaluate_measures_and_records(run_cli, trained):
    code, out, err = run_cli("evaluate", trained.run, "--data", trained.data)
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
    assert err.startswith(f"decoding test of {trained.data}\n")
    assert err.endswith(f"recorded in {trained.run / 'results.json'}\n")
    lines = (trained.run / "translations-test.txt").read_text().splitlines()
    assert len(lines) == 3
    assert lines[1] == ""


@pytest.fixture
def call(monkeypatch):
    """Replaces the measurement; holds the arguments of the last call."""
    call = {}

    def evaluate(translator, corpus, split, target, metrics, **_):
        call.update(translator=translator, corpus=corpus, metrics=metrics)
        call.update(split=split, target=target)
        return dict(RESULTS), ["a", "b", "c"]

    monkeypatch.setattr("keras_transformer.train.evaluation.evaluate", evaluate)
    return call


def test_evaluate_as_json(run_cli, trained, call):
    flags = ("evaluate", trained.run, "--data", trained.data)
    code, out, err = run_cli(*flags, "--json")
    assert code == 0
    assert json.loads(out) == RESULTS
    assert err.startswith(f"decoding test of {trained.data}\n")
    assert f"recorded in {trained.run / 'results.json'}\n" in err
    _, plain, _ = run_cli(*flags)
    assert plain.count("\n") > 3 and "BLEU" in plain


def test_evaluate_passes_its_flags_on(run_cli, trained, call):
    code, *_ = run_cli(
        *("evaluate", trained.run, "--data", trained.data, "--split", "valid"),
        *("--checkpoint", 1, "--beam-size", 2, "--alpha", 1),
        *("--extra-length", 7, "--metric", "bleu", "ter"),
        *("--dtype", "bfloat16", "--workers", 3),
    )
    assert code == 0
    assert call["metrics"] == ["bleu", "ter"]
    translator = call["translator"]
    assert translator.model.dtype_policy.name == "bfloat16"
    assert translator.search == BeamSearch(2, alpha=1.0, extra_length=7)
    assert (call["split"], call["target"]) == ("valid", "de")
    assert translator.workers == 3
    *_, results = json.loads((trained.run / "results.json").read_text())
    assert results["checkpoint"] == "step-00000001.weights.h5"
    assert results["step"] == 1


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["news.en", "news.de"], "news"),
        (["news.tsv"], "news"),
        (["news.2013.en.gz", "news.2013.de.gz"], "news.2013"),
    ],
)
def test_the_only_split_has_its_own_name(
    run_cli, trained, call, tmp_path, files, name
):
    for file in files:
        content = b"a\tb\n"
        is_compressed = file.endswith(".gz")
        content = gzip.compress(content) if is_compressed else content
        (tmp_path / file).write_bytes(content)
    data = [tmp_path / file for file in files]
    code, _, err = run_cli("evaluate", trained.run, "--data", *data)
    assert code == 0 and f"decoding {name} of " in err
    assert call["split"] == call["corpus"].splits[0] == "train"
    *_, results = json.loads((trained.run / "results.json").read_text())
    assert results["split"] == name
    assert (trained.run / f"translations-{name}.txt").exists()
    arguments = "--data", *data, "--split", "valid"
    check_error(run_cli("evaluate", trained.run, *arguments), "splits train")


def test_evaluate_prints_results_that_it_cannot_record(
    run_cli, trained, call, monkeypatch
):
    def fail(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("keras_transformer.train.evaluation.write_json", fail)
    result = run_cli("evaluate", trained.run, "--data", trained.data)
    assert result.code == 2 and "Permission denied" in result.err
    assert "12.34  signature" in result.out


def test_an_ensemble_and_an_export_are_not_recorded(run_cli, call, trained):
    before = sorted(trained.run.iterdir())
    code, _, err = run_cli("evaluate", trained.run, trained.run)
    assert code == 0 and len(call["translator"].models) == 2
    assert err.endswith(
        "not recorded: the results of an ensemble or an export\n"
    )
    assert sorted(trained.run.iterdir()) == before


def test_evaluate_on_what_the_run_was_trained_on(
    run_cli, opened, call, tmp_path, trained
):
    pair = [str(trained.data / f"train.{code}") for code in ("en", "de")]
    run = write_run(tmp_path / "run", data=pair)
    assert run_cli("evaluate", run, "--split", "train").code == 0
    assert call["corpus"].name == " ".join(pair)
    assert (call["corpus"].source, call["corpus"].target) == ("en", "de")
    (tmp_path / "a.tsv").write_text("1\ta\tb\n")
    data = dict(data=[str(tmp_path / "a.tsv")], columns=[3, 2])
    run = write_run(tmp_path / "table", **data)
    assert run_cli("evaluate", run, "--split", "train").code == 0
    assert list(call["corpus"].pairs("train")) == [("b", "a")]
    (run / "train.yaml").unlink()
    check_error(run_cli("evaluate", run), "--data is required", str(run))
    run = write_run(tmp_path / "moved", data=["gone.en", "gone.de"])
    check_error(run_cli("evaluate", run), f"{run} (pass --data", "gone.en")


def test_evaluate_on_several_corpora(run_cli, opened, call, tmp_path, trained):
    data = [str(trained.data)]
    corpora = [
        {"data": data, "tag": tag, "source": "en", "target": "de"}
        for tag in (">>deu<<", ">>de_AT<<")
    ]
    request = dict(data=None, corpora=corpora, languages=("en", None))
    run = write_run(tmp_path / "run", **request)
    assert run_cli("evaluate", run).code == 0
    assert [part.tag for part in call.pop("corpus").parts] == [
        *(">>deu<<", ">>de_AT<<")
    ]
    flags = ("--data", *data, "--target", "de")
    assert run_cli("evaluate", run, *flags).code == 0
    assert call["corpus"].name == data[0]


def test_a_language_that_was_translated_to_is_recorded(
    run_cli, opened, call, folder, monkeypatch
):
    recorded = []
    monkeypatch.setattr(
        "keras_transformer.train.evaluation.record",
        lambda *given: recorded.append(given[3]),
    )
    monkeypatch.setattr(
        "keras_transformer.cli.translating.step_of", lambda checkpoint: 7
    )
    open_fake = flags.open_translator

    def open_run(paths, **options):
        fake = open_fake(paths, **options)
        fake.checkpoints = [(folder, "step-7")]
        return fake

    monkeypatch.setattr(flags, "open_translator", open_run)
    assert run_cli("evaluate", folder).code == 0
    assert run_cli("evaluate", folder, "--target-language", "fra").code == 0
    languages = [results.get("target_language") for results in recorded]
    assert languages == [None, "fra"]
