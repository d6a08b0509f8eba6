"""Translations with a shortlist contain its tokens alone; scores are exact."""

import numpy as np
import pytest
from random_models import random_translator
from translation_fixtures import PAIRS

import keras_transformer as kt
from keras_transformer.export import make_shortlist, save_litert
from keras_transformer.litert.shortlist import Shortlist
from keras_transformer.support.errors import InputError

TEXTS = ["The red dog sleeps.", "cat", "", "The good old house."]


def listing(*ids):
    """Returns the shortlist with the same ids for all sources."""
    no_ids = np.zeros(0, np.int32)
    return Shortlist(np.array(ids, np.int32), no_ids, np.zeros(331, int))


@pytest.fixture(scope="module", params=["float32", "int8"])
def folder(request, translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("shortlist") / "model"
    shortlist = make_shortlist(translator.tokenizer, PAIRS.items())
    return save_litert(translator, path, request.param, shortlist)


def test_ids():
    shortlist = Shortlist(
        np.array([1, 9], np.int32),
        np.array([7, 3, 9, 5], np.int32),
        np.array([0, 0, 2, 3, 4]),
    )
    assert shortlist.ids([[1, 2], [2]], [[8], []]).tolist() == [1, 3, 7, 8, 9]
    assert shortlist.ids([[3], [0]]).tolist() == [1, 5, 9]


def test_it_translates_what_it_has_seen(folder):
    found = kt.open_translator(folder, num_translations=1)
    assert found([*PAIRS]) == [*PAIRS.values()]


@pytest.mark.parametrize("prefix", ["", "Katze"])
def test_all_tokens_listed(translator, tmp_path, prefix):
    model = random_translator(translator.tokenizer, output_bias=True).model
    expected = kt.Translator(model, translator.tokenizer, num_translations=4)
    every = listing(*range(translator.tokenizer.vocab_size))
    path = save_litert(expected, tmp_path / "model", shortlist=every)
    prefixes = [prefix] * len(TEXTS)
    for threads in (1, 2):
        found = kt.open_translator(path, threads=threads)
        for ours, theirs in zip(
            found.translate(TEXTS, prefixes=prefixes),
            expected.translate(TEXTS, prefixes=prefixes),
            strict=True,
        ):
            assert ours.texts == theirs.texts
            np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)


def test_no_other_tokens(translator, tmp_path):
    model = random_translator(translator.tokenizer).model
    expected = kt.Translator(model, translator.tokenizer)
    listed = {3, *range(270, 290)}
    path = save_litert(expected, tmp_path / "a", shortlist=listing(*listed))
    found, listed = kt.open_translator(path), listed | {*range(11)}
    sources = [[300, 301, 3], [302, 3]]
    limits = np.full(2, 12, np.int32)
    arguments = sources, [[320], []], limits, found.search, 1
    ids = found.engine.search(*arguments).ids[:, 0]
    assert ids[0, 0] == 320 and {*ids[0, 1:], *ids[1]} <= listed
    whole = kt.open_translator(path, shortlist=False)
    theirs = expected.engine.search(*arguments).ids[:, 0]
    np.testing.assert_array_equal(
        whole.engine.search(*arguments).ids[:, 0], theirs
    )
    assert not {*theirs[1]} <= listed


def test_scores_are_exact(folder, translator):
    texts = ["ein unbekannter Satz", "Hund", "Katze", "Haus"]
    opened = kt.open_translator(folder)
    tolerance = 1e-4 if opened.dtype == "float32" else 0.5
    found, expected = opened.score(TEXTS, texts), translator.score(TEXTS, texts)
    for ours, theirs in zip(found, expected, strict=True):
        assert (
            abs(ours.log_prob - theirs.log_prob)
            <= tolerance * theirs.num_tokens
        )


def test_an_ensemble(translator, tmp_path):
    both = kt.Translator([translator.model] * 2, translator.tokenizer)
    with pytest.raises(InputError, match="an ensemble"):
        save_litert(both, tmp_path / "model", shortlist=listing(3))
    assert not (tmp_path / "model").exists()
