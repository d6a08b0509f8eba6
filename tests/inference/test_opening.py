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
from keras_transformer.inference.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask

METADATA = {
    "search": dataclasses.asdict(BeamSearch(2, extra_length=7)),
    "num_translations": 2,
    "max_length": 24,
    "dtype": "float32",
    "runs": [
        {
            "task": "translation",
            "source": "en",
            "target": "de",
            "request": {"data": ["embedded"]},
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


def test_a_run_describes_itself(run):
    for path in (run.path, str(run.path)):
        assert read_folder(path) == read_run(path) == Run.open(run.path)


@pytest.mark.parametrize("kind", ["saved-model", "litert"])
def test_exports_describe_themselves(saved_model, litert, kind):
    path = {"saved-model": saved_model, "litert": litert}[kind]
    export = read_folder(path)
    assert export == Export.find(path)
    assert (export.kind, export.task.name) == (kind, "translation")
    assert export.path == (path if kind == "litert" else path / "10")
    assert export.search == BeamSearch(2, extra_length=7)
    assert export.languages == ("en", "de")
    assert export.request == {"data": ["embedded"]}
    assert export.metadata["num_translations"] == 2


@pytest.mark.parametrize("content", ["{", "[]", '{"search": {}}'])
def test_damaged_metadata_of_an_export(litert, content):
    (litert / "keras_transformer.json").write_text(content)
    with pytest.raises(InputError, match=str(litert)):
        read_folder(litert)


def test_what_has_no_model_is_refused(run, tmp_path):
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path, "has no config.json"),
        (tmp_path / "file", "has no config.json"),
        (tmp_path / "other", "does not exist"),
    ):
        with pytest.raises(InputError, match=f"{path}, which {problem}"):
            read_folder(path)
    assert Export.find(run.path) is None


def test_an_export_is_not_a_run(saved_model, litert):
    for path in (saved_model, saved_model / "9", litert):
        with pytest.raises(InputError, match=str(path)):
            read_run(path)


@pytest.mark.parametrize(
    "options",
    [
        dict(checkpoint="best"),
        dict(dtype="bfloat16"),
        dict(target_language="fr"),
        dict(tag="<bt>"),
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
    ("kind", "options", "message"),
    [
        ("saved-model", dict(search=BeamSearch()), "BeamSearch"),
        ("saved-model", dict(num_translations=3), "num_translations=3"),
        ("saved-model", dict(num_translations=0), "num_translations=0"),
        ("litert", dict(search=Sampling()), "Sampling"),
        ("litert", dict(search=BeamSearch(5)), "beam_size=5"),
        ("litert", dict(search=BeamSearch(no_repeat_ngram=2)), "ngram=2"),
    ],
)
def test_what_an_export_cannot_do(saved_model, litert, kind, options, message):
    path = {"saved-model": saved_model, "litert": litert}[kind]
    with pytest.raises(InputError, match=message):
        open_translator(path, **options)


def test_what_runs_cannot_do(run, model):
    with pytest.raises(InputError, match=str(run.path)):
        open_translator(run.path)
    run.save_checkpoint(model, 7, max_to_keep=5)
    with pytest.raises(InputError, match="=best"):
        open_translator(run.path, checkpoint="best")
    with pytest.raises(InputError, match="num_translations=5"):
        open_translator(run.path, num_translations=5)
    with pytest.raises(InputError, match="dtype='int8'"):
        open_translator(run.path, dtype="int8")
