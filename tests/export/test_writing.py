"""What `write_export` checks, writes and leaves, whatever the format."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.export.writing import write_export
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask


def write(translator, path, format="ctranslate2", open_written=None, **options):
    """Writes one file, which has the scores of the translator."""

    def write_file(folder):
        (folder / "model").write_text("weights")
        return {"dtype": "int8", "size": 7}

    return write_export(
        translator,
        path,
        format,
        options.get("dtype", "float32"),
        write_file,
        open_written or (lambda folder: translator.score),
        options.get("metadata"),
    )


@pytest.fixture(scope="module")
def random(tokenizer):
    return random_translator(tokenizer)


def test_a_complete_folder(random, tmp_path):
    class Run:
        def metadata(self, checkpoint):
            return {"run": "a", "checkpoint": checkpoint.name}

    seen = []

    def open_written(folder):
        seen.append(folder)
        return random.score

    random.checkpoints = [(Run(), Path("step-7"))]
    try:
        path = write(
            random,
            tmp_path / "new/en-de",
            open_written=open_written,
            metadata={"by": "me"},
        )
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
    assert text.startswith("# CTranslate2\n")
    assert "docs/ctranslate2.md" in text


def test_a_model_card(random, tmp_path):
    path = write(random, tmp_path / "en-de", "huggingface")
    text = (path / "README.md").read_text("utf-8")
    _, card, _ = text.split("---\n")
    assert yaml.safe_load(card)["library_name"] == "transformers"


def test_dtypes_of_a_format(random, tmp_path):
    with pytest.raises(InputError, match="dtype='int8'"):
        write(random, tmp_path / "model", "huggingface", dtype="int8")
    assert not list(tmp_path.iterdir())


def test_parsers_are_not_exported(random, tmp_path):
    parser = random.for_corpus(random.task)
    parser.task = ParsingTask()
    with pytest.raises(InputError, match="for parsing"):
        write(parser, tmp_path / "new")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_never_overwrites(random, tmp_path, kind):
    path = tmp_path / "model"
    file = path
    if kind == "folder":
        path.mkdir()
        file = path / "model"
    file.write_text("precious")
    with pytest.raises(InputError, match="model already"):
        write(random, path)
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert file.read_text() == "precious"


@pytest.mark.parametrize("name", ["dtype", "size", "search", "runs"])
def test_names_of_metadata_that_are_taken(random, tmp_path, name):
    with pytest.raises(TypeError, match=name):
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
    with pytest.raises(InputError, match=f"1 of {count} .*{weight.path}"):
        write(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_after_an_error(random, tmp_path, error):
    def fail(folder):
        raise error

    with pytest.raises(error):
        write(random, tmp_path / "model", open_written=fail)
    assert not list(tmp_path.iterdir())
