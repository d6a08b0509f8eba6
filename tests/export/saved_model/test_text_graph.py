"""Tokenization in a graph gives the results of Python."""

import gc
import itertools
import random

import numpy as np
import pytest
import tensorflow as tf
from pieces import demo_lines
from random_models import table_vocabulary
from tokenizer_texts import CORPUS, sentencepiece_model

from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    vocabulary_with_ids,
)
from keras_transformer.export.saved_model.text_graph import TextGraph
from keras_transformer.text import Tokenizer, Vocabulary
from keras_transformer.text.normalization import without_blank

TAGS = ["<bt>", ">>fra<<", ">>deu<<"]
# Spaces, controls, marks and tags, on which implementations tend to disagree.
_PARTS = (
    *" \t\n\v\f\r\0\x1c\x7f\x85\xa0\xad\u061c\u1680\u180e\u2003\u200b\u200d",
    *"\u2028\u202e\u202f\u205f\u2060\u2581\u3000\ufe0f\ufeff\ufffd\uffff",
    *"´’‘„—‑−…ﬀＡ１½²⁶㎡ｶﾞ①19",
    "1²³½⁶",
    *"\U0001f468\U0001f9a9\U0010ffff\u0301\u0323\u0345é½ﬁＡ猫قक",
    *TAGS,
    *(
        " >>deu<< ",
        "<bt>>>fra<<",
        ">>xx<<",
        ">>a b<<",
        ">>",
        "<<",
        "<s>",
        "</s>",
        "<unk>",
    ),
    *("<pad>", "<0xFF>", "<end of ids>", "A man", " dog", "Häuser.", "e\u0301"),
    *("👩\u200d👩\u200d👧", "🇩🇪", "x" * 90, "ÄÖÜ" * 20, "\u0301" * 30),
)


def lines():
    """Returns 4,000 lines: of the demo corpus, blank and odd ones."""
    generator = random.Random(0)
    real = [*demo_lines("train.en", 600), *demo_lines("train.de", 600)]
    blank = map("".join, itertools.product(_PARTS[:30], repeat=2))
    odd = [
        "".join(generator.choices(_PARTS, k=generator.randrange(9)))
        for _ in range(4_000)
    ]
    return [*real, *blank, "", *odd][:4_000]


LINES = lines()


@pytest.fixture(scope="module")
def ours():
    return Tokenizer.train(CORPUS, 360, tags=TAGS)


def tagged(ours):
    return ours.translating_to("fra").with_tag("bt")


def two_models(ours):
    ids = dict(pad_id=0, unk_id=1, bos_id=2, eos_id=3)
    models = [
        sentencepiece_model(CORPUS[::2], 45, **ids),
        sentencepiece_model(
            *(CORPUS[1::2], 340), model_type="bpe", byte_fallback=True, **ids
        ),
    ]
    return Tokenizer(*map(Vocabulary, models))


def imported_without_bytes(ours):
    model = sentencepiece_model(CORPUS, 75)
    names = ["▁m", "</s>", "<unk>", "猫", "<pad>", "▁dogs", "a", "▁", "ä", "b"]
    table = {name: i for i, name in enumerate(names)}
    return Tokenizer(vocabulary_with_ids(model, table, SpecialPieces()))


VOCABULARIES = {
    "trained": lambda ours: ours,
    "trained with a tag": lambda ours: ours.with_tag("bt"),
    "trained with a tag and a language": tagged,
    "two SentencePiece models": two_models,
    "imported": imported_without_bytes,
    "imported with languages": table_vocabulary,
    "imported pair": lambda ours: table_vocabulary(ours, True, "<pad>"),
}


@pytest.fixture(scope="module", params=VOCABULARIES)
def tokenizer(request, ours):
    return VOCABULARIES[request.param](ours)


@pytest.fixture(scope="module")
def graph(tokenizer):
    return TextGraph(tokenizer)


def decoded(texts):
    return [text.decode() for text in texts.numpy().tolist()]


def test_ids_and_texts(tokenizer, graph):
    text = tf.constant(LINES)
    sources = tokenizer.encode_sources(without_blank(LINES))
    assert tf.function(graph.source_ids)(text).to_list() == sources
    targets = tokenizer.encode_targets(LINES)
    in_graph = tf.function(graph.target_ids)(text)
    assert in_graph.to_list() == targets
    largest = max(i for row in sources + targets for i in row)
    assert largest < max(tokenizer.vocab_size, tokenizer.source.vocab_size)
    back = decoded(graph.texts(in_graph.to_tensor(tokenizer.pad_id)))
    assert back == list(map(tokenizer.decode, targets))


def test_texts_of_any_ids(tokenizer, graph):
    """Ends, padding, bytes, and ids beyond the vocabulary."""
    size = tokenizer.vocab_size
    ids = np.random.default_rng(0).integers(-2, size + 2, [1000, 7])
    ids[0] = tokenizer.eos_id
    alone = np.arange(size)[:, None]
    for rows in (ids, alone):
        found = decoded(graph.texts(tf.constant(rows, tf.int32)))
        assert found == list(map(tokenizer.decode, rows))
        assert not any("\ufffd" in text for text in found)


def test_leading_dimensions(tokenizer, graph):
    ids = graph.target_ids(tf.constant(CORPUS[:6])).to_tensor()
    cube = tf.reshape(ids, [3, 2, -1])
    flat = graph.texts(ids).numpy().tolist()
    assert graph.texts(cube).numpy().tolist() == [flat[:2], flat[2:4], flat[4:]]
    assert graph.texts(tf.zeros([2, 0], tf.int32)).shape == [2]
    assert graph.texts(tf.zeros([0, 7], tf.int32)).shape == [0]


def test_joined_pieces(tokenizer, graph):
    pad = tokenizer.pad_id
    rows = [[5, pad], [6, 7], [pad, pad]]
    expected = [" ".join(tokenizer.pieces(x)) for x in ([5], [6, 7], [])]
    joined = tf.function(graph.joined_pieces)(tf.constant(rows))
    assert decoded(joined) == expected


class RoundTrip(tf.Module):
    def __init__(self, tokenizer):
        self.text = TextGraph(tokenizer)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts):
        ids = self.text.target_ids(texts).to_tensor(self.text._tokenizer.pad_id)
        return {"ids": ids, "sources": self.text.source_ids(texts)}


def test_a_saved_model_keeps_its_resources(tokenizer, tmp_path):
    module = RoundTrip(tokenizer)
    tf.saved_model.save(module, str(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    loaded, other = (tf.saved_model.load(tmp_path / "b") for _ in range(2))
    # As when a server replaces a version.
    other(tf.constant(CORPUS))
    del other
    gc.collect(generation=2)
    # Deletes resources without a name.
    tf.random.set_seed(1)
    for call in (module, loaded):
        found = call(tf.constant(CORPUS))
        assert found["sources"].to_list() == tokenizer.encode_sources(CORPUS)
        assert found["ids"].shape[0] == len(CORPUS)
        assert call(tf.constant([], tf.string))["ids"].shape[0] == 0
