"""The command that turns models of other systems into runs."""

import json
import shutil

import hub_server
import marian_folder
import numpy as np
import pytest
from commands import Chunks, check_refused, set_stdin
from corpora import write_sides

import keras_transformer as kt
from keras_transformer.cli import training
from keras_transformer.convert import foreign_model
from keras_transformer.support.errors import InputError


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """A folder as Hugging Face has it. Tests must not change it."""
    folder = tmp_path_factory.mktemp("models") / "marian"
    marian_folder.write_folder(folder)
    return folder


@pytest.fixture(scope="module")
def imported(marian, tmp_path_factory):
    """Its run. Tests must not change it."""
    path = tmp_path_factory.mktemp("runs") / "en-mul"
    training.import_(marian, output=path)
    return path


@pytest.fixture
def no_tensorflow(monkeypatch):
    """The command fails if it comes so far that it needs TensorFlow."""

    def refuse():
        raise AssertionError("TensorFlow is imported")

    monkeypatch.setattr(foreign_model, "import_tensorflow_quietly", refuse)


def test_import_prints_what_it_found(run_cli, marian, tmp_path):
    path = tmp_path / "new" / "run"
    path.mkdir(parents=True)  # an empty one will do
    code, out, err = run_cli(
        "import", marian, "--output", path, "--target-language", "fra"
    )
    assert (code, err) == (0, "")
    found = dict(line.split(": ", 1) for line in out.splitlines()[:5])
    found = {name: value.strip() for name, value in found.items()}
    config = kt.Run.open(path).config
    size = f"{config.num_parameters:,} parameters"
    assert found["model"].endswith(size)
    assert found["languages"] == "en to fra"
    assert found["search"] == "beam 1, score log P / n^0.8"
    assert "position_layout halves" in found["not the paper's"]
    assert "bad_words_ids=[1, 2]" in out
    assert f"  keras-transformer translate {path}" in out


def test_the_run_of_an_import(imported, marian):
    run = kt.Run.open(imported)
    assert run.request == {}
    assert list(run.statistics) == ["imported_from"]
    assert run.languages == ("en", "mul")
    expected = kt.convert.load(marian)
    assert run.search == expected.search
    assert run.tokenizer.files() == expected.tokenizer.files()
    weights = run.load_model().get_weights()
    for ours, theirs in zip(weights, expected.model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_run_of_a_model_by_name(
    run_cli, imported, marian, monkeypatch, tmp_path
):
    path, cache = tmp_path / "run", tmp_path / "cache"
    flags = ("--output", path, "--revision", "v1")
    with hub_server.serving_hub(monkeypatch, cache) as hub:
        hub.models["opus/en-mul@v1"] = marian
        code, out, err = run_cli("import", "opus/en-mul", *flags)
        assert (code, err) == (0, "")
    commit = hub.commit("opus/en-mul@v1")
    weights = f"models--opus--en-mul/snapshots/{commit}/model.safetensors\n"
    assert f"weights:          {cache}/{weights}" in out
    run, expected = kt.Run.open(path), kt.Run.open(imported)
    for name in ("languages", "search", "statistics"):
        assert getattr(run, name) == getattr(expected, name)
    assert run.tokenizer.files() == expected.tokenizer.files()
    found, expected = run.load_model(), expected.load_model()
    for ours, theirs in zip(
        found.get_weights(), expected.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_translating_with_a_model_by_name(
    run_cli, marian, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    set_stdin(monkeypatch, Chunks([b"a man\n"]))
    with hub_server.serving_hub(monkeypatch, tmp_path / "downloads") as hub:
        hub.models["opus/en-mul@main"] = marian
        language = ("--target-language", "fra")
        code, out, err = run_cli("translate", "opus/en-mul", *language)
    assert code == 0 and len(out.splitlines()) == 1
    assert str(tmp_path / "keras-transformer") in err


def test_a_name_that_is_neither_on_the_hub_nor_on_disk(
    run_cli, monkeypatch, no_tensorflow, tmp_path
):
    with hub_server.serving_hub(monkeypatch, tmp_path / "cache") as hub:
        result = run_cli("import", "runs/opus", "--output", tmp_path / "run")
        check_refused(result, "runs/opus")
        hub.requests.clear()
        result = run_cli("import", "./runs/opus", "--output", tmp_path / "run")
        check_refused(result, "a folder that exists", "./runs/opus")
        assert hub.requests == []
    assert not (tmp_path / "run").exists()


def test_languages_that_the_files_do_not_name(run_cli, marian, tmp_path):
    path = tmp_path / "a run"
    languages = ("--source", "de", "--target", "fr")
    out = run_cli("import", marian, "--output", path, *languages).out
    assert kt.Run.open(path).languages == ("de", "fr")
    assert f"translate '{path}'" in out


# === What is refused, before TensorFlow is imported ===


def test_an_output_that_exists(run_cli, marian, no_tensorflow, tmp_path):
    (tmp_path / "a").touch()
    result = run_cli("import", marian, "--output", tmp_path)
    check_refused(result, f"{tmp_path} already contains other files")
    assert len(list(tmp_path.iterdir())) == 1


def test_folders_without_a_model(run_cli, no_tensorflow, tmp_path):
    output = tmp_path / "run"
    missing = run_cli("import", tmp_path / "gone", "--output", output)
    check_refused(missing, "a folder that exists", str(tmp_path / "gone"))
    (tmp_path / "empty").mkdir()
    empty = run_cli("import", tmp_path / "empty", "--output", output)
    check_refused(empty, *kt.convert.FORMATS, "none of them")
    other = run_cli(
        "import", tmp_path / "empty", "--output", output, "--format", "t5"
    )
    assert other.code == 2 and 'Invalid value "t5" for --format' in other.err
    assert not output.exists()


def test_a_target_language_that_the_model_lacks(
    run_cli, marian, no_tensorflow, tmp_path
):
    output = tmp_path / "run"
    flags = ("--output", output, "--target-language", "nld")
    result = run_cli("import", marian, *flags)
    check_refused(result, ">>deu<<", "nld")
    assert not output.exists()


def test_nothing_is_written_when_weights_are_wrong(run_cli, marian, tmp_path):
    folder = shutil.copytree(marian, tmp_path / "model")
    size = len(json.loads((folder / "vocab.json").read_text("utf-8")))
    tensors = marian_folder.random_tensors(size)
    tensors["more"] = tensors.pop("final_logits_bias")
    marian_folder.write_tensors(folder, tensors)
    result = run_cli("import", folder, "--output", tmp_path / "run")
    check_refused(result, str(folder), "final_logits_bias")
    assert "more" in result.err
    assert not (tmp_path / "run").exists()


def test_nothing_is_left_of_a_run_that_cannot_be_written(
    run_cli, marian, monkeypatch, tmp_path
):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kt.Run, "save_checkpoint", fail)
    result = run_cli("import", marian, "--output", tmp_path / "run")
    assert result.code != 0 and "No space left" in result.err
    assert not (tmp_path / "run").exists()


# === --target-language of other commands ===


def test_the_language_of_a_translation(run_cli, imported, monkeypatch):
    def translated(text, *flags):
        set_stdin(monkeypatch, Chunks([text]))
        flags = (*flags, "--n-best", 2, "--beam-size", 2)
        code, out, err = run_cli("translate", imported, *flags)
        assert code == 0, err
        rows = [line.split("\t") for line in out.splitlines()]
        return [float(score) for _, score, _ in rows]

    texts = b">>fra<< a man\n>>deu<< a man\n\n"
    french, german, empty = np.reshape(translated(texts), [3, 2])
    found = translated(b"a man\n", "--target-language", "fra")
    np.testing.assert_allclose(found, french, atol=2e-4)
    assert np.abs(german - french).max() > 0.01
    assert empty.tolist() == [0, 0]


def test_a_text_without_its_language_is_refused(
    run_cli, imported, monkeypatch, tmp_path
):
    for text, received in (
        (b">>fra<< dog\na man\n", "no target language in text 2, 'a man'"),
        (b">>de<< a man\n", ">>de<< in text 1, '>>de<< a man'"),
    ):
        set_stdin(monkeypatch, Chunks([text]))
        result = run_cli("translate", imported)
        check_refused(result, "--target-language. It has deu, fra.", received)
    set_stdin(monkeypatch, Chunks([b">>de<< a man\n"]))
    result = run_cli("translate", imported, "--target-language", "fra")
    check_refused(result, "deu, fra.", ">>de<< in text 1")

    translator = kt.open_translator(imported)
    for use in (translator.attention, translator.translate_document):
        with pytest.raises(InputError, match="no target language in text 1"):
            use("a man")
    (tmp_path / "data").mkdir()
    write_sides(tmp_path / "data", "train", [("a man", "ein Mann")] * 9)
    write_sides(tmp_path / "data", "valid", [(">>fra<< a man", "un homme")])
    languages = ("--source", "en", "--target", "de")
    data = (tmp_path / "data", *languages)
    split = ("--split", "train")
    result = run_cli("evaluate", imported, "--data", *data, *split)
    check_refused(result, "deu, fra. Received: no target language in text 1")
    output = ("--output", tmp_path / "new", "--steps", 1, "--max-length", 24)
    result = run_cli("train", *data, "--init-from", imported, *output)
    check_refused(result, "deu, fra. Received: no target language in text 1")
    write_sides(tmp_path / "data", "train", [(">>fra<< a man", "un homme")] * 9)
    write_sides(tmp_path / "data", "valid", [(">>fr<< a man", "un homme")])
    result = run_cli("train", *data, "--init-from", imported, *output)
    check_refused(result, "deu, fra. Received: >>fr<< in text 1")
    assert not (tmp_path / "new").exists()
    result = run_cli("export", imported, "--output", tmp_path / "exported")
    check_refused(result, "deu, fra. Received: no target language\n")
    assert not (tmp_path / "exported").exists()


def test_the_next_command_chooses_a_language(run_cli, marian, tmp_path):
    path = tmp_path / "run"
    out = run_cli("import", marian, "--output", path).out
    assert f"translate {path} --target-language deu\n" in out
    flags = ("--output", path.with_name("b"), "--target-language", "fra")
    out = run_cli("import", marian, *flags).out
    assert " --target-language" not in out


def test_a_language_that_a_run_lacks(run_cli, imported, trained):
    flags = ("--target-language", "nld")
    result = run_cli("translate", imported, *flags)
    check_refused(result, ">>deu<<, >>fra<<. Received: >>nld<<")
    result = run_cli("translate", trained.run, *flags)
    check_refused(result, "none. Received: >>nld<<")
