"""A SavedModel, loaded signature by signature, computes what it always does."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

from keras_transformer.inference.saved_graph import SavedGraph
from keras_transformer.support.errors import InputError

TEXTS = ["The good house sleeps.", "dog", "", "The red\0cat 🙂 sleeps.", "dog"]


def test_outputs_are_those_of_the_whole_model(exported):
    whole = tf.saved_model.load(exported)
    texts = np.array([text.encode() for text in TEXTS], object)
    signatures = SavedGraph(exported).signatures()
    assert signatures.keys() == whole.signatures.keys()
    for name in ("serving_default", "greedy"):
        expected = whole.signatures[name](text=tf.constant(texts))
        outputs = signatures[name].call({"text": texts})
        assert outputs.keys() == expected.keys()
        assert signatures[name].outputs().keys() == expected.keys()
        for key, values in expected.items():
            assert outputs[key].dtype == values.numpy().dtype
            assert outputs[key].tolist() == values.numpy().tolist()


def test_a_signature_is_loaded_when_it_is_called(exported):
    graph = SavedGraph(exported)
    signature = graph.signatures()["detokenize"]
    operations = graph._session.graph.get_operations
    assert not [x for x in operations() if x.name.startswith("detokenize/")]
    empty = np.zeros([0], object)
    assert signature.call({"pieces": empty})["text"].tolist() == []
    names = [x.name for x in operations()]
    assert "detokenize/detokenize_pieces" in names
    assert not [x for x in names if x.startswith("greedy/")]
    signature.call({"pieces": empty})
    assert len(operations()) == len(names)
    with pytest.raises(InputError, match="Cannot feed value of shape"):
        signature.call({"pieces": np.zeros([1, 2], object)})


IMPORTS = """
import json, sys

from keras_transformer.cli import main

assert main(sys.argv[1:]) == 0
packages = {name.split(".")[0] for name in sys.modules}
print(json.dumps(sorted(packages)))
"""


def test_a_command_imports_no_package_in_vain(exported):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, "translate", exported],
        input="dog\n",
        capture_output=True,
        text=True,
        check=True,
    )
    packages = json.loads(done.stdout.splitlines()[-1])
    assert "tensorflow" in packages
    unneeded = {"keras", "tensorflow_text", "jax", "matplotlib", "scipy"}
    assert not unneeded.intersection(packages)
