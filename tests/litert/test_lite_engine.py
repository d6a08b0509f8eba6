"""The engine of LiteRT answers as the Keras models do."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.decoding.numpy_search import beam_search
from keras_transformer.litert import lite_engine
from keras_transformer.support.errors import InputError

LONG = ("The red dog " * 4_167)[:50_000]
ODD = [*odd_texts(40), " \t\n ", LONG, "x" * 50_000]


def assert_same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        assert one.texts == other.texts
        assert one[2:] == other[2:]
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)


# === Translations ===


def test_translations_and_scores(litert, translator, pairs):
    texts = [*pairs, *ODD]
    found = litert.translate(texts)
    assert_same(found, translator.translate(texts))
    assert litert(list(pairs)) == list(pairs.values())
    by_text = dict(zip(texts, found, strict=True))
    nothing = (["", "", ""], [0.0, 0.0, 0.0], False, False, False)
    assert by_text[""] == by_text[" \t\n "] == nothing
    assert by_text[LONG].source_truncated


# Sources, and the same with plain spaces and without invisible characters.
SOURCES = {
    "The red\u00a0dog\u202fsleeps.": "The red dog sleeps.",
    "The\u3000small\u2009cat sleeps.": "The small cat sleeps.",
    "The\u2028old\u0085tree\rsleeps.": "The old tree sleeps.",
    "\ufeffThe go\u00adod ho\u200buse\u2060 sleeps.": "The good house sleeps.",
    "\u200eThe \u202ared\u202c cat\u2069\0 sleeps.": "The red cat sleeps.",
    "\u00a0\u3000": "",
    "\u200b\ufeff\u00ad\0": "",
}


def test_sources_are_normalized_alike_in_all_runtimes(
    litert, translator, exported
):
    saved_model = kt.open_translator(exported)
    for runtime in (translator, saved_model, litert):
        translations = runtime.translate(list(SOURCES))
        plain = runtime.translate(list(SOURCES.values()))
        assert_same(translations, plain)
        assert translations[0].texts[0] == "Hund schläft, der rote."
        assert translations[-1].texts == [""] * 3
        assert translations[-1].scores == [0.0] * 3


@pytest.mark.parametrize(
    "search",
    [
        kt.BeamSearch(1, alpha=0.0, extra_length=0),
        pytest.param(
            kt.BeamSearch(2, alpha=1.0, extra_length=3, length_factor=0.5),
            marks=pytest.mark.slow,
        ),
        kt.BeamSearch(3, alpha=5.0, extra_length=2**40),
        pytest.param(
            kt.BeamSearch(3, 1.0, 1, length_penalty="power"),
            marks=pytest.mark.slow,
        ),
        kt.BeamSearch(3, 1.0, 1, length_penalty="power_without_end"),
    ],
)
def test_settings_of_the_search(
    search, folder, model, tokenizer, translator, pairs
):
    texts, n = [*pairs, *ODD], search.beam_size
    expected = kt.Translator(model, tokenizer, search, n).translate(texts)
    opened = kt.open_translator(folder, search=search, num_translations=n)
    assert_same(opened.translate(texts), expected)
    assert any(t.at_length_limit for t in expected)
    if search.extra_length > model.config.max_length:
        # There is room for fewer tokens at first.
        found = tokenizer.encode([t.texts[0] for t in expected])
        assert max(map(len, found)) == model.config.max_length - 1


def test_the_search_is_for_what_is_returned(folder, pairs, monkeypatch):
    counts = []

    def search(decoding, limits, settings, count, *rest):
        counts.append(count)
        return beam_search(decoding, limits, settings, count, *rest)

    monkeypatch.setattr(lite_engine, "beam_search", search)
    texts = list(pairs)
    best = kt.open_translator(folder, num_translations=1).translate(texts)
    n_best = kt.open_translator(folder, num_translations=4).translate(texts)
    assert set(counts) == {1, 4}
    for ours, theirs in zip(best, n_best, strict=True):
        assert ours.texts == theirs.texts[:1]
        np.testing.assert_allclose(ours.scores, theirs.scores[:1], rtol=1e-4)


def test_the_search_of_the_export_is_the_default(folder, translator):
    opened = kt.open_translator(str(folder))
    assert opened.search == translator.search != kt.BeamSearch()
    assert len(opened.translate("dog").texts) == 3
    greedy = kt.open_translator(folder, search=kt.BeamSearch(beam_size=1))
    assert len(greedy.translate("dog").texts) == 1


def test_prefixes(litert, translator):
    texts = ["dog", "The red dog sleeps.", "cat", "", "tree", LONG]
    prefixes = ["Kat", "Baum", "", "Hund", "Haus " * 100, "Die"]
    found = litert.translate(texts, prefixes=prefixes)
    assert_same(found, translator.translate(texts, prefixes=prefixes))
    assert found[1].texts[0].startswith("Baum")
    assert found[4].source_truncated and found[4].at_length_limit


def test_scores(litert, translator, pairs):
    sources, targets = ["", "", *pairs], ["", "Baum", *reversed(pairs.values())]
    found = litert.score(sources, targets)
    np.testing.assert_allclose(
        found, translator.score(sources, targets), rtol=1e-4, atol=1e-4
    )
    assert found[0] == (0.0, 0.0, 1.0, 1) and found[1].log_prob < 0
    assert litert.score("dog", "Hund").score == pytest.approx(
        litert.translate("dog").scores[0], rel=1e-4
    )
    small = litert.score(sources, targets, batch_tokens=1)
    np.testing.assert_allclose(small, found, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="index 1"):
        litert.score(["dog", "dog"], ["Hund", "Hund " * 99])


@pytest.mark.parametrize("form", ["power", "power_without_end"])
def test_scores_with_another_length_penalty(folder, pairs, form):
    search = kt.BeamSearch(4, 1.5, extra_length=12, length_penalty=form)
    litert = kt.open_translator(folder, search=search)
    found = litert.translate(list(pairs))
    scores = litert.score(list(pairs), [one.texts[0] for one in found])
    np.testing.assert_allclose(
        [score.score for score in scores],
        [one.scores[0] for one in found],
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("workers", "batch_tokens"), [(1, 1), (1, 100_000), (2, 60), (3, 24)]
)
def test_batches_and_workers(litert, pairs, workers, batch_tokens):
    texts = [*pairs, *ODD, *reversed(pairs)]
    found = litert.translate(texts, batch_tokens=batch_tokens, workers=workers)
    assert_same(found, litert.translate(texts))


def test_records_are_plain_python_values(litert):
    found = litert.translate("cat")
    assert [type(text) for text in found.texts] == [str] * 3
    assert [type(score) for score in found.scores] == [float] * 3
    assert found.source_truncated is False and found.at_length_limit is False
    assert list(map(type, litert.score("a", "b"))) == [*[float] * 3, int]


# === Threads ===


def test_eight_threads_use_one_translator(folder, pairs):
    shared = kt.open_translator(folder)
    texts = list(pairs)
    start = threading.Barrier(8)

    def translate(number):
        start.wait(timeout=60)
        found = []
        for workers in (1, 2, 1, 3):
            own = shared.translate(
                texts[number::8], batch_tokens=20, workers=workers
            )
            found.append([one.texts[0] for one in own])
        return found

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(translate, range(8)))
    for number, found in enumerate(results):
        assert found == [list(pairs.values())[number::8]] * 4


MEMORY = Path("/proc/self/statm")
RESIDENT = """
import json, os, pathlib, sys
import keras_transformer as kt

translator = kt.open_translator(sys.argv[1])
texts = json.load(sys.stdin)
for _ in range(10):
    translator.translate(texts, workers=2)
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    print(int(pages) * os.sysconf("SC_PAGE_SIZE"))
"""


@pytest.mark.slow
@pytest.mark.skipif(not MEMORY.exists(), reason="needs Linux")
def test_memory_is_flat(folder, pairs):
    texts = [*pairs, *ODD[:20], "a long text " * 20] * 23  # 1,035
    # A process of its own: the memory of this one depends on other tests.
    process = subprocess.run(
        [sys.executable, "-c", RESIDENT, folder],
        input=json.dumps(texts),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    sizes = [int(line) for line in process.stdout.split()]
    assert len(texts) * len(sizes) > 10_000
    assert max(sizes[2:]) - sizes[1] < 20e6


# === Arguments ===


@pytest.mark.parametrize(
    ("search", "n", "message"),
    [
        (kt.BeamSearch(5), 1, "beam_size=5"),
        (kt.BeamSearch(no_repeat_ngram=2), 1, "no_repeat_ngram=2"),
        (kt.Sampling(), 1, "Sampling"),
        (None, 5, "num_translations=5"),
        (kt.BeamSearch(1), 2, "num_translations=2"),
        (None, 0, "num_translations=0"),
    ],
)
def test_searches_that_are_not_possible(folder, search, n, message):
    with pytest.raises(InputError, match=message):
        kt.open_translator(folder, search=search, num_translations=n)


@pytest.mark.parametrize("count", [0, -1, 1.0, True])
def test_invalid_numbers_of_threads(folder, count):
    with pytest.raises(InputError, match=f"threads={count}"):
        kt.open_translator(folder, threads=count)
