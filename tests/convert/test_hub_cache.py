"""Models by name that are imported once, from a server as the Hub is one."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import marian_folder
import numpy as np
import pytest
from hub_server import serving_hub
from huggingface_hub import constants

import keras_transformer as kt
from keras_transformer.convert import ForeignModel
from keras_transformer.inference.model_folder import find_folder

NAME = "opus/en-mul"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model with two target languages. Tests must not change it."""
    folder = tmp_path_factory.mktemp("models") / "marian"
    marian_folder.write_folder(folder)
    return folder


@pytest.fixture
def server(model, monkeypatch, tmp_path):
    """A Hub with the model; the user's cache and working folder are empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with serving_hub(monkeypatch, tmp_path / "downloads") as server:
        server.models[f"{NAME}@main"] = model
        yield server


def test_a_model_is_imported_once(server, model, monkeypatch, tmp_path, capsys):
    translator = kt.open_translator(NAME, target_language="fra")
    cache = tmp_path / "cache" / "keras-transformer" / kt.__version__
    assert capsys.readouterr().out == f"importing {NAME} into {cache / NAME}\n"
    assert translator.languages == ("en", "fra")
    # Nothing listens on port 1.
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    assert find_folder(f"hf:{NAME}") == cache / NAME
    run, expected = kt.Run.open(NAME), kt.convert.load(model)
    assert run.search == expected.search
    assert run.tokenizer.files() == expected.tokenizer.files()
    weights = run.load_model().get_weights()
    for ours, theirs in zip(weights, expected.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert capsys.readouterr().out == ""


def test_two_that_import_at_once(server, monkeypatch):
    saved, both_have_read = [], threading.Barrier(2)
    read = kt.convert.read

    def read_together(name):
        foreign = read(name)
        both_have_read.wait()
        return foreign

    def save_run(self, path):
        saved.append(path)
        threading.Event().wait(0.2)
        path.mkdir(parents=True)

    monkeypatch.setattr(kt.convert, "read", read_together)
    monkeypatch.setattr(ForeignModel, "save_run", save_run)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(find_folder, [NAME, NAME])
    assert saved == [first] and first == second


def test_what_the_hub_does_not_have(server, tmp_path):
    with pytest.raises(kt.InputError, match="^runs/typo cannot be used"):
        kt.open_translator("runs/typo")
    assert not (tmp_path / "cache").exists()


def test_what_is_on_disk_comes_first(server):
    Path(NAME).mkdir(parents=True)
    assert find_folder(NAME) == Path(NAME)
    assert find_folder(Path("opus/gone")) == Path("opus/gone")
    assert server.requests == []
