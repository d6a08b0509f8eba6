"""Models of the Hub by name, downloaded, and imported once into a cache."""

import shutil
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import marian_folder
import numpy as np
import pytest
from fake_hub import FakeHub
from huggingface_hub import constants

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.convert import (
    ForeignModel,
    from_hugging_face,
    hub,
    settings_file,
)
from keras_transformer.inference.opening import read_run
from keras_transformer.runs.run_folder import find_folder

NAME = "helsinki/opus-en-de"
SETTINGS = [
    *("config.json", "generation_config.json", "source.spm", "target.spm"),
    *("tokenizer_config.json", "vocab.json"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model as on the Hub. Tests must not change it."""
    folder = tmp_path_factory.mktemp("models") / "marian"
    marian_folder.write_folder(folder)
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md"):
        (folder / name).write_text("not to be read", "utf-8")
    return folder


@pytest.fixture
def server(model, monkeypatch, tmp_path):
    """A Hub with the model; cache and working directory are empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = FakeHub(monkeypatch, tmp_path / "downloads")
    server.models[f"{NAME}@main"] = model
    return server


def error_of(*arguments, **options):
    """Returns the message about a model that cannot be read."""
    with pytest.raises(kt.InputError) as error:
        convert.read(*arguments, **options)
    return str(error.value)


def changed(model, folder):
    """Copies the model to a folder, with a different search."""
    shutil.copytree(model, folder)
    marian_folder.change(folder, "generation_config.json", max_length=9)
    return folder


def test_only_files_that_are_read_are_downloaded(server, model):
    found, expected = convert.read(NAME), convert.read(model)
    assert sorted(server.files) == sorted([*SETTINGS, "model.safetensors"])
    assert found.config == expected.config
    assert found.search == expected.search
    assert found.tokenizer.files() == expected.tokenizer.files()


def test_all_files_that_are_read_are_downloaded(model, monkeypatch, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    shutil.copy(folder / "vocab.json", folder / "target_vocab.json")
    for name in ("special_tokens_map.json", "added_tokens.json"):
        marian_folder.write(folder, name, {})
    marian_folder.change(folder, "tokenizer_config.json", separate_vocabs=True)
    names, find_file = set(), settings_file.find_file

    def find_and_note(folder, *paths):
        names.update(paths)
        return find_file(folder, *paths)

    monkeypatch.setattr(settings_file, "find_file", find_and_note)
    convert.read(folder)
    found = from_hugging_face
    assert names == {*found.SETTINGS, *found.WEIGHTS}


def test_weights_of_pytorch_are_the_second_choice(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "old")
    (folder / "model.safetensors").unlink()
    server.models["helsinki/old@main"] = folder
    hub.download("helsinki/old")
    assert sorted(server.files) == sorted([*SETTINGS, "pytorch_model.bin"])


def test_a_revision(server, model, tmp_path):
    server.models[f"{NAME}@v1"] = changed(model, tmp_path / "v1")
    commit = server.commit(f"{NAME}@v1")
    for revision in ("v1", commit):
        foreign = convert.read(NAME, revision=revision)
        assert foreign.search.extra_length == 8
        assert foreign.file.parent.name == commit
    assert convert.read(NAME).search.extra_length == 19
    assert "v2" in error_of(NAME, revision="v2")
    assert f"{model}" in error_of(model, revision="v1")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Helsinki-NLP/opus-mt-tc-big-en-de_2.1", True),
        ("hf:gpt2", True),
        ("hf:on/disk", True),
        ("on/disk", False),
        ("on/gone", True),
        (Path("on/gone"), False),
        ("gone", False),
        ("./on/gone", False),
        ("/on/gone", False),
        ("on/gone/deeper", False),
    ],
)
def test_names_and_folders(monkeypatch, tmp_path, name, expected):
    (tmp_path / "on" / "disk").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert hub.is_name(name) is expected


def test_a_folder_with_the_name_of_a_model(server, model):
    changed(model, Path(NAME))
    assert convert.read(NAME).search.extra_length == 8
    assert find_folder(NAME) == Path(NAME)
    assert not server.files
    assert convert.read(f"hf:{NAME}").search.extra_length == 19


def test_models_that_do_not_exist(server):
    for model in ("gone", "a/b/c", Path(NAME)):
        assert error_of(model).endswith(f"Received: {model}, not a folder")
    for model in ("runs/opus", "hf:runs/opus"):
        assert error_of(model).startswith(f"{model} must be a folder")
    assert not server.files


def test_weights_of_other_models_are_not_downloaded(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "bert")
    marian_folder.change(folder, "config.json", model_type="bert")
    server.models["google/bert@main"] = folder
    assert "'bert'" in error_of("google/bert")
    assert "model.safetensors" not in server.files


def test_without_the_package(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert ".[convert]" in error_of("runs/opus")


# === The cache ===


def test_a_model_is_imported_once(server, model, tmp_path, capsys):
    translator = kt.open_translator(NAME, target_language="fra")
    cache = tmp_path / "cache" / "keras-transformer" / kt.__version__
    assert capsys.readouterr().out == f"importing {NAME} into {cache / NAME}\n"
    assert translator.languages == ("en", "fra")
    server.models.clear()
    assert find_folder(f"hf:{NAME}") == cache / NAME
    run, expected = read_run(NAME), convert.read(model)
    assert run.search == expected.search
    assert run.tokenizer.files() == expected.tokenizer.files()
    weights = run.load_model().get_weights()
    expected = expected.load_model().get_weights()
    for ours, theirs in zip(weights, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert capsys.readouterr().out == ""


def test_simultaneous_imports(server, monkeypatch):
    saved, both_have_read = [], threading.Barrier(2, timeout=60)
    read, lock = convert.read, threading.Lock()

    def read_together(name):
        with lock:  # the Hub's library may fail if both download
            model = read(name)
        both_have_read.wait()
        return model

    def save_run(self, path):
        saved.append(path)
        threading.Event().wait(0.2)
        path.mkdir(parents=True)

    monkeypatch.setattr(convert, "read", read_together)
    monkeypatch.setattr(ForeignModel, "save_run", save_run)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(find_folder, [NAME, NAME])
    assert saved == [first] and first == second


def test_nothing_is_cached_for_a_name_that_does_not_exist(server, tmp_path):
    with pytest.raises(kt.InputError, match="runs/typo"):
        kt.open_translator("runs/typo")
    assert not (tmp_path / "cache").exists()


def test_a_hub_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setattr(hub, "_SECONDS", 0.2)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with (
        ThreadPoolExecutor(1) as thread,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        waiting = thread.submit(error_of, NAME)
        assert "within 0.2 seconds" in waiting.result(timeout=20)


def test_a_full_disk_is_not_a_wrong_name(server, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(OSError, match="No space left"):
        convert.read(NAME)
