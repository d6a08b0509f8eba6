"""Folders with models: what they say of themselves, and what is refused."""

import dataclasses
import json

import pytest
from run_fixtures import model, run, tokenizer  # noqa: F401

from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.inference import opening
from keras_transformer.inference.opening import (
    check_folders,
    open_translator,
    read_export,
    read_folder,
    read_run,
)
from keras_transformer.inference.saved_model import SavedModelTranslator
from keras_transformer.inference.translator import Translator
from keras_transformer.litert import LiteRTTranslator
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
            "recipe": {"source": "en", "target": "de", "data": "embedded"},
        }
    ],
}
OF_LITERT = {
    **dict(format=2, tokenizer_sha256="", model_sha256="", banned_ids=[1]),
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
        assert vars(folder) == vars(read_export(path))
        assert folder.name == name
        assert folder.task.name == "translation"
        assert folder.default_search == BeamSearch(2, extra_length=7)
        assert folder.num_translations == 2
        assert folder.languages == ("en", "de")
        assert folder.training_data() == ["embedded"]
    assert read_folder(saved_model).path == saved_model / "10"


def test_a_saved_model_without_metadata(saved_model):
    (saved_model / "10/assets.extra/keras_transformer.json").unlink()
    folder = read_folder(saved_model)
    assert folder.default_search is folder.num_translations is None
    with pytest.raises(InputError, match="does not say what it was trained"):
        folder.training_data()


def test_what_has_no_model_is_refused(run, tmp_path):
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path, ", which has none"),
        (tmp_path / "file", ", which is a file"),
        (tmp_path / "other", " does not exist"),
    ):
        with pytest.raises(InputError, match=f"{path}{problem}"):
            read_folder(path)
    with pytest.raises(InputError, match="SavedModel or a folder for LiteRT"):
        read_export(run.path)


def test_an_export_is_not_a_run(saved_model, litert):
    for path in (saved_model, saved_model / "9", litert):
        with pytest.raises(InputError, match=f"{path}, which is an export"):
            read_run(path)


def test_translator_open_says_what_opens_an_export(saved_model, litert):
    for path in (saved_model / "9", litert):
        message = f"{path}, which is an export, which `kt.open_translator` open"
        with pytest.raises(InputError, match=message):
            Translator.open(path)


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


EXPORTS_REFUSE = [
    (dict(checkpoint="best"), "used alone.*checkpoint=best"),
    (dict(dtype="bfloat16"), "used alone.*dtype=bfloat16"),
    (dict(target_language="fr"), "used alone.*target_language=fr"),
    (dict(task=ParsingTask()), "used alone.*task="),
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *EXPORTS_REFUSE,
        (dict(search=BeamSearch()), "A SavedModel translates with the search"),
        (dict(num_translations=3), "was exported with 2 translations"),
    ],
)
def test_what_a_saved_model_cannot_do(saved_model, options, message):
    with pytest.raises(InputError, match=message):
        check_folders([read_folder(saved_model)], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *EXPORTS_REFUSE,
        (dict(search=Sampling()), "has beam search only"),
        (dict(search=BeamSearch(5)), "beam size of at most 4.*beam_size=5"),
        (dict(num_translations=3), "from 1 to beam_size"),
    ],
)
def test_what_an_export_for_litert_cannot_do(litert, options, message):
    with pytest.raises(InputError, match=message):
        check_folders([read_folder(litert)], **options)
    check_folders([read_folder(litert)], search=BeamSearch(3))


def test_what_runs_cannot_do(run, model, litert, tmp_path):
    folder = read_folder(run.path)
    with pytest.raises(InputError, match="no checkpoint yet"):
        check_folders([folder])
    run.save_checkpoint(model, 7, max_to_keep=5)
    check_folders([folder, folder], checkpoint=7, dtype="bfloat16")
    with pytest.raises(InputError, match="7, last. .*=best. It is .* valid"):
        check_folders([folder], checkpoint="best")
    with pytest.raises(InputError, match="from 1 to beam_size"):
        check_folders([folder], num_translations=5)
    other = dataclasses.replace(folder, tokenizer_digest="0")
    with pytest.raises(InputError, match="same task and tokenizer"):
        check_folders([folder, other])
    with pytest.raises(InputError, match="used alone"):
        check_folders([folder, read_folder(litert)])
    with pytest.raises(InputError, match="no folder"):
        check_folders([])


def test_each_folder_has_its_translator(
    run, model, saved_model, litert, monkeypatch
):
    run.save_checkpoint(model, 7, max_to_keep=5)
    for cls in (Translator, SavedModelTranslator, LiteRTTranslator):
        monkeypatch.setattr(
            cls, "open", lambda *arguments, cls=cls: (cls, *arguments)
        )
    monkeypatch.setattr(opening, "import_tensorflow_quietly", lambda **_: None)
    search = BeamSearch(2)
    assert open_translator(saved_model, num_translations=2) == (
        SavedModelTranslator,
        saved_model / "10",
        2,
    )
    assert open_translator(litert, search=search) == (
        LiteRTTranslator,
        litert,
        search,
        None,
        None,
    )
    cls, runs, *options = open_translator([run.path], checkpoint="7")
    assert cls is Translator
    assert [opened.path for opened in runs] == [run.path]
    assert options == ["7", None, 1, "float32", None]
