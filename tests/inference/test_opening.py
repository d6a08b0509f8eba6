import dataclasses
import json

import pytest
from run_fixtures import create_run, model, run, tokenizer  # noqa: F401

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.inference.exports import Export
from keras_transformer.inference.opening import read_folder, read_run
from keras_transformer.runs.run_folder import Run
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
LITERT = {
    **dict(tokenizer_sha256="", model_sha256="", banned_ids=[1]),
    **dict(largest_beam_size=4, pad_id=0, bos_id=2, eos_id=3),
    "attention_window": None,
}


@pytest.fixture
def saved_model(tmp_path):
    """The folder of a model; version 10 is the newest."""
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
    file.write_text(json.dumps(METADATA | LITERT))
    return tmp_path / "lite"


@pytest.fixture(params=["saved_model", "litert"])
def export(request):
    return request.getfixturevalue(request.param)


# === Descriptions ===


def test_a_run_describes_itself(run):
    for path in (run.path, str(run.path)):
        assert read_folder(path) == read_run(path) == Run.open(run.path)
    assert Export.find(run.path) is None


def test_exports_describe_themselves(export):
    found = read_folder(export)
    format, path = "saved-model", export / "10"
    if export.name == "lite":
        format, path = "litert", export
    assert found == Export.find(export)
    assert (found.format, found.path) == (format, path)
    assert found.task.name == "translation"
    assert found.search == BeamSearch(2, extra_length=7)
    assert found.languages == ("en", "de")
    assert found.request == {"data": ["embedded"]}


@pytest.mark.parametrize(
    ("content", "received"),
    [
        ("{", "JSON"),
        ("", "JSON"),
        ("[]", "different program"),
        ('{"search": {}}', "different program"),
        (json.dumps({**METADATA, **LITERT, "search": [4]}), "not list"),
    ],
)
def test_damaged_metadata(litert, content, received):
    (litert / "keras_transformer.json").write_text(content)
    with pytest.raises(InputError, match=received):
        read_folder(litert)


def test_folders_without_a_model(tmp_path):
    (tmp_path / "file").touch()
    for path, problem in (
        (tmp_path, "config.json"),
        (tmp_path / "file", "config.json"),
        (tmp_path / "other", "exist"),
    ):
        with pytest.raises(InputError, match=f"{path}.*{problem}"):
            read_folder(path)


def test_an_export_is_not_a_run(export):
    with pytest.raises(InputError, match=str(export)):
        read_run(export)


# === Exports ===


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
def test_options_for_runs(export, options):
    with pytest.raises(InputError, match=f"^{next(iter(options))} is"):
        kt.open_translator(export, **options)


def test_an_export_is_used_alone(run, litert):
    with pytest.raises(InputError, match=f"{run.path}, {litert}"):
        kt.open_translator([run.path, litert])
    with pytest.raises(InputError, match=f"grpc://a:1/b, {run.path}"):
        kt.open_translator(["grpc://a:1/b", run.path])


@pytest.mark.parametrize(
    ("kind", "options", "received"),
    [
        (
            "saved_model",
            dict(search=BeamSearch()),
            "SavedModel keeps.*BeamSearch",
        ),
        ("litert", dict(search=Sampling()), "Sampling.*Open its run,"),
        ("litert", dict(search=BeamSearch(5)), "beam_size.*exported.*5"),
        ("litert", dict(search=BeamSearch(no_repeat_ngram=2)), "ngram.*2"),
    ],
)
def test_searches_that_an_export_lacks(request, kind, options, received):
    path = request.getfixturevalue(kind)
    with pytest.raises(InputError, match=received):
        kt.open_translator(path, **options)


# === Runs ===


def test_invalid_options_of_a_run(run, model):
    with pytest.raises(InputError, match=str(run.path)):
        kt.open_translator(run.path)
    run.save_checkpoint(model, 7, max_to_keep=5)
    for options, received in (
        (dict(checkpoint="best"), "checkpoint must .* best$"),
        (dict(num_translations=5), "num_translations must .* 5"),
        (dict(dtype="int8"), "dtype must .*'int8'"),
    ):
        with pytest.raises(InputError, match=received):
            kt.open_translator(run.path, **options)


def test_a_checkpoint_a_search_and_a_task(run, model):
    run.save_checkpoint(model, 80, max_to_keep=5)
    other = kt.Transformer(model.config)
    run.save_checkpoint(other, 90, max_to_keep=5)
    translator = kt.open_translator(str(run.path))
    (embedding, *_) = translator.model.get_weights()
    assert (embedding == other.get_weights()[0]).all()
    assert translator.search == BeamSearch()
    assert (translator.num_translations, translator.task.name) == (
        1,
        "translation",
    )
    task = ParsingTask(split_words=False)
    options = dict(checkpoint=80, search=BeamSearch(3), num_translations=2)
    translator = kt.open_translator(run.path, task=task, **options)
    (embedding, *_) = translator.model.get_weights()
    assert (embedding == model.get_weights()[0]).all()
    assert translator.search == BeamSearch(3)
    assert translator.num_translations == 2 and translator.task is task


def test_several_runs(model, tokenizer, tmp_path):
    search = BeamSearch(2, alpha=1.5, extra_length=12, length_penalty="power")
    languages = ("eo", None)
    a, b = (
        create_run(tmp_path / name, model, tokenizer, **values)
        for name, values in (
            ("a", dict(search=search, languages=languages)),
            ("b", {}),
        )
    )
    both = kt.open_translator([a.path, b.path])
    assert both.models[0] is not both.models[1]
    found = [(run.path, path.name) for run, path in both.checkpoints]
    name = "step-00000001.weights.h5"
    assert found == [(a.path, name), (b.path, name)]
    # The search of the first is the default.
    assert (both.search, both.languages) == (search, languages)
    assert kt.open_translator([b.path, a.path]).search == BeamSearch()


def test_runs_with_different_tokenizers(run, model, tmp_path):
    other = kt.Tokenizer.train(["the cat sleeps"], vocab_size=270)
    path = create_run(tmp_path / "c", model, other).path
    with pytest.raises(InputError, match=str(path)):
        kt.open_translator([run.path, path])
    with pytest.raises(InputError, match="Received: "):
        kt.open_translator([])
