"""What all vocabularies do, by a `Tokenizer`: texts, words, files."""

import pytest
import tensorflow as tf
from tokenizer_texts import CORPUS

from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, open_vocabulary
from keras_transformer.text.lookup_vocabulary import LookupVocabulary
from keras_transformer.text.normalization import SOURCE_MARK


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(CORPUS, vocab_size=340)


def decoded(texts):
    return [text.decode("utf-8") for text in texts.numpy()]


def test_detokenize_stops_at_the_end_and_removes_padding_and_start(tokenizer):
    a, b = (
        tokenizer.tokenize(tf.constant([w]))[0].numpy().tolist()
        for w in ("man", "dog")
    )
    rows = [
        [2, *a, 3, *b, 3],
        [0, *a, 0, *b, 0],
        [3, *a],
        [2, 0, 0],
        [*a, tokenizer.vocab_size, -1, 3],
    ]
    ids = tf.ragged.constant(rows)
    texts = ["man", "man dog", "", "", "man ⁇  ⁇ "]
    assert decoded(tokenizer.detokenize(ids)) == texts
    assert decoded(tokenizer.detokenize(ids.to_tensor())) == texts
    assert decoded(tokenizer.detokenize(tf.cast(ids, tf.int64))) == texts


def test_detokenize_keeps_leading_dimensions(tokenizer):
    ids = tokenizer.tokenize(tf.constant(CORPUS[:6])).to_tensor()
    cube = tf.reshape(ids, [3, 2, -1])
    assert tokenizer.detokenize(cube).numpy().tolist() == [
        [CORPUS[2 * i].encode(), CORPUS[2 * i + 1].encode()] for i in range(3)
    ]
    assert tokenizer.detokenize(tf.zeros([2, 0], tf.int32)).shape == [2]
    assert tokenizer.detokenize(tf.zeros([0, 7], tf.int32)).shape == [0]
    nested = tf.ragged.stack([ids[:1], ids[:2]])
    assert tokenizer.detokenize(nested).to_list() == [
        [CORPUS[0].encode()],
        [CORPUS[0].encode(), CORPUS[1].encode()],
    ]


def test_words_of_pieces(tokenizer):
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = [tokenizer.bos_id, *map(pieces.index, ("▁", "d", "o", "▁", "a"))]
    ids = [*ids, tokenizer.eos_id, pieces.index("b")]
    assert tokenizer.words(ids) == [[0], [1, 2, 3], [4, 5], [6], [7]]
    assert tokenizer.words([]) == []


def test_a_folder_with_one_file(tokenizer, tmp_path):
    tokenizer.save_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.model"]
    assert open_vocabulary(tmp_path).model == tokenizer.model
    with pytest.raises(InputError, match="tokenizer.model"):
        open_vocabulary(tmp_path / "missing")


def test_sources_of_new_tokenizers_are_normalized_and_targets_are_kept(
    tokenizer, tmp_path
):
    texts = ["a\u00a0man\u202f–\u3000tea\u00adcher\0", "\u200b \u00a0", "a"]
    plain = ["a man – teacher", "", "a"]
    ids = tokenizer.encode_sources(texts)
    assert ids == tokenizer.encode(plain)
    assert ids == tokenizer.tokenize_sources(tf.constant(texts)).to_list()
    ids = tokenizer.encode_targets(texts)
    assert ids == tokenizer.encode([texts[0], "", "a"])
    assert ids == tokenizer.tokenize_targets(tf.constant(texts)).to_list()
    assert tokenizer.decode(ids[0]) == texts[0]
    # One without the mark reads what is there.
    earlier = Tokenizer(tokenizer.model.removesuffix(SOURCE_MARK))
    assert not earlier.normalizes_sources
    raw = tokenizer.encode(texts)
    assert earlier.encode_sources(texts) == earlier.encode_targets(texts) == raw
    assert earlier.tokenize_sources(tf.constant(texts)).to_list() == raw
    assert earlier.tokenize_targets(tf.constant(texts)).to_list() == raw
    earlier.save_files(tmp_path)
    assert not open_vocabulary(tmp_path).normalizes_sources
    tokenizer.save_files(tmp_path)
    assert open_vocabulary(tmp_path).normalizes_sources


def test_joined_pieces(tokenizer):
    pieces = {piece: i for i, piece in enumerate(tokenizer.pieces(range(340)))}
    table = LookupVocabulary(tokenizer.model, pieces | {"<pad>": 0})
    for vocabulary in (tokenizer, table):
        joined = tf.function(vocabulary.joined_pieces)
        ids = tf.constant([[300, 0], [301, 302]])
        expected = [" ".join(vocabulary.pieces(x)) for x in ([300], [301, 302])]
        assert decoded(joined(ids)) == expected
