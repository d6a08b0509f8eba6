"""The graphs of LiteRT give the results of the model."""

import numpy as np
import pytest
from random_models import random_translator

import keras_transformer as kt
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.export import save_litert

TEXTS = [
    "The good house sleeps.",
    "dog",
    "",
    "The red cat and the old tree. " * 3,  # is cut
    "A text with unseen words and numbers: 12,345!",
]
# Together with tests/test_litert_specification.py they cover every field.
VARIANTS = {
    "marian": dict(
        attention_bias=True,
        output_bias=True,
        activation="swish",
        position_layout="halves",
        position_endpoint=True,
        position_offset=2,
        embedding_scale=1.0,
        d_k=3,
        d_v=5,
    ),
    "pre-norm": dict(
        num_layers=1,
        norm_first=True,
        activation="gelu",
        layer_norm_epsilon=0.5,
        positional_encoding="learned",
        decoder_layers=2,
        decoder_heads=4,
        decoder_d_ff=6,
        tied_embeddings="inputs",
    ),
}


def random_model(tokenizer, **fields):
    return random_translator(tokenizer, **fields).model


def check(models, tokenizer, path, alpha=0.6):
    """Compares n-best lists and the scores of given translations."""
    search = kt.BeamSearch(4, alpha=alpha)
    expected = kt.Translator(models, tokenizer, search, 4)
    found = kt.open_translator(save_litert(expected, path))
    for ours, theirs in zip(
        found.translate(TEXTS), expected.translate(TEXTS), strict=True
    ):
        assert ours.texts == theirs.texts and ours[2:] == theirs[2:]
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-4)
    if found.max_length > 20:
        pairs = TEXTS[:3], ["Hund", "The cat.", "Baum"]
        np.testing.assert_allclose(
            found.score(*pairs), expected.score(*pairs), rtol=1e-4
        )


def test_pre_norm(tokenizer, tmp_path):
    model = random_model(tokenizer, **VARIANTS["pre-norm"])
    check(model, tokenizer, tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        dict(num_heads=1, d_k=5, output_bias=True),
        dict(tied_embeddings="target", attention_window=3),
        dict(max_length=1),
    ],
    ids=str,
)
def test_more_configurations(tokenizer, tmp_path, fields):
    model = random_model(tokenizer, **{"num_layers": 1} | fields)
    check(model, tokenizer, tmp_path / "model")


def test_separate_vocabularies(tokenizer, tmp_path):
    """With a prime size, so without blocks, and sources without end tokens."""
    pieces = tokenizer.pieces(range(4, tokenizer.vocab_size))
    special = ["<pad>", "</s>", "<unk>"]
    names = ([*pieces, ">>deu<<"], pieces[::-1][:304])
    tables = [
        {piece: i for i, piece in enumerate([*special, *rest])}
        for rest in names
    ]
    specials = SpecialPieces(eos="<pad>"), SpecialPieces()
    model = tokenizer.target.model
    source, target = (
        vocabulary_with_ids(model, table, special)
        for table, special in zip(tables, specials, strict=True)
    )
    vocabulary = make_tokenizer(source, target).translating_to("deu")
    assert vocabulary.vocab_size == 307
    fields = VARIANTS["marian"] | dict(num_layers=1, tied_embeddings="none")
    model = random_model(vocabulary, **fields)
    check(model, vocabulary, tmp_path / "model", alpha=0.0)


@pytest.mark.slow
def test_an_ensemble_of_different_sizes(tokenizer, tmp_path):
    models = [
        random_model(tokenizer, max_length=20, num_layers=1),
        random_model(tokenizer, d_model=12, num_heads=3, norm_first=True),
    ]
    check(models, tokenizer, tmp_path / "model")
