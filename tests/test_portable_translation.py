"""A translator finds the same on every backend of Keras."""

import dataclasses
import os
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from documents import ROOT, blocks
from helpers import TENSORFLOW_ONLY, randomise, to_numpy
from padded_search import numpy_engine
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.text.ids import SpecialIds
from keras_transformer.weights import named_weights

NO_TENSORFLOW = "import sys\nsys.modules['tensorflow'] = None\n"


# What the search of a random model found on TensorFlow.
IDS = [
    [[7, 7, 7, 3], [7, 7, 11, 3]],
    [[19, 9, 9, 3], [9, 9, 9, 3]],
    [[9, 12, 3, 0], [27, 12, 3, 0]],
]
SCORES = [
    [-7.529797, -8.479033],
    [-7.498690, -7.581381],
    [-7.384917, -7.611927],
]


@pytest.fixture(scope="module")
def engine():
    config = kt.TransformerConfig(
        **dict(num_layers=1, d_model=16, d_ff=24, num_heads=2, max_length=70),
        vocab_size=30,
    )
    model = kt.Transformer(config)
    random = np.random.default_rng(1)
    for weight in model.weights:
        if len(weight.shape) == 2:
            weight.assign(random.normal(0, 0.3, weight.shape))
    values = dict(vocab_size=30, source_vocab_size=None)
    values |= dict(pad_id=0, bos_id=2, eos_id=3)
    tokenizer = SimpleNamespace(
        config_values=lambda: values,
        special_ids=SpecialIds(2, 3, 0, banned_ids=(0, 1, 2)),
    )
    return numpy_engine(model, tokenizer)


SOURCES = [[4, 5, 6, 3], [7, 8, 9, 10, 11, 3], [29, 3]]


def test_the_search_is_the_same_on_every_backend(engine):
    limits = np.array([4, 4, 3])
    found = engine.search(SOURCES, [[]] * 3, limits, kt.BeamSearch(2), 2)
    np.testing.assert_array_equal(found.ids, IDS)
    np.testing.assert_allclose(found.scores, SCORES, rtol=1e-4)


def test_hypotheses_outgrow_the_first_cache_and_sentences_leave(engine):
    """Their scores are those of forced decoding, and of each one alone."""
    search = kt.BeamSearch(2, alpha=0.0)
    sources = SOURCES * 4
    prefixes = [np.arange(4, 4 + n % 26).tolist() for n in range(12)]
    prefixes[5] = [7, 9, 11] * 12
    limits = np.array([len(prefix) + 2 for prefix in prefixes])
    found = engine.search(sources, prefixes, limits, search, 1)
    lengths = found.lengths[:, 0]
    assert max(lengths) > 34
    targets = [ids[0, :n] for ids, n in zip(found.ids, lengths, strict=True)]
    log_probs = engine.log_probs(sources, targets)
    np.testing.assert_allclose(log_probs, found.scores[:, 0], rtol=1e-4)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="it compiles")
def test_few_shapes_are_compiled(engine):
    import jax

    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: (
            compiled.append(event)
            if event.endswith("backend_compile_duration")
            else None
        )
    )
    limits = np.arange(20, 40)
    for count in (20, 17, 9):  # the batches shrink to 8
        sources = [*SOURCES * 7][:count]
        nothing = [[]] * count
        engine.search(sources, nothing, limits[:count], kt.BeamSearch(3), 1)
    # A start; steps of two batches with two rooms, and what changes these.
    assert 0 < len(compiled) <= 1 + 4 + 4
    compiled.clear()
    engine.search(SOURCES * 6, [[]] * 18, limits[:18], kt.BeamSearch(3), 1)
    assert not compiled


@pytest.mark.skipif(
    keras.config.backend() == "tensorflow", reason="see tests/export"
)
def test_exports_and_imports_without_tensorflow(tmp_path, monkeypatch):
    """Every export compares its scores with the translator's."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    texts = ["A dog.", "A cat.", "Ein Hund."]
    tokenizer = kt.Tokenizer.train(texts * 9, vocab_size=280)
    search = kt.BeamSearch(1, length_factor=0, extra_length=2)
    fields = dict(num_layers=1, position_layout="halves")  # as in Marian
    translator = random_translator(tokenizer, search, **fields)
    kt.export.save_ctranslate2(translator, tmp_path / "ct2", dtype="bfloat16")
    folder = kt.export.save_huggingface(translator, tmp_path / "marian")
    back = kt.convert.read(folder).save_run(tmp_path / "run")
    weights = named_weights(translator.model)
    for name, value in named_weights(back.load_model()).items():
        if name in weights:  # Marian has all biases
            np.testing.assert_allclose(
                to_numpy(value), to_numpy(weights[name]), atol=1e-6
            )


TOKENIZER = kt.Tokenizer.train(["a cat", "die Katze"], 280, tags=["<bt>"])
SIZES = dict(vocab_size=TOKENIZER.vocab_size, max_length=9, num_layers=1)


def test_what_is_saved_is_opened(tmp_path):
    model = kt.Transformer.from_preset("tiny", **SIZES)
    randomise(model)
    search = kt.BeamSearch(2, extra_length=3)
    translator = kt.Translator(model, TOKENIZER.with_tag("bt"), search)
    translator.languages = ("en", "de")
    translator.save(tmp_path / "a")
    opened = kt.open_translator(tmp_path / "a")
    assert opened.translate("a cat") == translator.translate("a cat")
    assert opened.search == search and opened.languages == ("en", "de")
    again = kt.Transformer.from_preset(tmp_path / "a", dropout=0.3)
    assert again.config == dataclasses.replace(model.config, dropout=0.3)
    for ours, theirs in zip(again.weights, model.weights, strict=True):
        np.testing.assert_array_equal(to_numpy(ours), to_numpy(theirs))
    with pytest.raises(kt.InputError, match="d_model"):
        kt.Transformer.from_preset(tmp_path / "a", d_model=8)
    with pytest.raises(kt.InputError, match="already contains a run"):
        translator.save(tmp_path / "a")


class Subclass(kt.Transformer):
    pass


@pytest.mark.parametrize("change", ("two", "samples", "quantized", "subclass"))
def test_what_cannot_be_saved(tmp_path, change):
    cls = Subclass if change == "subclass" else kt.Transformer
    model = cls.from_preset("tiny", **SIZES)
    if change == "quantized":
        model.decoder.layers[0].feed_forward.inner.quantize("int8")
    models = [model] * (1 + (change == "two"))
    search = kt.Sampling() if change == "samples" else kt.BeamSearch()
    with pytest.raises(kt.InputError, match="Received: "):
        kt.Translator(models, TOKENIZER, search).save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


@TENSORFLOW_ONLY  # it is a program on JAX
@pytest.mark.slow
def test_the_whole_way_on_jax_without_tensorflow():
    programs = blocks("docs/layers.md", "python")
    (program,) = [x for x in programs if "KERAS_BACKEND" in x]
    *_, expected = program.strip().splitlines()
    fast = dict(JAX_PLATFORMS="cpu", JAX_DISABLE_MOST_OPTIMIZATIONS="1")
    output = subprocess.check_output(
        [sys.executable, "-c", NO_TENSORFLOW + program],
        env={**os.environ, "PYTHONPATH": str(ROOT), **fast},
        text=True,
    )
    assert f"# {output.strip()}" == expected


@pytest.mark.slow
def test_batches_of_tf_data():
    programs = blocks("docs/layers.md", "python")
    (program,) = [x for x in programs if "padded_batch" in x]
    for old, new in (
        ("epochs=5", "epochs=2, steps_per_epoch=10, verbose=0"),
        ('"tiny", vocab_size=2000', '"tiny", vocab_size=2000, num_layers=1'),
        # One shape, as the page advises for JAX.
        (
            "padded_batch(64)",
            "padded_batch(16, ({'source': [64], 'target': [64]}, [64]))",
        ),
    ):
        assert program.count(old) == 1
        program = program.replace(old, new)
    names = {}
    exec(program, names)
    first, last = names["model"].history.history["loss"]
    assert first < 8.5 and last < first - 0.1  # log(2000) = 7.6
    tokenizer, dataset = names["tokenizer"], names["dataset"]
    inputs, labels = next(dataset.padded_batch(1).as_numpy_iterator())
    (source,), (target,), (label,) = inputs["source"], inputs["target"], labels
    assert (target[0], *label[:-1]) == (tokenizer.bos_id, *target[1:])
    assert source[-1] == label[-1] == tokenizer.eos_id
    pair = next(iter(names["corpus"].pairs("train")))
    ids = source[:-1].tolist(), target[1:].tolist()
    assert tuple(map(tokenizer.decode, ids)) == pair
