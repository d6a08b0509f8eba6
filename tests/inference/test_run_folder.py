"""Reading of run folders, which `Run` wrote."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from run_fixtures import model, run, tokenizer  # noqa: F401

from keras_transformer import Tokenizer
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.weight_files import step_of
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask


def test_open_reads_what_create_wrote(run, tmp_path):
    opened = Run.open(run.path)
    assert opened.config == run.config
    assert opened.request == {"seed": 3, "max_to_keep": 3}
    assert opened.tokenizer.model == run.tokenizer.model
    assert opened.languages == (None, None)
    assert (opened.search, opened.task.name) == (BeamSearch(), "translation")
    values = dict(
        task=ParsingTask(),
        search=BeamSearch(6, 1.0, 512, length_penalty="power"),
        languages=("en", "de"),
        statistics={"pairs": 3, "corpus": "a"},
    )
    path = tmp_path / "imported"
    Run.create(path, run.config, run.tokenizer, **values)
    opened = Run.open(path)
    assert opened.task.name == "parsing"
    for name in ("search", "languages", "statistics"):
        assert getattr(opened, name) == values[name]
    assert opened.request == {}


def test_the_request_has_the_names_of_flags(run):
    request = dict(data=["ä.tsv"], max_length=9, corpora=[{"weight": 0.5}])
    run.save_request({**request, "clip_norm": None})
    flags = yaml.safe_load((run.path / "train.yaml").read_text("utf-8"))
    assert list(flags) == ["data", "max-length", "corpora"]
    assert Run.open(run.path).request == request


def test_load_model_loads_the_checkpoint(run, model):
    run.save_checkpoint(model, 12, max_to_keep=5)
    loaded = run.load_model()
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert step_of(run.find_checkpoint()) == 12


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_load_model_converts_the_weights(run, model, dtype):
    run.save_checkpoint(model, 12, max_to_keep=5)
    loaded = run.load_model(dtype=dtype)
    assert loaded.dtype_policy.name == dtype
    # Half a unit in the last place: 8 bits of bfloat16, 11 of float16.
    tolerance = 2.0 ** {"bfloat16": -8, "float16": -11}[dtype]
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        assert theirs.dtype == dtype
        theirs = np.array(theirs.numpy(), "float32")
        np.testing.assert_allclose(theirs, ours, tolerance, 1e-7)


def test_find_checkpoint_by_name(run, model):
    run.save_checkpoint(model, 7, max_to_keep=5)
    run.save_checkpoint(model, 20, max_to_keep=5)
    names = {name: run.find_checkpoint(name).name for name in ("7", 20, None)}
    assert names == {
        "7": "step-00000007.weights.h5",
        20: "step-00000020.weights.h5",
        None: "step-00000020.weights.h5",
    }
    for name in ("best", 0, ""):
        message = f"7, 20, last. Received: checkpoint={name}"
        with pytest.raises(InputError, match=message):
            run.find_checkpoint(name)
    run.save_best(model, 7, 1.0)
    assert run.find_checkpoint("best") == run.best_path
    assert step_of(run.best_path) == 7
    assert run.find_checkpoint("last") == run.checkpoints()[-1]


def test_a_different_tokenizer(run):
    other = Tokenizer.train(["ein anderer Text"], 270)
    other.save(run.path / "other.model")
    (run.path / "other.model").replace(run.path / "tokenizer.model")
    opened = Run.open(run.path)
    with pytest.raises(InputError, match="tokenizer.model"):
        opened.tokenizer  # noqa: B018


def test_a_run_stores_all_files_of_a_vocabulary(run, tmp_path):
    source = Tokenizer.train(["a b c"], 267, tags=[">>fra<<"])
    pair = Tokenizer(run.tokenizer.model, ">>fra<<", source)
    path = tmp_path / "pair"
    Run.create(path, run.config, pair)
    tokenizer = Run.open(path).tokenizer
    assert tokenizer.digest == pair.digest
    assert tokenizer.source.model == source.model


def test_a_run_without_a_checkpoint(run):
    with pytest.raises(InputError, match=str(run.path)):
        run.load_model()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "config.json"), ("[]", r"\[\]"), ("{}", "'model'")],
)
def test_an_invalid_config_is_refused(run, content, message):
    (run.path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        Run.open(run.path)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"patience": 2}, "'patience'"),
        ({"beam_size": 0}, "beam_size=0"),
        ({"length_penalty": "marian"}, "length_penalty='marian'"),
        ([4], r"search=\[4\]"),
    ],
)
def test_an_invalid_search_is_refused(run, search, message):
    path = run.path / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "search": search}))
    with pytest.raises(InputError, match=f"config.json must .*{message}"):
        Run.open(run.path)


def test_an_unknown_setting_is_refused(run):
    path = run.path / "config.json"
    values = json.loads(path.read_text())
    values["model"]["depth"] = 3
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="depth"):
        Run.open(run.path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(run, model, value):
    embedding = model.embedding.embeddings
    before = embedding.numpy()
    changed = before.copy()
    changed[5, 2] = value
    embedding.assign(changed)
    run.save_checkpoint(model, 1, max_to_keep=1)
    embedding.assign(before)
    with pytest.raises(InputError, match="NaN or infinity in .*embeddings"):
        run.load_model()


def test_a_damaged_checkpoint_is_refused(run, tmp_path):
    checkpoint = tmp_path / "step-00000003.weights.h5"
    checkpoint.write_bytes(b"no HDF5")
    with pytest.raises(InputError, match=str(checkpoint)):
        run.load_model(checkpoint)


def test_a_file_that_may_not_be_read_is_not_damaged(run, model, monkeypatch):
    run.save_checkpoint(model, 7, 3)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(h5py, "File", refuse)
    with pytest.raises(PermissionError, match="denied: .*step-0*7"):
        run.load_model(run.path / "checkpoints" / "step-00000007.weights.h5")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(PermissionError, match="denied: .*config.json"):
        Run.open(run.path)


def test_metadata_has_the_newest_results_of_a_checkpoint(run, model):
    run.save_checkpoint(model, 7, 3)
    run.save_checkpoint(model, 8, 3)
    seventh, eighth = run.checkpoints()
    rows = [
        {"checkpoint": path.name, "step": step, "split": split, "bleu": bleu}
        for path, step, split, bleu in (
            (seventh, 7, "test", 1.0),
            (seventh, 7, "test", 2.0),
            (seventh, 7, "valid", 3.0),
            (eighth, 8, "test", 4.0),
            (eighth, 6, "test", 5.0),  # replaced since
        )
    ]
    rows[1]["data"] = run.statistics["corpus"] = "corpus"
    rows.append({**rows[0], "data": "news.en news.de"})
    (run.path / "results.json").write_text(json.dumps(rows))
    found = run.metadata(seventh)
    assert found["run"] == "run"
    assert (found["checkpoint"], found["step"]) == (seventh.name, 7)
    assert found["request"] == run.request
    expected = {"test": rows[1], "valid": rows[2]}
    expected["test of news.en news.de"] = rows[5]
    assert found["results"] == expected
    assert run.metadata(eighth)["results"] == {"test": rows[3]}
    (run.path / "results.json").write_text("[")
    with pytest.raises(InputError, match="results.json"):
        run.metadata(seventh)
    (run.path / "results.json").unlink()
    assert run.metadata(seventh)["results"] == {}
