"""The tokenizer: lossless, equal in the graph, with clear messages."""

import pytest
import sentencepiece
import tensorflow as tf
from tokenizer_texts import CORPUS, LOSSLESS, odd_ids, odd_texts

from keras_transformer.support.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(CORPUS, vocab_size=340)


def decoded(texts):
    return [text.decode("utf-8") for text in texts.numpy()]


def test_special_ids_and_size(tokenizer):
    ids = (
        tokenizer.pad_id,
        tokenizer.unk_id,
        tokenizer.bos_id,
        tokenizer.eos_id,
    )
    assert ids == (0, 1, 2, 3)
    assert tokenizer.vocab_size == 340


def test_text_is_decoded_without_loss(tokenizer):
    ids = tokenizer.tokenize(tf.constant(LOSSLESS))
    assert decoded(tokenizer.detokenize(ids)) == LOSSLESS
    # Neither unknown nor, even if it is spelled out, a special token.
    assert tf.reduce_min(ids.values) >= 4
    assert tf.reduce_max(ids.values) < tokenizer.vocab_size


def test_tokenize_adds_no_special_tokens(tokenizer):
    ids = tokenizer.tokenize(tf.constant(["", "man"])).to_list()
    assert ids[0] == []
    assert ids[1] and not {2, 3} & set(ids[1])


def test_equals_the_sentencepiece_library(tokenizer):
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    texts = LOSSLESS + CORPUS + [line[i:] for i in range(40) for line in CORPUS]
    ids = tokenizer.tokenize(tf.constant(texts)).to_list()
    assert ids == library.encode(texts)
    back = decoded(tokenizer.detokenize(tf.ragged.constant(ids)))
    assert back == library.decode(ids)


def test_plain_python_equals_the_graph(tokenizer):
    symbols = Tokenizer.train(CORPUS, 340, symbols=["(S", ")S"])
    texts = odd_texts(1000)
    for one in (tokenizer, symbols):
        ids = one.encode(texts)
        assert ids == one.tokenize(tf.constant(texts)).to_list()
        ids += odd_ids(2000, one.vocab_size)
        # Alone, the ids of bytes are not UTF-8.
        ids += [[i] for i in range(one.vocab_size)]
        found = one.detokenize(tf.ragged.constant(ids, dtype=tf.int32))
        found = [text.decode("utf-8", "replace") for text in found.numpy()]
        assert list(map(one.decode, ids)) == found
        assert one.encode([]) == []


class RoundTrip(tf.Module):
    """Uses a tokenizer as an exported model does."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.resource = tokenizer.ops

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def __call__(self, texts):
        ids = self.tokenizer.tokenize(texts)
        dense = ids.to_tensor(self.tokenizer.pad_id)
        return {"ids": dense, "texts": self.tokenizer.detokenize(dense)}


def test_saved_model_with_any_batch_size(tmp_path, tokenizer):
    tf.saved_model.save(RoundTrip(tokenizer), str(tmp_path / "a"))
    (tmp_path / "a").rename(tmp_path / "b")
    loaded = tf.saved_model.load(str(tmp_path / "b"))
    for texts in (LOSSLESS, CORPUS[:1], []):
        output = loaded(tf.constant(texts, tf.string))
        assert decoded(output["texts"]) == texts


def test_setting_the_seed_keeps_the_resource(tmp_path, tokenizer):
    tokenize = tf.function(lambda texts: tokenizer.tokenize(texts).to_tensor())
    before = tokenize(tf.constant(CORPUS[:6])).numpy().tolist()
    tf.saved_model.save(RoundTrip(tokenizer), str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    tf.random.set_seed(1)
    assert tokenize(tf.constant(CORPUS[:6])).numpy().tolist() == before
    tf.random.set_seed(2)
    output = loaded(tf.constant(CORPUS[:6]))
    assert output["ids"].numpy().tolist() == before


def test_two_vocabularies_in_one_process(tokenizer):
    smaller = Tokenizer.train(CORPUS, 300)
    used = (tokenizer, smaller, tokenizer)
    ids = [len(t.tokenize(CORPUS)[0]) for t in used]
    assert ids[0] == ids[2] < ids[1]


def test_first_use_in_the_graph_of_a_function(tokenizer):
    tokenizer = Tokenizer(tokenizer.model)
    dataset = tf.data.Dataset.from_tensor_slices(CORPUS).batch(5)
    back = dataset.map(lambda x: tokenizer.detokenize(tokenizer.tokenize(x)))
    assert [t for batch in back for t in decoded(batch)] == CORPUS
    # The resource does not belong to the graph of the dataset.
    assert len(tokenizer.tokenize(tf.constant(["man"]))[0]) > 0


def test_save_and_load(tmp_path, tokenizer):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"old")
    tokenizer.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.model"]
    assert Tokenizer.load(path).model == tokenizer.model
    assert Tokenizer.load(str(path)).vocab_size == 340


def test_invalid_files(tmp_path, tokenizer):
    with pytest.raises(InputError, match="none.model"):
        Tokenizer.load(tmp_path / "none.model")
    with pytest.raises(InputError, match="directory"):
        Tokenizer.load(tmp_path)
    path = tmp_path / "bad.model"
    for content in (b"", b"garbage", tokenizer.model[:1000]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="bad.model.*cannot be parsed"):
            Tokenizer.load(path)


def test_model_without_a_start_id_is_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_prefix=str(tmp_path / "default"),
        vocab_size=60,
        model_type="bpe",
        bos_id=-1,
        minloglevel=2,
    )
    with pytest.raises(InputError, match="'bos': -1"):
        Tokenizer.load(tmp_path / "default.model")
