"""Models by name, from a server that answers as the Hub does."""

import io
import shutil
import sys
from pathlib import Path

import marian_folder
import numpy as np
import pytest
from hub_server import serving_hub
from huggingface_hub import constants

import keras_transformer as kt
from keras_transformer import convert
from keras_transformer.convert import from_hugging_face, hub, settings_file

NAME = "helsinki/opus-en-de"
SETTINGS = [
    *("config.json", "generation_config.json", "source.spm", "target.spm"),
    *("tokenizer_config.json", "vocab.json"),
]
FILES = sorted([*SETTINGS, "model.safetensors"])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model as it is on the Hub. Tests must not change it."""
    folder = tmp_path_factory.mktemp("models") / "marian"
    marian_folder.write_folder(folder)
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md"):
        (folder / name).write_text("not to be read", "utf-8")
    return folder


@pytest.fixture
def server(model, monkeypatch, tmp_path):
    """A Hub with the model; the working folder is an empty one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with serving_hub(monkeypatch, tmp_path / "cache") as server:
        server.models[f"{NAME}@main"] = model
        yield server


def refused(*arguments, **options):
    """Returns the message about a model that cannot be read."""
    with pytest.raises(kt.InputError) as error:
        convert.read(*arguments, **options)
    return str(error.value)


def check_equal(foreign, folder):
    """Checks that a model is what an import of a folder is."""
    expected = convert.read(folder)
    assert foreign.config == expected.config
    assert foreign.search == expected.search
    assert foreign.languages == expected.languages
    assert foreign.vocabulary.files() == expected.vocabulary.files()
    assert list(foreign.tensors) == list(expected.tensors)
    for name, value in expected.tensors.items():
        np.testing.assert_array_equal(foreign.tensors[name], value)


def test_a_model_by_name_is_that_of_its_folder(server, model):
    translator, expected = convert.load(NAME), convert.load(model)
    weights = translator.model.get_weights()
    for ours, theirs in zip(weights, expected.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert server.files() == FILES
    # The second time it asks which commit it is, and for no file.
    server.requests.clear()
    check_equal(convert.read(f"hf:{NAME}"), model)
    assert not [x for x in server.requests if not x.startswith("GET /api/")]


def test_what_is_read_is_what_is_downloaded(model, monkeypatch, tmp_path):
    folder = shutil.copytree(model, tmp_path / "model")
    shutil.copy(folder / "vocab.json", folder / "target_vocab.json")
    for name in ("special_tokens_map.json", "added_tokens.json"):
        marian_folder.write(folder, name, {})
    marian_folder.change(folder, "tokenizer_config.json", separate_vocabs=True)
    names, find_file = set(), settings_file.find_file

    def find_and_note(folder, name):
        names.add(name)
        return find_file(folder, name)

    monkeypatch.setattr(settings_file, "find_file", find_and_note)
    convert.read(folder)
    assert names == {*from_hugging_face.SETTINGS}


def test_weights_of_pytorch_where_there_are_no_others(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "old")
    (folder / "model.safetensors").unlink()
    server.models["helsinki/old@main"] = folder
    downloaded = hub.download("helsinki/old")
    assert server.files() == sorted([*SETTINGS, "pytorch_model.bin"])
    assert (downloaded / "pytorch_model.bin").read_text() == "not to be read"


def test_a_revision(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "v1")
    marian_folder.change(folder, "generation_config.json", max_length=9)
    server.models[f"{NAME}@v1"] = folder
    commit = server.commit(f"{NAME}@v1")
    for revision in ("v1", commit):
        foreign = convert.read(NAME, revision=revision)
        check_equal(foreign, folder)
        assert foreign.file.parent.name == commit
    assert convert.read(NAME).search.extra_length == 19
    assert "v2" in refused(NAME, revision="v2")
    assert f"{model}" in refused(model, revision="v1")


# === Names and folders ===


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
        ("./gone", False),
        ("./on/gone", False),
        ("/gone", False),
        ("gone/", False),
        ("/on/gone", False),
        ("on/gone/deeper", False),
    ],
)
def test_names_and_folders(monkeypatch, tmp_path, name, expected):
    (tmp_path / "on" / "disk").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert hub.is_name(name) is expected


def test_a_folder_that_has_the_name_of_a_model(server, model):
    shutil.copytree(model, NAME)
    marian_folder.change(Path(NAME), "generation_config.json", max_length=9)
    assert convert.read(NAME).search.extra_length == 8
    assert server.requests == []
    assert convert.read(f"hf:{NAME}").search.extra_length == 19


def test_what_is_neither_a_folder_nor_a_name(server):
    for model in ("gone", "a/b/c", Path(NAME)):
        assert refused(model).endswith(f"Received: {model}")
    assert server.requests == []


# === What cannot be downloaded ===


@pytest.mark.parametrize("name", ["runs/opus", "hf:runs/opus", "hf:a/b/c"])
def test_what_the_hub_does_not_have(server, name):
    assert refused(name).startswith(f"{name} cannot be used.")


def test_a_gated_model(server):
    server.gated.add(NAME)
    assert "gated" in refused(NAME)


def test_a_model_that_is_not_a_marian_model(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "bert")
    marian_folder.change(folder, "config.json", model_type="bert")
    server.models["google/bert@main"] = folder
    assert "'marian'" in refused("google/bert")
    assert "model.safetensors" not in server.files()


def test_no_network(server, model, monkeypatch):
    convert.read(NAME)
    # Nothing listens on port 1.
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    check_equal(convert.read(NAME), model)
    assert "connection" in refused("helsinki/other")


def test_without_the_package(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    message = refused("runs/opus")
    assert 'pip install "keras-transformer-nmt[convert]"' in message


# === Progress ===


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_progress(server, monkeypatch, stream):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr(sys, "stderr", stream())
    hub.download(NAME)
    printed = sys.stderr.getvalue()
    assert ("Fetching 1 files: 100%" in printed) == (stream is Terminal)
    assert bool(printed) == (stream is Terminal)
