"""What `write_export` checks, writes and leaves, whatever the format."""

import json
from importlib import metadata as installed
from pathlib import Path

import numpy as np
import pytest
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.export.writing import (
    installed_from,
    power_of_length,
    write_export,
)
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask


def write(translator, path, verify=lambda folder: None, metadata=None):
    """A format of one file."""

    def write_file(folder):
        (folder / "model").write_text("weights")
        return {"size": 7}

    return write_export(
        translator,
        path,
        write_file,
        verify,
        {"dtype": "int8", "size": None},
        metadata,
        ("huggingface.md", dict.fromkeys(README_NAMES, "...")),
    )


README_NAMES = ("text", "max_length", "languages", "formula", "length_penalty")


@pytest.fixture(scope="module")
def random(tokenizer):
    return random_translator(tokenizer)


def test_a_complete_folder(random, tmp_path):
    class Run:
        def metadata(self, checkpoint):
            return {"run": "a", "checkpoint": checkpoint.name}

    seen = []
    random.checkpoints = [(Run(), Path("step-7"))]
    try:
        path = write(random, tmp_path / "new/en-de", seen.append, {"by": "me"})
    finally:
        random.checkpoints = []
    assert seen[0].name == "en-de" and seen[0] != path  # not moved yet
    assert {file.name for file in path.iterdir()} == {
        *("model", "README.md", "keras_transformer.json"),
    }
    described = json.loads((path / "keras_transformer.json").read_text())
    assert described["keras_transformer"] == kt.__version__
    assert described["tokenizer_sha256"] == random.tokenizer.digest
    assert described["runs"] == [{"run": "a", "checkpoint": "step-7"}]
    assert described["search"]["beam_size"] == 1
    assert (described["models"], described["max_length"]) == (1, 30)
    assert (described["dtype"], described["size"]) == ("int8", 7)
    assert described["by"] == "me"
    text = (path / "README.md").read_text("utf-8")
    version = kt.__version__
    assert "\n# en-de\n" in text and "$" not in text
    assert f"Exported by keras-transformer {version} from a (step-7)." in text


def test_parsers_are_not_exported(random, tmp_path):
    parser = random.for_corpus(random.task)
    parser.task = ParsingTask()
    with pytest.raises(InputError, match="for parsing"):
        write(parser, tmp_path / "new")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_never_overwrites(random, tmp_path, kind):
    path = tmp_path / "model"
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("precious")
    else:
        path.symlink_to("nowhere")
    with pytest.raises(InputError, match="model already exists"):
        write(random, path)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert kind != "file" or path.read_text() == "precious"


@pytest.mark.parametrize("name", ["dtype", "size", "search", "runs"])
def test_names_of_metadata_that_are_taken(random, tmp_path, name):
    with pytest.raises(InputError, match=f"built-in one. Received: {name}"):
        write(random, tmp_path / "model", metadata={name: 1})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(tokenizer, tmp_path, value):
    translator = random_translator(tokenizer)
    weight = translator.model.weights[3]
    values = weight.numpy()
    values.flat[-1] = value
    weight.assign(values)
    count = len(translator.model.weights)
    message = f"in 1 of {count} weights, .*{weight.path}"
    with pytest.raises(InputError, match=message):
        write(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_after_an_error(random, tmp_path, error):
    def fail(folder):
        raise error

    with pytest.raises(error):
        write(random, tmp_path / "model", fail)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"url": "https://host/a.git", "vcs_info": {}}', "https://host/a.git"),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', "file:///a"),
        (None, Path(kt.__file__).parents[1].as_uri()),
    ],
)
def test_where_the_package_is_from(monkeypatch, content, expected):
    class Distribution:
        def read_text(self, name):
            return content

    monkeypatch.setattr(installed, "distribution", lambda _: Distribution())
    assert installed_from() == expected


def test_powers_of_the_length():
    assert power_of_length(kt.BeamSearch(alpha=0.6)) == 0.4
    search = kt.BeamSearch(alpha=0.6, length_penalty="power")
    assert power_of_length(search) == 0.6
