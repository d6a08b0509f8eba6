"""Folders with models: what they describe, and how they are opened."""

import dataclasses
import json

import pytest
from run_fixtures import model, run, tokenizer  # noqa: F401

from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.inference.exports import Export
from keras_transformer.inference.opening import (
    open_translator,
    read_folder,
    read_run,
)
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask

METADATA = {
    "search": dataclasses.asdict(BeamSearch(2, extra_length=7)),
    "num_translations": 2,
    "max_length": 24,
    "languages": [],
    "dtype": "float32",
    "runs": [
        {
            "task": "translation",
            "recipe": {"source": "en", "target": "de", "data": "embedded"},
        }
    ],
}
OF_LITERT = {
    **dict(tokenizer_sha256="", model_sha256="", banned_ids=[1]),
    **dict(largest_beam_size=4, pad_id=0, bos_id=2, eos_id=3),
    "attention_window": None,
}


@pytest.fixture
def saved_model(tmp_path):
    """The folder of a model, of which version 10 is the newest."""
    for version in ("9", "10", "x"):
        folder = tmp_path / "en-de" / version
        (folder / "assets.extra").mkdir(parents=True)
        (folder / "saved_model.pb").touch()
        file = folder / "assets.extra" / "keras_transformer.json"
        file.write_text(json.dumps(METADATA))
    return tmp_path / "en-de"


@pytest.fixture
def litert(tmp_path):
    (tmp_path / "lite").mkdir()
    file = tmp_path / "lite" / "keras_transformer.json"
    file.write_text(json.dumps(METADATA | OF_LITERT))
    return tmp_path / "lite"


def test_a_run_describes_itself(run, model):
    folder = read_folder(run.path)
    assert vars(folder) == vars(read_run(run.path))
    assert folder.config == run.config
    assert folder.tokenizer_digest == run.tokenizer.digest
    assert (folder.name, folder.task.name) == ("run", "translation")
    assert folder.default_search == BeamSearch()
    assert (folder.languages, folder.num_translations) == ((None, None), 1)
    run.save_checkpoint(model, 7, max_to_keep=5)
    assert folder.find_checkpoint("7") == run.find_checkpoint()


def test_exports_describe_themselves(saved_model, litert):
    for path, name in ((saved_model, "en-de"), (litert, "lite")):
        folder = read_folder(path)
        assert vars(folder) == vars(Export.read(path))
        assert folder.name == name
        assert folder.task.name == "translation"
        assert folder.default_search == BeamSearch(2, extra_length=7)
        assert folder.num_translations == 2
        assert folder.languages == ("en", "de")
        assert folder.training_data() == ["embedded"]
    assert read_folder(saved_model).path == saved_model / "10"


def test_what_has_no_model_is_refused(run, tmp_path):
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path, ", which has no config.json"),
        (tmp_path / "file", ", which has no config.json"),
        (tmp_path / "other", ", which does not exist"),
    ):
        with pytest.raises(InputError, match=f"{path}{problem}"):
            read_folder(path)
    with pytest.raises(InputError, match=str(run.path)):
        Export.read(run.path)


def test_an_export_is_not_a_run(saved_model, litert):
    for path in (saved_model, saved_model / "9", litert):
        with pytest.raises(InputError, match=f"{path}, which is an export"):
            read_run(path)


def test_the_data_of_a_training(run, tmp_path):
    source, target = tmp_path / "a b.en", tmp_path / "c.de"
    for file in (source, target):
        file.touch()
    folder = read_folder(run.path)

    def of(name):
        recipe = {"data": str(name)}
        return dataclasses.replace(folder, recipe=recipe).training_data()

    assert of(source) == [str(source)]
    assert of(f"{source} {target}") == [str(source), str(target)]
    assert of("tfds:wmt14") == ["tfds:wmt14"]
    with pytest.raises(InputError, match="are not there.*gone'"):
        of("gone")


def test_data_that_are_not_recorded(run):
    folder = dataclasses.replace(read_folder(run.path), recipe={})
    with pytest.raises(InputError, match="does not say what it was trained"):
        folder.training_data()


@pytest.mark.parametrize(
    "options",
    [
        dict(checkpoint="best"),
        dict(dtype="bfloat16"),
        dict(target_language="fr"),
        dict(task=ParsingTask()),
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_needs_a_run(saved_model, litert, options):
    for path in (saved_model, litert):
        with pytest.raises(InputError, match=f"{next(iter(options))}="):
            open_translator(path, **options)


def test_exports_are_used_alone(run, litert):
    with pytest.raises(InputError, match=f"{run.path}, {litert}"):
        open_translator([run.path, litert])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(search=BeamSearch()), "search="),
        (dict(num_translations=3), "num_translations=3"),
        (dict(num_translations=0), "num_translations=0"),
    ],
)
def test_what_a_saved_model_cannot_do(saved_model, options, message):
    with pytest.raises(InputError, match=message):
        open_translator(saved_model, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(search=Sampling()), "search=Sampling"),
        (dict(search=BeamSearch(5)), "beam_size=5"),
    ],
)
def test_what_an_export_for_litert_cannot_do(litert, options, message):
    with pytest.raises(InputError, match=message):
        open_translator(litert, **options)


def test_what_runs_cannot_do(run, model):
    with pytest.raises(InputError, match="no checkpoint yet"):
        open_translator(run.path)
    run.save_checkpoint(model, 7, max_to_keep=5)
    with pytest.raises(InputError, match="=best"):
        open_translator(run.path, checkpoint="best")
    with pytest.raises(InputError, match="num_translations=5"):
        open_translator(run.path, num_translations=5)
    with pytest.raises(InputError, match="dtype='int8'"):
        open_translator(run.path, dtype="int8")
