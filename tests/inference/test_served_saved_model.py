"""A SavedModel does what the translator does that it was exported from."""

import shutil

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.cli import main
from keras_transformer.inference.exports import Export

TEXTS = ["The good house sleeps.", "dog", "", "The red\0cat 🙂 sleeps.", "dog"]


@pytest.fixture(scope="module")
def opened(exported):
    return kt.open_translator(exported)


def test_fewer_translations_than_exported(opened, exported):
    best = opened.translate("dog")
    found = kt.open_translator(exported, num_translations=2).translate("dog")
    assert len(best.texts) == 3
    assert (found.texts, found.scores) == (best.texts[:2], best.scores[:2])
    for n in (0, 4):
        with pytest.raises(kt.InputError, match=f"num_translations={n}"):
            kt.open_translator(exported, num_translations=n)
    with pytest.raises(kt.InputError, match="BeamSearch"):
        kt.open_translator(exported, search=kt.BeamSearch())


def test_signatures(opened):
    names = {"serving_default", "score", "translate_prefix"}
    assert set(opened.signatures) == names


def test_it_translates_as_the_run_does(opened, translator):
    for ours, theirs in zip(
        opened.translate(TEXTS), translator.translate(TEXTS), strict=True
    ):
        assert (ours.texts, ours[2:]) == (theirs.texts, theirs[2:])
        np.testing.assert_allclose(ours.scores, theirs.scores, 1e-4, 1e-5)


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
    for name in ("2", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saved_model.pb").touch()
    shutil.copytree(exported, tmp_path / "10")
    assert Export.find(tmp_path).path.name == "10"


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
    with pytest.raises(kt.InputError, match="at index 1"):
        found.score(["dog", "dog"], ["Hund", "Hund " * 99])


def test_folders_that_are_not_an_export(tmp_path, exported):
    with pytest.raises(kt.InputError, match="config.json"):
        kt.open_translator(tmp_path)
    folder = shutil.copytree(exported, tmp_path / "1")
    (folder / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(kt.InputError, match=f"{folder} must be a SavedModel"):
        kt.open_translator(folder)
    metadata = folder / "assets.extra" / "keras_transformer.json"
    metadata.write_text("{")
    with pytest.raises(kt.InputError, match="JSON"):
        kt.open_translator(folder)
    metadata.unlink()
    with pytest.raises(kt.InputError, match="keras_transformer.json"):
        kt.open_translator(folder)


def test_lost_variables(tmp_path, exported):
    folder = shutil.copytree(exported, tmp_path / "1")
    (data,) = folder.glob("variables/variables.data*")
    data.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(kt.InputError, match=f"{folder} must be a SavedModel"):
        kt.open_translator(folder)
