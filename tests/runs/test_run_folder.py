import contextlib
import dataclasses
import errno
import json
import resource
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import yaml
from run_fixtures import model, run, tokenizer  # noqa: F401

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import _HDF5_OVERHEAD, step_of
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask
from keras_transformer.train.state import save_state


def assert_equal_weights(ours, theirs):
    for one, other in zip(ours.weights, theirs.weights, strict=True):
        np.testing.assert_array_equal(one, other)


# === The description and the tokenizer ===


def test_open_reads_what_create_wrote(run, tmp_path):
    opened = Run.open(run.path)
    assert opened.config == run.config
    assert opened.request == {"seed": 3, "max_to_keep": 3}
    assert opened.tokenizer.digest == run.tokenizer.digest
    assert opened.languages == (None, None)
    assert (opened.search, opened.task.name) == (BeamSearch(), "translation")
    values = dict(
        task=ParsingTask(),
        search=BeamSearch(
            6, alpha=1.0, extra_length=512, length_penalty="power"
        ),
        languages=("en", "ä"),
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
    given = {**request, "max_length": np.int64(9), "clip_norm": None}
    run.save_request(given)
    flags = yaml.safe_load((run.path / "train.yaml").read_text("utf-8"))
    assert list(flags) == ["data", "max-length", "corpora"]
    assert Run.open(run.path).request == run.request == request
    for damaged in ("[" * 9_999, "data"):
        (run.path / "train.yaml").write_text(damaged)
        with pytest.raises(InputError, match="train.yaml"):
            print(Run.open(run.path).request)


@pytest.mark.parametrize(
    ("name", "value", "received"),
    [
        ("model", None, "config.json must be the description of a run"),
        ("model", {"d_model": 8}, "vocab_size"),
        ("task", "poetry", "config.json.*'poetry'"),
        ("model", {"depth": 3}, "depth"),
        ("search", {"patience": 2}, "'patience'"),
        ("search", {"beam_size": 0}, "beam_size must"),
        ("search", [4], "not list"),
    ],
)
def test_invalid_values(run, name, value, received):
    path = run.path / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, name: value}))
    with pytest.raises(InputError, match=received):
        Run.open(run.path)


def test_a_damaged_config(run):
    (run.path / "config.json").write_text("{")
    with pytest.raises(InputError, match="config.json"):
        Run.open(run.path)


def test_a_different_tokenizer(run):
    kt.Tokenizer.train(["ein Text"], 270).save_files(run.path)
    opened = Run.open(run.path)
    with pytest.raises(InputError, match="tokenizer.model"):
        opened.tokenizer  # noqa: B018


def test_a_run_stores_all_files_of_a_vocabulary(run, tmp_path):
    source = kt.Tokenizer.train(["a b c"], 267, tags=[">>fra<<"])
    pair = kt.Tokenizer(
        source.source, run.tokenizer.target, default_tags=[">>fra<<"]
    )
    path = tmp_path / "pair"
    Run.create(path, run.config, pair)
    tokenizer = Run.open(path).tokenizer
    assert tokenizer.digest == pair.digest
    assert tokenizer.source.model == source.target.model


# === Checkpoints ===


def test_find_checkpoint_by_name(run, model):
    with pytest.raises(InputError, match=str(run.path)):
        run.load_model()
    run.save_checkpoint(model, 7, max_to_keep=5)
    run.save_checkpoint(model, 20, max_to_keep=5)
    first, last = run.checkpoints()
    assert first.name == "step-00000007.weights.h5"
    found = [run.find_checkpoint(name) for name in ("7", 20, "last", None)]
    assert found == [first, last, last, last]
    for name in ("best", 0, ""):
        with pytest.raises(InputError, match=f"7, 20, last,.*: {name}$"):
            run.find_checkpoint(name)
    run.save_best(model, 7, 1.0)
    assert run.find_checkpoint("best") == run.best_path
    assert step_of(run.best_path) == 7


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_load_model_loads_and_converts_the_weights(run, model, dtype):
    run.save_checkpoint(model, 12, max_to_keep=5)
    loaded = run.load_model(dtype=dtype)
    assert loaded.dtype_policy.name == (dtype or "float32")
    # Half a unit in the last place of 8 bits.
    tolerance = 2.0**-8 if dtype else 0
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        theirs = np.array(theirs.numpy(), "float32")
        np.testing.assert_allclose(theirs, ours, tolerance, 1e-7)


def test_the_newest_checkpoints_are_kept(run, model):
    for step in (9, 10, 100, 1_000):
        run.save_checkpoint(model, step, max_to_keep=2)
    assert [step_of(path) for path in run.checkpoints()] == [100, 1_000]
    # Training resumed from an earlier state.
    run.save_checkpoint(model, 500, max_to_keep=1)
    assert [step_of(path) for path in run.checkpoints()] == [500]


def test_the_best_checkpoint_is_replaced_by_one_that_is_as_good(run, model):
    for step, score in ((1, 2.0), (2, 3.0), (3, 2.5), (4, 3.0), (5, 0.0)):
        run.save_best(model, step, score)
    assert step_of(run.best_path) == 4


def test_a_checkpoint_that_fails_leaves_the_old_ones(run, model, monkeypatch):
    old = run.save_checkpoint(model, 1, max_to_keep=1)

    def fail(model, path, **_):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(keras.saving, "save_weights", fail)
    with pytest.raises(OSError, match="No space"):
        run.save_checkpoint(model, 2, max_to_keep=1)
    assert list(old.parent.iterdir()) == [old]


def compiled_model(config):
    """A model whose optimizer has moments."""
    model = kt.Transformer(config)
    model.compile(kt.optimizers.adam(16), kt.LabelSmoothedCrossEntropy())
    model.optimizer.build(model.trainable_variables)
    return model


def test_checkpoints_do_not_contain_the_optimizer(run, model):
    size = run.save_checkpoint(model, 1, max_to_keep=1).stat().st_size
    trained = compiled_model(model.config)
    path = run.save_checkpoint(trained, 2, max_to_keep=1)
    assert path.stat().st_size == size
    reserved = sum(4 * np.prod(w.shape) for w in model.weights)
    assert size < reserved + _HDF5_OVERHEAD * len(model.weights)
    assert_equal_weights(run.load_model(), trained)


def test_a_full_disk_costs_nothing_but_the_checkpoint(run, model):
    """For real: HDF5 would abort the process."""
    path = run.save_checkpoint(model, 1, max_to_keep=1)
    large = compiled_model(dataclasses.replace(run.config, d_ff=16_384))
    size = 4 * large.count_params()

    def outcomes(limit):
        for save in (
            lambda: run.save_checkpoint(large, 2, max_to_keep=5),
            lambda: save_state(run, large, 0),
        ):
            try:
                with largest_file(limit):
                    save()
                yield "saved"
            except OSError as error:
                yield error.strerror

    # The state, with the optimizer, takes three times the space.
    assert list(outcomes(size // 2)) == ["File too large"] * 2
    assert list(outcomes(2 * size)) == ["saved", "File too large"]
    assert run.checkpoints()[0] == path and len(run.checkpoints()) == 2
    assert run.load_model(path)


@contextlib.contextmanager
def largest_file(size):
    """Limits the size of files that this process writes, like a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(run, model, value):
    embedding = model.embedding.embeddings
    before = embedding.numpy()
    changed = before.copy()
    changed[5, 2] = value
    embedding.assign(changed)
    run.save_checkpoint(model, 1, max_to_keep=1)
    embedding.assign(before)
    with pytest.raises(InputError, match="NaN or infinity in .*embeddings"):
        run.load_model()


def test_a_damaged_checkpoint(run, tmp_path):
    checkpoint = tmp_path / "step-00000003.weights.h5"
    checkpoint.write_bytes(b"no HDF5")
    with pytest.raises(InputError, match=str(checkpoint)):
        run.load_model(checkpoint)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EOPNOTSUPP])
def test_a_file_that_cannot_be_read_is_not_damaged(
    run, model, monkeypatch, code
):
    path = run.save_checkpoint(model, 7, 3)
    run.save_best(model, 7, score=1.0)

    def deny(path):
        raise OSError(code, "Cannot lock", str(path))

    monkeypatch.setattr(h5py, "File", deny)
    with pytest.raises(OSError, match=f"lock.*{path.name}"):
        run.load_model(path)
    with pytest.raises(OSError, match="lock.*best"):
        run.save_best(model, 8, score=2.0)
    monkeypatch.setattr(Path, "read_bytes", deny)
    with pytest.raises(OSError, match="config.json"):
        Run.open(run.path)


# === Results ===


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
    assert (found["run"], found["request"]) == ("run", run.request)
    assert (found["checkpoint"], found["step"]) == (seventh.name, 7)
    expected = {"test": rows[1], "valid": rows[2]}
    expected["test of news.en news.de"] = rows[5]
    assert found["results"] == expected
    assert run.metadata(eighth)["results"] == {"test": rows[3]}
    (run.path / "results.json").write_text("[")
    with pytest.raises(InputError, match="results.json"):
        run.metadata(seventh)
    (run.path / "results.json").unlink()
    assert run.metadata(seventh)["results"] == {}
