"""Fixtures: a small trained model, its translator and its export.

`tests/conftest.py` imports them, so that all test files share one training.
Tests must not change the folders.
"""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_transformer as kt
from keras_transformer.support.files import locked

ADJECTIVES = {"red": "rote", "small": "kleine", "old": "alte", "good": "gute"}
NOUNS = {"dog": "Hund", "cat": "Katze", "house": "Haus", "tree": "Baum"}
PAIRS = {
    **{
        f"The {a} {n} sleeps.": f"{NOUNS[n]} schläft, der {ADJECTIVES[a]}."
        for a in ADJECTIVES
        for n in NOUNS
    },
    **NOUNS,
    **ADJECTIVES,
}


@pytest.fixture(scope="session")
def pairs():
    """`{source: target}` of the training set; the model has learned all."""
    return PAIRS


@pytest.fixture(scope="session")
def tokenizer():
    return kt.Tokenizer.train([*PAIRS, *PAIRS.values()], vocab_size=330)


@pytest.fixture(scope="session")
def model(tokenizer, tmp_path_factory):
    model = kt.Transformer(
        kt.TransformerConfig(
            vocab_size=tokenizer.vocab_size,
            num_layers=1,
            d_model=64,
            d_ff=128,
            num_heads=4,
            dropout=0.0,
            max_length=24,
        ),
        dtype="float32",
    )

    def train(path):
        keras.utils.set_random_seed(0)
        trained = kt.Transformer(model.config, dtype="float32")
        fit(trained, tokenizer)
        trained.save_weights(path)

    model.load_weights(made_once(tmp_path_factory, "model.weights.h5", train))
    return model


def made_once(tmp_path_factory, name, make):
    """Returns the path of a file or folder that one process makes for all."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # all processes share it
    path = root / "made_once" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(root, wait=True, name=f"{path.name}.lock"):
        if not path.exists():
            make(path)
    return path


def fit(model, tokenizer):
    """Trains a model until it has learned all pairs."""
    source = with_end(tokenizer, PAIRS)
    labels = with_end(tokenizer, PAIRS.values())
    target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    model.compile(
        keras.optimizers.Adam(5e-3),
        kt.LabelSmoothedCrossEntropy(0.1),
        jit_compile=False,  # compiling takes longer than training
    )
    batch = ({"source": source, "target": target}, labels)
    # 80 steps in one epoch: each epoch costs as much as several steps.
    batches = tf.data.Dataset.from_tensors(batch).repeat(80)
    model.fit(batches, shuffle=False, verbose=0)


def with_end(tokenizer, texts):
    ids = tokenizer.encode(texts)
    width = max(map(len, ids)) + 1
    return np.array([[*row, 3, *[0] * (width - len(row) - 1)] for row in ids])


@pytest.fixture(scope="session")
def translator(model, tokenizer):
    """Returns the 3 best translations of a beam of 4."""
    search = kt.BeamSearch(beam_size=4, alpha=0.6, extra_length=12)
    return kt.Translator(model, tokenizer, search, num_translations=3)


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    """The folder of the translator's SavedModel, with three signatures."""
    return made_once(
        tmp_path_factory,
        "saved-model/en-de/1",
        lambda path: kt.export.save(translator, path, ["translate_prefix"]),
    )


@pytest.fixture(scope="session")
def litert_folder(translator, tmp_path_factory):
    """The folder of the translator's export for LiteRT, in float32."""
    return made_once(
        tmp_path_factory,
        "litert/English – Deutsch",
        lambda path: kt.export.save_litert(translator, path),
    )
