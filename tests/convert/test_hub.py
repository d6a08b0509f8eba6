"""Models by name, from a server that answers as the Hub does."""

import io
import os
import shutil
import subprocess
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
SEVERAL = "several/files"


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
    names, resolve = set(), settings_file.resolve_in_folder

    def resolve_and_note(folder, name):
        names.add(name)
        return resolve(folder, name)

    monkeypatch.setattr(settings_file, "resolve_in_folder", resolve_and_note)
    convert.read(folder)
    # Of the others only the names are read.
    others = {f"{name}.index.json" for name in from_hugging_face.WEIGHTS}
    weights = from_hugging_face.WEIGHTS[:1]
    assert names | others == {*from_hugging_face.SETTINGS, *weights}


def test_weights_of_pytorch_where_there_are_no_others(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "old")
    (folder / "model.safetensors").unlink()
    server.models["helsinki/old@main"] = folder
    downloaded = hub.download("helsinki/old")
    assert server.files() == sorted([*SETTINGS, "pytorch_model.bin"])
    assert (downloaded / "pytorch_model.bin").read_text() == "not to be read"
    # Nothing is said of the file that it lacks.
    code = "\n".join(
        [
            "import sys",
            "from huggingface_hub.utils import logging",
            "from keras_transformer.convert import hub",
            "logging.set_verbosity_warning()",
            "hub.download('helsinki/old')",
            "print(logging.get_verbosity() == logging.WARNING)",
        ]
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ
        | dict(HF_ENDPOINT=server.address, HF_HUB_CACHE=str(tmp_path / "new")),
        capture_output=True,
        text=True,
    )
    assert (run.stdout, run.stderr) == ("True\n", "")


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
    message = refused(NAME, revision="v2")
    assert "Received: a model without this revision" in message
    message = refused(model, revision="v1")
    assert message == f"A revision needs a model by name. Received: {model}"


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
        ("on/", False),
        ("./on/gone", False),
        ("../gone", False),
        ("/on/gone", False),
        ("on/gone/deeper", False),
        ("~/gone", False),
        ("größe/gone", False),
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
        message = refused(model)
        assert "a folder that exists, or the name of one on the Hu" in message
        assert message.endswith(f"Received: {model}")
    assert server.requests == []


def test_a_name_has_the_format_of_the_hub(server, model):
    for format in ("marian", "opennmt-tf", "t5"):
        message = refused(NAME, format)
        assert message.startswith("A model by name must have the format hugg")
        assert f"Received: {NAME}, which is no folder here, and the" in message
        assert message.endswith(f"the format {format}")
    assert server.requests == []
    check_equal(convert.read(NAME, "huggingface"), model)


# === What cannot be downloaded ===


def test_a_mistyped_folder(server):
    message = refused("runs/opus")
    assert message.startswith("runs/opus, which is no folder here, cannot be ")
    assert "Received: no such model, or a private one." in message
    assert "hf auth login" in message
    # With the prefix it is no folder in any case.
    assert refused("hf:runs/opus").startswith("hf:runs/opus cannot be ")


def test_a_gated_model(server):
    server.gated.add(NAME)
    message = refused(NAME)
    assert "Received: a gated model. Ask for access on its page" in message


def test_a_model_that_is_not_a_marian_model(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "bert")
    marian_folder.change(folder, "config.json", model_type="bert")
    server.models["google/bert@main"] = folder
    message = refused("google/bert")
    assert message.startswith("google/bert, which is no folder here, cannot")
    assert "'marian', as its translation models have. Received: " in message
    assert "model.safetensors" not in server.files()
    (folder / "config.json").unlink()
    server.models["google/none@main"] = folder
    assert "must have the file config.json" in refused("google/none")


def test_weights_in_several_files(server, model, tmp_path):
    folder = shutil.copytree(model, tmp_path / "several")
    for name in from_hugging_face.WEIGHTS:
        (folder / name).unlink()
    (folder / "model.safetensors.index.json").touch()
    server.models[f"{SEVERAL}@main"] = folder
    assert "Received: weights in several files. Save" in refused(SEVERAL)


def test_no_network(server, model, monkeypatch):
    convert.read(NAME)
    # Nothing listens on port 1.
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:1")
    check_equal(convert.read(NAME), model)
    message = refused("helsinki/other")
    assert "no answer, and not all of its files in the cache: [E" in message
    assert "refused" in message


def test_a_server_that_fails(server):
    server.models["broken/model@main"] = Path("gone")
    message = refused("broken/model")
    assert "not all of its files in the cache: Server error '500" in message


def test_offline(server, model, tmp_path):
    convert.read(NAME)
    requests = list(server.requests)
    code = (
        "import sys, keras_transformer as kt\n"
        "print(kt.convert.read(sys.argv[1]).search.extra_length)"
    )
    settings = dict(HF_HUB_OFFLINE="1", HF_HUB_CACHE=str(tmp_path / "cache"))

    def run(name):
        return subprocess.run(
            [sys.executable, "-c", code, name],
            env=os.environ | settings | {"HF_ENDPOINT": server.address},
            capture_output=True,
            text=True,
        )

    assert (run(NAME).stdout, run(NAME).stderr) == ("19\n", "")
    message = run("helsinki/other").stderr
    assert "not all of its files in the cache: " in message
    assert "HF_HUB_OFFLINE" in message
    assert server.requests == requests


def test_a_name_that_the_hub_cannot_have(server):
    assert "HFValidationError: " in refused("hf:a/b/c")


def test_without_the_package(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    message = refused("runs/opus")
    assert message.startswith("runs/opus, which is no folder here, cannot be ")
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
    assert "Fetching 6" not in printed  # small files


def test_quiet(server, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "1")  # as --quiet does
    monkeypatch.setattr(sys, "stderr", Terminal())
    hub.download(NAME)
    assert sys.stderr.getvalue() == ""
