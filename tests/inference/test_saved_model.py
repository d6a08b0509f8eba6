"""A SavedModel does what the translator does that it was exported from."""

import json
import shutil
import sys

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.cli import main
from keras_transformer.inference.saved_model import (
    SavedModelFolder,
    SavedModelTranslator,
)

TEXTS = ["The good house sleeps.", "dog", "", "The red\0cat 🙂 sleeps.", "dog"]


@pytest.fixture(scope="module")
def opened(exported):
    return SavedModelTranslator.open(exported)


def test_fewer_translations_than_exported(opened, exported):
    best = opened.translate("dog")
    found = SavedModelTranslator.open(exported, 2).translate("dog")
    assert len(best.texts) == 3
    assert (found.texts, found.scores) == (best.texts[:2], best.scores[:2])
    for n in (0, 4):
        with pytest.raises(kt.InputError, match=f"exported with 3.*={n}. "):
            SavedModelTranslator.open(exported, n)


def test_signatures_and_versions(opened):
    names = {"serving_default", "score", "translate_prefix"}
    assert set(opened.own_signatures) == names
    assert opened.version == 1 and "score" in opened.description


def test_the_command_line_translates_with_it(
    opened, exported, tmp_path, monkeypatch
):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "1")  # which `main` sets
    given, written = tmp_path / "given", tmp_path / "written"
    given.write_text("dog\ncat\n", "utf-8")
    words = ["translate", exported, "--input", given, "--output", written]
    assert main(list(map(str, words))) == 0
    assert written.read_text("utf-8").splitlines() == opened(["dog", "cat"])


def test_the_newest_version_is_opened(exported, tmp_path):
    for name in ("2", "10", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    shutil.rmtree(tmp_path / "10")
    shutil.copytree(exported, tmp_path / "10")
    found = SavedModelTranslator.open(tmp_path)
    assert (found.path.name, found.version) == ("10", 10)


def test_a_signature_that_lacks_is_named(opened, exported):
    signature = opened.own_signatures["serving_default"]
    other = SavedModelTranslator(
        SavedModelFolder.read(exported), {"serving_default": signature}
    )
    with pytest.raises(kt.InputError, match="signature score"):
        other.score("dog", "Hund")
    assert not other.can("perplexity") and not other.can("attention")
    with pytest.raises(kt.InputError, match="signature translate_prefix"):
        other.translate("dog", prefixes="H")


def test_scores_are_those_of_the_translator(opened, translator):
    found = opened
    targets = ["das Haus", "Hund", "", "x y z", "Katze"]
    np.testing.assert_allclose(
        found.score(TEXTS, targets),
        translator.score(TEXTS, targets),
        rtol=1e-4,
        atol=1e-5,
    )
    texts, targets = [*TEXTS, "dog"], [*targets, "Hund " * 99]
    for ours, theirs in zip(
        found.score_corpus(texts, targets),
        translator.score_corpus(texts, targets),
        strict=True,
    ):
        assert (ours is None) == (theirs is None)
    with pytest.raises(kt.InputError, match="a longer target at index 1"):
        found.score(["dog", "dog"], ["Hund", "Hund " * 99])


def test_the_tokenizer_of_another_tensorflow(exported, tmp_path, monkeypatch):
    package = tmp_path / "tensorflow_text"
    library = package / "python" / "ops" / "_tokenizer.so"
    library.parent.mkdir(parents=True)
    (package / "__init__.py").touch()
    library.write_bytes(b"of another version")
    monkeypatch.delitem(sys.modules, "tensorflow_text", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(kt.InputError) as error:
        SavedModelTranslator.open(exported)
    message = str(error.value)
    assert message.startswith("tensorflow-text must be one for TensorFlow 2.")
    assert f"Received: {library}: " in message
    assert 'Run `pip install "tensorflow-text==2.' in message
    assert "SavedModel" not in message


def test_folders_that_are_no_export(tmp_path, opened, exported):
    with pytest.raises(kt.InputError, match="folder with saved_model.pb"):
        SavedModelTranslator.open(tmp_path)
    signatures = {"other": opened.own_signatures["score"]}
    with pytest.raises(kt.InputError, match="must have the signature serving"):
        SavedModelTranslator(SavedModelFolder.read(exported), signatures)
    folder = shutil.copytree(exported, tmp_path / "1")
    metadata = folder / "assets.extra" / "keras_transformer.json"
    values = json.loads(metadata.read_text())
    for wrong, message in (
        ("{", "is not valid JSON"),
        ("[]", "must have a JSON object"),
        ({"runs": 3}, "must have 'runs' of type list. Received: runs=3"),
        ({"runs": [3]}, "must have runs that are objects"),
        ({"search": {"beam_size": 2, "new": 1}}, "valid values of beam_size"),
    ):
        if isinstance(wrong, dict):
            wrong = json.dumps({**values, **wrong})
        metadata.write_text(wrong)
        with pytest.raises(kt.InputError, match=message):
            SavedModelTranslator.open(folder)
    metadata.unlink()
    (folder / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(kt.InputError, match="must be a SavedModel. Received"):
        SavedModelTranslator.open(folder)
