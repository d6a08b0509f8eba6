"""How runs are started and resumed. Nothing is trained."""

import json
import os
import shutil

import digits
import pytest
from corpora import read, write_sides
from ids import rows

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import locked
from keras_transformer.text import Tokenizer
from keras_transformer.train import fitting, strategy, trainer
from keras_transformer.train.data.corpus import open_corpora, open_corpus
from keras_transformer.train.devices import Worker
from keras_transformer.train.preparation import prepare
from keras_transformer.train.trainer import train


def times(run):
    files = (path for path in run.path.rglob("*.*") if path.is_file())
    return {path: path.stat().st_mtime_ns for path in files}


# === A new run ===


def test_a_new_run(corpus, open_run, tmp_path, capsys):
    run, data, recipe = open_run(corpus, tmp_path / "run", steps=2)
    assert f"preparing: {corpus.name}\n" in capsys.readouterr().out
    assert sorted(os.listdir(run.path)) == [
        *("checkpoints", "config.json", "data"),
        *("lock", "tokenizer.json", "tokenizer.model", "train.yaml"),
    ]
    tokens = data.statistics
    assert run.statistics == {
        **dict(corpus=corpus.name, max_length=24, pairs=360, workers=1),
        "source_tokens": tokens.source_tokens,
        "target_tokens": tokens.target_tokens,
        "example": next(iter(corpus.pairs("valid")))[0],
    }
    assert run.languages == ("en", "de")
    assert recipe == digits.recipe(steps=2)
    assert (run.config.d_model, run.config.vocab_size) == (16, 300)
    assert data.splits == ("train", "valid")
    assert read(data, "valid") == read(corpus, "valid")
    assert data.path == run.path / "data"


def test_a_prepared_corpus_stays_where_it_is(
    corpus, prepared, one_step_run, open_run, tmp_path
):
    run, data, _ = open_run(prepared, tmp_path / "run")
    assert not (run.path / "data").exists()
    assert data.path == prepared.path
    # As a run on the texts has them.
    texts = open_corpus(str(one_step_run.path / "data"))
    assert rows(data.shards) == rows(texts.shards)
    assert run.tokenizer.digest == one_step_run.tokenizer.digest
    names = ("pairs", "source_tokens", "target_tokens", "example")
    assert [run.statistics[name] for name in names] == [
        one_step_run.statistics[name] for name in names
    ]


def test_a_training_needs_a_folder_and_data(corpus, run, tmp_path):
    with pytest.raises(InputError, match="output"):
        train(corpus, None, "tiny")
    for output, is_dry in ((tmp_path / "new", False), (run.path, True)):
        with pytest.raises(InputError, match="A dry run always needs data"):
            train(None, output, "tiny", dry_run=is_dry)
    assert not (tmp_path / "new").exists()


def test_a_failure_leaves_no_run(corpus, open_run, tmp_path):
    for message, values in (
        ("longer than 2", dict(max_length=2)),
        ("vocab_size must be at least", dict(vocab_size=260)),
        ("= 48, since .* Received: 47", dict(batch_tokens=47)),
    ):
        with pytest.raises(InputError, match=message):
            open_run(corpus, tmp_path / "run", **values)
        assert not os.listdir(tmp_path)


def test_languages_of_validation_are_checked_first(open_run, tmp_path):
    """Not only where a tokenizer is given: one is trained, and prepared."""
    entries = []
    for name, tag in (("a", ">>de<<"), ("b", None)):
        folder = tmp_path / name
        folder.mkdir()
        digits.write(folder)
        entries.append({"data": str(folder), "tag": tag})
    file = folder / "valid.en"
    file.write_text(f">>nl<< {file.read_text()}")
    texts = open_corpora(entries, "en", "de")
    written = prepare(texts, tmp_path / "p", digits.recipe(vocab_size=310))
    for corpus in (texts, open_corpus(str(written.path))):
        with pytest.raises(InputError, match="Received: >>nl<< in text"):
            open_run(corpus, tmp_path / "run", vocab_size=310)
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_without_the_tags_of_a_corpus(
    corpus, run, open_run, tmp_path
):
    tagged = open_corpora([{"data": corpus.name, "tag": "<bt>"}], "en", "de")
    with pytest.raises(InputError, match="Received: <bt>"):
        open_run(tagged, tmp_path / "new", init_from=run.path)


def test_init_from_brings_its_tokenizer_and_search(
    corpus, run, open_run, tmp_path
):
    path = run.path / "config.json"
    values = json.loads(path.read_text())
    values["search"] = {"beam_size": 6, "length_penalty": "power"}
    path.write_text(json.dumps(values))
    new, data, _ = open_run(corpus, tmp_path / "new", init_from=run.path)
    assert new.config == run.config
    for tokenizer in (new.tokenizer, data.tokenizer):
        assert tokenizer.digest == run.tokenizer.digest
    assert new.search == BeamSearch(6, length_penalty="power")
    # The run has what it needs of it.
    shutil.rmtree(run.path)
    assert open_run(corpus, new.path, init_from=run.path)[0] == new


# === A run that exists ===


def test_the_same_arguments_resume(corpus, run, open_run):
    before = times(run)
    for data in (corpus, None):
        resumed, data, recipe = open_run(data, run.path, steps=1)
        assert resumed == run
        assert recipe == digits.recipe(steps=1)
        assert data.path == run.path / "data"
    assert times(run) == before


def test_a_run_is_resumed_without_arguments(run, monkeypatch):
    fitted = []
    monkeypatch.setattr(fitting, "fit", lambda *x: fitted.append(x))
    monkeypatch.setattr(trainer, "read_step", lambda run: 0)
    before = times(run)
    assert train(None, run.path) == run
    assert fitted[0][2] == digits.recipe(steps=1)
    assert times(run) == before


def test_values_that_may_change_are_recorded(corpus, run, open_run):
    free = dict(steps=9, max_to_keep=2, patience=3, tensorboard=True)
    request = {**run.request, **free}
    for values in (free, dict(steps=9)):  # those that were given stay
        _, _, recipe = open_run(corpus, run.path, **values)
        assert recipe == digits.recipe(**free)
        assert Run.open(run.path).request == request


def test_a_difference_changes_nothing(corpus, run, open_run):
    before = times(run)
    with pytest.raises(InputError, match="seed=2 instead of 1$"):
        open_run(corpus, run.path, seed=2, steps=9)
    assert times(run) == before


def test_a_run_and_its_texts_may_be_moved(corpus, run, open_run, tmp_path):
    """A run has its data; nothing of the texts is read again."""
    texts = tmp_path / "new" / "digits"
    texts.mkdir(parents=True)
    write_sides(texts, pairs=[("a", "b")])
    moved = run.path.rename(tmp_path / "new" / "run")
    data = open_run(open_corpus([str(texts)], "en", "de"), moved)[1]
    assert data.path == moved / "data"
    assert data.shards[0].pairs == 360
    assert read(data, "valid") == read(corpus, "valid")


def test_a_prepared_corpus_may_be_moved(
    prepared, open_run, tmp_path, monkeypatch
):
    first = shutil.copytree(prepared.name, tmp_path / "first" / "prepared")
    with monkeypatch.context() as patched:
        patched.chdir(first.parent)
        run, *_ = open_run(open_corpus(first.name), tmp_path / "run")
    assert open_run(None, run.path)[1].path == first
    (tmp_path / "second").mkdir()
    given = open_corpus(str(first.rename(tmp_path / "second" / "prepared")))
    assert open_run(given, run.path)[1] == given


def test_data_with_a_different_tokenizer(corpus, prepared, open_run, tmp_path):
    folder = shutil.copytree(prepared.name, tmp_path / "prepared")
    run, *_ = open_run(open_corpus(str(folder)), tmp_path / "run")
    shutil.rmtree(folder)
    other = tmp_path / "other"
    other.mkdir()
    Tokenizer.train(corpus.texts("valid"), 300).save_files(other)
    prepare(corpus, folder, digits.recipe(), [other])
    for data in (None, open_corpus(str(folder))):
        with pytest.raises(InputError, match=str(run.path)):
            open_run(data, run.path)


def test_the_number_of_workers_may_not_change(run, open_run, monkeypatch):
    two = Worker(0, 2)
    monkeypatch.setattr(strategy, "this_worker", lambda _: two)
    with pytest.raises(InputError, match="workers=2 instead of 1"):
        open_run(None, run.path)


def test_two_processes_in_a_folder(corpus, run, open_run):
    with locked(run.path), pytest.raises(InputError, match=str(run.path)):
        open_run(corpus, run.path)
    open_run(corpus, run.path)
