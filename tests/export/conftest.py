"""A small model that has learned a few sentences by heart, and its export."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding import BeamSearch
from keras_transformer.export import save
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.translator import Translator

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
MAX_LENGTH = 24


@pytest.fixture(scope="session")
def pairs():
    """`{source: target}`, what the model has learned."""
    return PAIRS


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer.train([*PAIRS, *PAIRS.values()], vocab_size=330)


def new_model(tokenizer, seed):
    keras.utils.set_random_seed(seed)
    return Transformer(
        TransformerConfig(
            vocab_size=tokenizer.vocab_size,
            num_layers=1,
            d_model=64,
            d_ff=128,
            num_heads=4,
            dropout=0.0,
            max_length=MAX_LENGTH,
        ),
        dtype="float32",  # whatever an earlier test has set
    )


@pytest.fixture(scope="session")
def untrained(tokenizer):
    return new_model(tokenizer, seed=1)


@pytest.fixture(scope="session")
def model(tokenizer):
    model = new_model(tokenizer, seed=0)
    source = with_end(tokenizer, PAIRS)
    labels = with_end(tokenizer, PAIRS.values())
    target = np.pad(labels[:, :-1], [(0, 0), (1, 0)], constant_values=2)
    model.compile(
        keras.optimizers.Adam(5e-3),
        LabelSmoothedCrossEntropy(0.1),
        jit_compile=False,  # compiling takes longer than training
    )
    inputs = {"source": source, "target": target}
    model.fit(inputs, labels, batch_size=len(PAIRS), epochs=80, verbose=0)
    return model


def with_end(tokenizer, texts):
    ids = tokenizer.tokenize(tf.constant(list(texts))).to_list()
    width = max(map(len, ids)) + 1
    return np.array([[*row, 3, *[0] * (width - len(row) - 1)] for row in ids])


@pytest.fixture(scope="session")
def translator(model, tokenizer):
    """Returns the three best of a beam of four."""
    search = BeamSearch(beam_size=4, alpha=0.6, extra_length=12)
    return Translator(model, tokenizer, search, num_translations=3)


@pytest.fixture(scope="session")
def exported(translator, tmp_path_factory):
    """The folder of `translator`'s SavedModel. To be read only."""
    return save(translator, tmp_path_factory.mktemp("models") / "en-de" / "1")
