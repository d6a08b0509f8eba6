"""Exports and served models translate as the run does."""

import concurrent.futures
import random

import model_server
import numpy as np
import pytest
import serving_check
from tokenizer_texts import odd_texts

from keras_transformer.inference.opening import open_translator
from keras_transformer.support.errors import InputError


@pytest.fixture(scope="module")
def address(exported):
    with model_server.serve(exported) as server:
        yield server.address


@pytest.fixture(scope="module")
def client(address):
    client = open_translator(f"grpc://{address}/en-de")
    client.max_batch_size = 16
    return client


def mixed_texts(pairs, count):
    """Texts of 0 to 5 known sentences, which some sources are too long for."""
    generator = random.Random(0)
    return [
        " ".join(generator.choices(list(pairs), k=generator.randrange(6)))
        for _ in range(count)
    ]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[:1] + ours[2:] == theirs[:1] + theirs[2:]
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-4)


@pytest.fixture(scope="module", params=["saved_model", "litert", "client"])
def runtime(request, exported, litert_folder, client):
    """Each translator of an export, as it is opened."""
    if request.param == "client":
        return client
    paths = {"saved_model": exported, "litert": litert_folder}
    return open_translator(paths[request.param])


def test_all_translators_give_equal_records(runtime, translator, pairs):
    texts = [*mixed_texts(pairs, 100), *odd_texts(20), " \n ", "dog"]
    expected = translator.translate(texts)
    assert any(t.source_truncated for t in expected)
    assert_same(runtime.translate(texts, workers=2), expected)
    assert_same([runtime.translate(b"dog")], expected[-1:])
    assert runtime(["cat", "tree"]) == ["Katze", "Baum"]
    assert runtime.num_translations == translator.num_translations
    assert runtime.task.name == "translation"
    for name in ("search", "max_length", "dtype"):
        # A server does not describe them.
        is_client = getattr(runtime, "name", "").startswith("grpc")
        known = None if is_client else getattr(translator, name)
        assert getattr(runtime, name) == known
    ours = runtime.score(list(pairs), list(pairs.values()))
    theirs = translator.score(list(pairs), list(pairs.values()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    sides = ["dog", "dog", "The red cat sleeps."], ["", "Katze", "H"]
    assert_same(
        runtime.translate(sides[0], prefixes=sides[1]),
        translator.translate(sides[0], prefixes=sides[1]),
    )
    text = "  The red dog sleeps. The old cat sleeps!\n\n\t- tree\n1.\n"
    ours = runtime.translate_document(text)
    theirs = translator.translate_document(text)
    assert ours.text == theirs.text
    assert list(ours.translations) == list(theirs.translations)


def test_a_client_knows_what_the_server_says(client):
    assert client.num_translations == 3
    assert client.task.name == "translation"


def test_several_threads_share_a_client(client, translator, pairs):
    texts = mixed_texts(pairs, 60)
    expected = translator.translate(texts)
    parts = [slice(i, i + 10) for i in range(0, 60, 10)] * 3
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = pool.map(lambda part: client.translate(texts[part]), parts)
        for part, found in zip(parts, answers, strict=True):
            assert_same(found, expected[part])


def test_any_signature(client):
    text = ["dog", "", "The good tree sleeps."]
    outputs = client.predict("serving_default", text=text)
    assert outputs["translations"].dtype == object
    assert outputs["scores"].dtype == np.float32
    expected = client.translate(text)
    assert [row[0].decode() for row in outputs["translations"]] == [
        translation.texts[0] for translation in expected
    ]


@pytest.mark.parametrize("name", ["de-en", "en-de/7"])
def test_models_that_the_server_lacks(address, name):
    with pytest.raises(InputError, match=f"{name}.*NOT_FOUND"):
        open_translator(f"grpc://{address}/{name}")


def test_a_version(client, address):
    first = open_translator(f"grpc://{address}/en-de/1")
    assert first.translate("dog") == client.translate("dog")


def test_check_of_a_server(client, exported):
    lines = list(serving_check.check(client, exported))
    for name in ("serving_default", "score", "translate_prefix"):
        assert sum(line.startswith(f"{name}: ") for line in lines) == 6
    assert len(lines) == 3 * 6 + 2
