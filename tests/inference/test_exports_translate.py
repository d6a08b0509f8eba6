"""Exports and served models translate as the run does."""

import concurrent.futures
import random
import shutil

import model_server
import numpy as np
import pytest
from helpers import assert_same_translations as assert_same
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.support.errors import InputError


@pytest.fixture(scope="module")
def address(exported):
    with model_server.serve(exported) as server:
        yield server.address


@pytest.fixture(scope="module")
def client(address):
    client = kt.open_translator(f"grpc://{address}/en-de")
    client.max_batch_size = 16
    return client


def mixed_texts(pairs, count):
    """Texts of 0 to 5 known sentences; some are too long for the model."""
    generator = random.Random(0)
    return [
        " ".join(generator.choices(list(pairs), k=generator.randrange(6)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module", params=["saved_model", "litert", "client"])
def runtime(request, exported, litert_folder, client):
    """Each translator of an export, as it is opened."""
    if request.param == "client":
        return client
    paths = {"saved_model": exported, "litert": litert_folder}
    return kt.open_translator(paths[request.param])


def test_translations_of_all_runtimes(runtime, translator, pairs):
    texts = [*mixed_texts(pairs, 100), *odd_texts(40), " \n ", "dog"]
    expected = translator.translate(texts)
    assert any(t.source_truncated for t in expected)
    assert_same(runtime.translate(texts, workers=2), expected)
    assert_same([runtime.translate(b"dog")], expected[-1:])
    assert runtime(["cat", "tree"]) == ["Katze", "Baum"]
    sides = (
        ["dog", "dog", "cat", "", "tree", "red dog " * 99],
        ["", "Katze", "H", "Hund", "Haus " * 100, "Die"],
    )
    assert_same(
        runtime.translate(sides[0], prefixes=sides[1]),
        translator.translate(sides[0], prefixes=sides[1]),
    )
    text = "  The red dog sleeps. The old cat sleeps!\n\n\t- tree\n1.\n"
    ours = runtime.translate_document(text)
    assert ours.text == translator.translate_document(text).text


def test_scores_of_all_runtimes(runtime, translator, pairs):
    sources = ["", "", *pairs, "dog"]
    targets = ["", "Baum", *reversed(pairs.values()), "Hund " * 99]
    ours = runtime.score_corpus(sources, targets)
    theirs = translator.score_corpus(sources, targets)
    assert ours[-1] is theirs[-1] is ours[0] is None
    ours = runtime.score(sources[:-1], targets[:-1], batch_tokens=30)
    theirs = translator.score(sources[:-1], targets[:-1])
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="at index 1"):
        runtime.score(["dog", "dog"], ["Hund", "Hund " * 99])


def test_attributes_of_all_runtimes(runtime, translator):
    assert runtime.num_translations == translator.num_translations
    assert runtime.task.name == "translation"
    for name in ("search", "max_length", "dtype"):
        # A server does not describe them.
        is_client = getattr(runtime.backend, "name", "").startswith("grpc")
        known = None if is_client else getattr(translator, name)
        assert getattr(runtime, name) == known


# Sources, and the same with plain spaces and without invisible characters.
SOURCES = {
    "The red\u00a0dog\u202fsleeps.": "The red dog sleeps.",
    "The\u2028old\u0085tree\rsleeps.": "The old tree sleeps.",
    "\ufeffThe go\u00adod ho\u200buse\u2060 sleeps.": "The good house sleeps.",
    "\u200eThe \u202ared\u202c cat\u2069\0 sleeps.": "The red cat sleeps.",
    "\u200b\ufeff\u00ad\0\u3000": "",
}


def test_sources_are_normalized(runtime):
    translations = runtime.translate(list(SOURCES))
    assert_same(translations, runtime.translate(list(SOURCES.values())))
    assert translations[0].texts[0] == "Hund schläft, der rote."
    assert translations[-1][:2] == ([""] * 3, [0.0] * 3)


def test_several_threads_share_a_client(client, translator, pairs):
    texts = mixed_texts(pairs, 60)
    expected = translator.translate(texts)
    parts = [slice(i, i + 10) for i in range(0, 60, 10)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda part: client.translate(texts[part]), parts)
        for part, found in zip(parts, answers, strict=True):
            assert_same(found, expected[part])


@pytest.mark.parametrize("name", ["de-en", "en-de/7"])
def test_models_that_the_server_lacks(address, name):
    with pytest.raises(InputError, match=f"{name}.*NOT_FOUND"):
        kt.open_translator(f"grpc://{address}/{name}")


def test_a_version(client, address):
    first = kt.open_translator(f"grpc://{address}/en-de/1")
    assert first.translate("dog") == client.translate("dog")


# === The folder of a SavedModel ===


def test_fewer_translations_than_exported(exported):
    opened = kt.open_translator(exported, num_translations=2)
    best = kt.open_translator(exported).translate("dog")
    found = opened.translate("dog")
    assert (found.texts, found.scores) == (best.texts[:2], best.scores[:2])
    for count in (0, 4):
        with pytest.raises(
            InputError, match=f"num_translations.*exported.*{count}"
        ):
            kt.open_translator(exported, num_translations=count)


def test_a_damaged_saved_model(tmp_path, exported):
    folder = shutil.copytree(exported, tmp_path / "1")
    (data,) = folder.glob("variables/variables.data*")
    data.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(InputError, match=str(folder)):
        kt.open_translator(folder)
    (folder / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(InputError, match=str(folder)):
        kt.open_translator(folder)
    (folder / "assets.extra" / "keras_transformer.json").unlink()
    with pytest.raises(InputError, match=f"{folder}.*different program"):
        kt.open_translator(folder)
