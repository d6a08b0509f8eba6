"""The tokenizer: lossless, equal in the graph, with clear messages."""

import pytest
import sentencepiece
import tensorflow as tf
from tokenizer_texts import CORPUS

from keras_transformer.support.errors import InputError
from keras_transformer.text.tokenizer import Tokenizer

# Normalized already, so that they are decoded as they are.
LOSSLESS = [
    "",
    "A man is riding a dog.",
    "Ein Mann fährt durch den Schnee.",
    "Übergrößenträger",
    "„Nein“, sagte er – ‚wirklich‘ … «non» “no”",
    "½ litre, ﬁne, Ａ１，。 x² ™",
    "猫は魚が好きです。 Кошка ест рыбу. القط",
    "🦩👩‍👩‍👧‍👦 ok 🇩🇪",
    "non\u00a0breaking\u200bzero",
    "nul\0inside",
    "<s> </s> <pad> <unk> <0x41>",
    "x" * 5000,
]


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
    with pytest.raises(InputError, match="none.model.*No such file"):
        Tokenizer.load(tmp_path / "none.model")
    with pytest.raises(InputError, match="Is a directory"):
        Tokenizer.load(tmp_path)
    path = tmp_path / "bad.model"
    for content in (b"", b"garbage", tokenizer.model[:1000]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="bad.model.*cannot be parsed"):
            Tokenizer.load(path)


def test_model_without_a_padding_id_is_refused(tmp_path):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_prefix=str(tmp_path / "default"),
        vocab_size=60,
        model_type="bpe",
        minloglevel=2,
    )
    with pytest.raises(InputError, match="'pad': -1"):
        Tokenizer.load(tmp_path / "default.model")


def test_words_of_pieces(tokenizer):
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = [tokenizer.bos_id, *map(pieces.index, ("▁", "d", "o", "▁", "a"))]
    ids = [*ids, tokenizer.eos_id, pieces.index("b")]
    assert tokenizer.words(ids) == [[0], [1, 2, 3], [4, 5], [6], [7]]
    assert tokenizer.words([]) == []
