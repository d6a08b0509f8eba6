"""A parser as a SavedModel: a sentence in, a bracketed tree out."""

import json

import pytest
import tensorflow as tf
from generated_treebank import write_treebank

import keras_transformer as kt
from keras_transformer.export.saved_model.exported_signatures import (
    SIGNATURES,
    Signatures,
)
from keras_transformer.export.saved_model.to_saved_model import METADATA_FILE
from keras_transformer.tasks import ParsingTask
from keras_transformer.tasks.parsing import Tree
from keras_transformer.train import open_corpus


@pytest.fixture(scope="module")
def parser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebank")
    write_treebank(folder, train=100)
    pairs = open_corpus([str(folder)]).pairs("train")
    tokenizer = ParsingTask().train_tokenizer(pairs, 350)
    config = kt.TransformerConfig.from_preset(
        "tiny",
        vocab_size=tokenizer.vocab_size,
        num_layers=1,
        d_model=16,
        d_ff=16,
        num_heads=2,
        max_length=32,
    )
    search = kt.BeamSearch(beam_size=3, alpha=0.3, extra_length=4)
    model = kt.Transformer(config)
    return kt.Translator(model, tokenizer, search, 2, ParsingTask())


def test_signatures_are_those_of_trees(parser):
    module = Signatures(parser)
    assert set(SIGNATURES) - set(module.names) == {
        "translate_prefix",
        "score",
        "detokenize",
    }
    with pytest.raises(kt.InputError, match="Received: .*detokenize"):
        module.make(["serving_default", "detokenize"])


@pytest.mark.slow
def test_a_sentence_becomes_a_tree(parser, tmp_path):
    names = ["serving_default", "tokenize"]
    path = kt.export.save(parser, tmp_path / "1", include=names)
    model = tf.saved_model.load(path)
    text = ["The dog can't see (it).", ""]
    outputs = model.signatures["serving_default"](text=tf.constant(text))
    found = [[t.decode() for t in row] for row in outputs["trees"].numpy()]
    expected = parser.translate(text)
    assert found == [translation.texts for translation in expected]
    words = "The dog ca n't see -LRB- it -RRB- .".split()
    assert [Tree.from_string(tree).words for tree in found[0]] == [words, words]
    assert found[1] == ["", ""]
    repaired = outputs["repaired"].numpy().tolist()
    assert repaired == [expected[0].repaired, False] == [True, False]
    metadata = json.loads((path / METADATA_FILE).read_text())
    assert metadata["oldest_tensorflow_serving"] == "2.12"

    # The pieces are what the model reads.
    outputs = model.signatures["tokenize"](text=tf.constant(text))
    ids = parser.pipeline.source_ids(tf.constant(text[:1]))
    pieces = parser.tokenizer.pieces(ids[0].numpy())
    assert outputs["pieces"].numpy()[0].decode().split() == pieces
