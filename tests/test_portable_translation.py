"""A translator finds the same on every backend of Keras.

As a program, it prints the translations of the backend in KERAS_BACKEND.
"""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from documents import ROOT, blocks

import keras_transformer as kt
from keras_transformer.inference import keras_engine

COUNT = 100
NO_TENSORFLOW = "import sys\nsys.modules['tensorflow'] = None\n"


def translate():
    """Returns `[texts, scores]` of sentences, and log P of some pairs."""
    folder = ROOT / "train/data/demo"
    lines = (folder / "train.en").read_text("utf-8").splitlines()
    tokenizer = kt.Tokenizer.train(lines[:1000], vocab_size=400)
    config = kt.TransformerConfig(
        **dict(num_layers=1, d_model=16, d_ff=24, num_heads=2, max_length=40),
        vocab_size=tokenizer.vocab_size,
    )
    model = kt.Transformer(config)
    generator = np.random.default_rng(1)
    for weight in model.weights:
        if len(weight.shape) == 2:
            weight.assign(generator.normal(0, 0.3, weight.shape))
    search = kt.BeamSearch(2, length_factor=0.0, extra_length=5)
    translator = kt.Translator(model, tokenizer, search, num_translations=2)
    translator.max_batch_size = COUNT  # JAX compiles for each shape
    sources = sorted(dict.fromkeys(lines), key=len)[:COUNT]
    found = translator.translate(sources, batch_tokens=10_000)
    scored = translator.score(sources[:9], sources[1:10])
    return [[x.texts, x.scores] for x in found], [x.log_prob for x in scored]


def run_python(*arguments, **environment):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests/helpers")])
    process = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return process.stdout.strip()


def test_translations_are_those_of_graphs_on_tensorflow(monkeypatch):
    if keras.backend.backend() == "tensorflow":
        expected = translate()
        monkeypatch.setattr(
            "keras_transformer.inference.graph_engine.GraphEngine",
            keras_engine.KerasEngine,
        )
    else:
        output = run_python(__file__, KERAS_BACKEND="tensorflow")
        expected = json.loads(output)
    (found, log_probs), (graphs, graph_log_probs) = translate(), expected
    texts, scores = zip(*found, strict=True)
    assert len({best for best, _ in texts}) > 20
    assert list(texts) == [x for x, _ in graphs]
    np.testing.assert_allclose(scores, [y for _, y in graphs], rtol=1e-4)
    np.testing.assert_allclose(log_probs, graph_log_probs, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="runs on JAX, once"
)
def test_the_whole_way_on_jax_without_tensorflow():
    programs = blocks("docs/layers.md", "python")
    (program,) = [x for x in programs if "KERAS_BACKEND" in x]
    *_, expected = program.strip().splitlines()
    fast = dict(JAX_PLATFORMS="cpu", JAX_DISABLE_MOST_OPTIMIZATIONS="1")
    output = run_python("-c", NO_TENSORFLOW + program, **fast)
    assert f"# {output}" == expected


if __name__ == "__main__":
    print(json.dumps(translate()))
