"""A translator finds the same on every backend of Keras."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import translate_portably
from documents import ROOT, blocks

from keras_transformer.inference import keras_engine

PACKAGE = "keras_transformer.inference"
NO_TENSORFLOW = "import sys\nsys.modules['tensorflow'] = None\n"


def translate_on_tensorflow():
    script = ROOT / "tests/helpers/translate_portably.py"
    environment = {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(process.stdout)


def test_translations_are_those_of_graphs_on_tensorflow(monkeypatch):
    if keras.backend.backend() == "tensorflow":
        expected = translate_portably.translate()
        engine = keras_engine.KerasEngine
        monkeypatch.setattr(f"{PACKAGE}.graph_engine.GraphEngine", engine)
    else:
        expected = translate_on_tensorflow()
    found = translate_portably.translate()
    texts, scores = zip(*found[0], strict=True)
    assert len(texts) == translate_portably.COUNT
    assert len({best for best, _ in texts}) > 40
    assert list(texts) == [x for x, _ in expected[0]]
    np.testing.assert_allclose(scores, [y for _, y in expected[0]], rtol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)


@pytest.mark.slow
def test_the_whole_way_on_jax_without_tensorflow():
    programs = blocks("docs/layers.md", "python")
    (program,) = [x for x in programs if "KERAS_BACKEND" in x]
    *_, expected = program.strip().splitlines()
    process = subprocess.run(
        [sys.executable, "-c", f"{NO_TENSORFLOW}{program}"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert f"# {process.stdout.strip()}" == expected
