"""The engine of LiteRT answers as the Keras models do."""

import json
import os
import shutil
import subprocess
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import assert_same_translations as assert_same
from padded_search import numpy_engine
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.decoding import numpy_search
from keras_transformer.support.errors import InputError

LONG = ("The red dog " * 4_167)[:50_000]
ODD = [*odd_texts(40), " \t\n ", LONG, "x" * 50_000]


@pytest.fixture(scope="module")
def litert(litert_folder):
    """Returns the 3 best translations, as the fixture `translator`."""
    return kt.open_translator(litert_folder)


@pytest.mark.parametrize(
    "search",
    [
        kt.BeamSearch(1, alpha=0.0, extra_length=0),
        kt.BeamSearch(3, alpha=5.0, extra_length=2**40),
    ],
)
def test_it_translates_as_the_model_does(
    search, litert_folder, model, tokenizer, pairs
):
    texts, n = [*pairs, *ODD], search.beam_size
    engine = numpy_engine(model, tokenizer)
    expected = kt.Translator(engine, tokenizer, search, n).translate(texts)
    opened = kt.open_translator(
        litert_folder, search=search, num_translations=n
    )
    assert_same(opened.translate(texts), expected)
    assert any(t.at_length_limit for t in expected)
    if n == 3:  # there is room for fewer tokens at first
        found = tokenizer.encode([t.texts[0] for t in expected])
        assert max(map(len, found)) == model.config.max_length - 1


def test_the_search_of_the_export_is_the_default(litert, translator):
    assert litert.search == translator.search != kt.BeamSearch()
    assert len(litert.translate("dog").texts) == 3


def test_the_search_stops_when_the_returned_texts_are_certain(
    litert_folder, monkeypatch
):
    counts, can_win = [], kt.BeamSearch.can_win

    def watch(self, log_probs, scores, count, *rest):
        counts.append(count)
        return can_win(self, log_probs, scores, count, *rest)

    monkeypatch.setattr(kt.BeamSearch, "can_win", watch)
    kt.open_translator(litert_folder, num_translations=2)("dog")
    assert set(counts) == {2}


def test_batches_and_workers(litert, pairs):
    texts = [*pairs, *ODD, *reversed(pairs)]
    found = litert.translate(texts, batch_tokens=24, workers=3)
    assert_same(found, litert.translate(texts))


def test_threads_share_a_translator(litert_folder, pairs):
    shared = kt.open_translator(litert_folder)
    texts = list(pairs)
    start = threading.Barrier(4)

    def translate(number):
        start.wait(timeout=60)
        found = []
        for workers in (1, 2, 1, 3):
            own = shared.translate(
                texts[number::4], batch_tokens=20, workers=workers
            )
            found.append([one.texts[0] for one in own])
        return found

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(translate, range(4)))
    for number, found in enumerate(results):
        assert found == [list(pairs.values())[number::4]] * 4


def test_an_error_does_not_spoil_the_next_translation(litert, monkeypatch):
    """Its traceback refers to the memory of the interpreter."""
    assert litert("dog") == "Hund"

    def fail(*_):
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt) as kept,
    ):
        patch.setattr(numpy_search._Search, "advance", fail)
        litert("dog")
    assert litert("dog") == "Hund"
    assert kept.tb is not None


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
@pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux")
def test_memory_is_flat(litert_folder, pairs):
    texts = [*pairs, *ODD[:20], "a long text " * 20] * 12
    # A process of its own: the memory of this one depends on other tests.
    process = subprocess.run(
        [sys.executable, "-c", RESIDENT, litert_folder],
        input=json.dumps(texts),
        stdout=subprocess.PIPE,
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        text=True,
        check=True,
    )
    sizes = [int(line) for line in process.stdout.split()]
    assert len(texts) * len(sizes) > 5_000
    assert max(sizes[2:]) - sizes[1] < 20e6


@pytest.mark.parametrize("count", [0, 1.0])
def test_invalid_numbers_of_threads(litert_folder, count):
    with pytest.raises(InputError, match=f"threads .*{count}"):
        kt.open_translator(litert_folder, threads=count)


@pytest.mark.parametrize(("threads", "workers"), [(3, 3), (32, 8)])
def test_recommended_workers(litert_folder, threads, workers):
    """Each has the model in memory."""
    translator = kt.open_translator(litert_folder, threads=threads)
    assert translator.recommended_workers == workers


# === Damage ===


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def replace_tokenizer(path):
    kt.Tokenizer.train(["a dog"], vocab_size=270).save_files(path.parent)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.tflite", flip_a_bit),
        ("model.tflite", cut),
        ("tokenizer.model", cut),
        ("tokenizer.model", Path.unlink),
        ("tokenizer.model", replace_tokenizer),
        ("tokenizer.json", cut),
        ("tokenizer.json", Path.unlink),
    ],
)
def test_damaged_files(litert_folder, tmp_path, name, damage):
    folder = shutil.copytree(litert_folder, tmp_path / "copy")
    damage(folder / name)
    with pytest.raises(InputError, match=name.partition(".")[0]):
        kt.open_translator(folder)


def test_the_extra_is_named_where_litert_is_missing(monkeypatch):
    def find_spec(name, *_):
        if name == "ai_edge_litert":
            raise ModuleNotFoundError(name, name=name)

    finder = types.SimpleNamespace(find_spec=find_spec)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    module = "keras_transformer.litert.interpreter"
    for name in list(sys.modules):
        if name == module or name.startswith("ai_edge_litert"):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"\.\[litert\]"):
        __import__(module)
