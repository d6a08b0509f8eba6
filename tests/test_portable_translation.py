"""A translator finds the same on every backend of Keras."""

import dataclasses
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from documents import ROOT, blocks
from helpers import TENSORFLOW_ONLY, randomise, to_numpy
from padded_search import numpy_engine

import keras_transformer as kt
from keras_transformer.text.ids import SpecialIds

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


def test_the_search_is_the_same_on_every_backend():
    config = kt.TransformerConfig(
        **dict(num_layers=1, d_model=16, d_ff=24, num_heads=2, max_length=9),
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
    engine = numpy_engine(model, tokenizer)
    sources = [[4, 5, 6, 3], [7, 8, 9, 10, 11, 3], [29, 3]]
    limits = np.array([4, 4, 3])
    found = engine.search(sources, [[]] * 3, limits, kt.BeamSearch(2), 2)
    np.testing.assert_array_equal(found.ids, IDS)
    np.testing.assert_allclose(found.scores, SCORES, rtol=1e-4)
    # Forced decoding gives the same.
    targets = [row[0].tolist() for row in found.ids]
    penalty = ((5 + found.lengths[:, 0]) / 6) ** 0.6
    np.testing.assert_allclose(
        engine.log_probs(sources, targets) / penalty, found.scores[:, 0], 1e-4
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
        ('"tiny", 2000', '"tiny", 2000, num_layers=1'),
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
