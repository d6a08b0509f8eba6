"""The tokenizer: ids, texts, words, files."""

import numpy as np
import pytest
import sentencepiece
from tokenizer_texts import CORPUS, LOSSLESS

from keras_transformer.support.errors import InputError
from keras_transformer.text.normalization import SOURCE_MARK
from keras_transformer.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(CORPUS, vocab_size=340)


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
    rows = tokenizer.encode(LOSSLESS)
    assert list(map(tokenizer.decode, rows)) == LOSSLESS
    # Neither unknown nor, even if it is spelled out, a special token.
    assert {i for row in rows for i in row} <= {*range(4, 340)}


def test_no_text_has_no_ids(tokenizer):
    assert tokenizer.encode([]) == []
    assert tokenizer.encode([""]) == [[]]


def test_equals_the_sentencepiece_library(tokenizer):
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    texts = LOSSLESS + CORPUS + [line[i:] for i in range(40) for line in CORPUS]
    ids = tokenizer.encode(texts)
    assert ids == library.encode(texts)
    assert list(map(tokenizer.decode, ids)) == library.decode(ids)


def test_decoding_stops_at_the_end_and_removes_padding_and_start(tokenizer):
    a, b = tokenizer.encode(["man", "dog"])
    rows = {
        "man": [2, *a, 3, *b, 3],
        "man dog": [0, *a, 0, *b, 0],
        "": [3, *a],
        "man ⁇  ⁇": [*a, tokenizer.vocab_size, -1, 3],
    }
    assert [*map(tokenizer.decode, rows.values())] == [*rows]
    assert tokenizer.decode(np.array([2, 0, 0])) == ""


def test_save_and_load(tmp_path, tokenizer):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(b"old")
    tokenizer.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.model"]
    assert Tokenizer.load(path).model == tokenizer.model
    assert Tokenizer.load(str(path)).vocab_size == 340


def test_a_folder_with_one_file(tokenizer, tmp_path):
    tokenizer.save_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.model"]
    assert Tokenizer.load(tmp_path).model == tokenizer.model
    with pytest.raises(InputError, match="tokenizer.model"):
        Tokenizer.load(tmp_path / "missing")


def test_invalid_files(tmp_path, tokenizer):
    with pytest.raises(InputError, match="none.model"):
        Tokenizer.load(tmp_path / "none.model")
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


def test_sources_of_new_tokenizers_are_normalized_and_targets_are_kept(
    tokenizer, tmp_path
):
    texts = ["a\u00a0man\u202f–\u3000tea\u00adcher\0", "\u200b \u00a0", "a"]
    plain = ["a man – teacher", "", "a"]
    ids = tokenizer.encode_sources(texts)
    assert ids == tokenizer.encode(plain)
    ids = tokenizer.encode_targets(texts)
    assert ids == tokenizer.encode([texts[0], "", "a"])
    assert tokenizer.decode(ids[0]) == texts[0]
    # One without the mark reads what is there.
    earlier = Tokenizer(tokenizer.model.removesuffix(SOURCE_MARK))
    assert not earlier.normalizes_sources
    raw = tokenizer.encode(texts)
    assert earlier.encode_sources(texts) == earlier.encode_targets(texts) == raw
    earlier.save_files(tmp_path)
    assert not Tokenizer.load(tmp_path).normalizes_sources
    tokenizer.save_files(tmp_path)
    assert Tokenizer.load(tmp_path).normalizes_sources


def test_words_of_pieces(tokenizer):
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = [tokenizer.bos_id, *map(pieces.index, ("▁", "d", "o", "▁", "a"))]
    ids = [*ids, tokenizer.eos_id, pieces.index("b")]
    assert tokenizer.words(ids) == [[0], [1, 2, 3], [4, 5], [6], [7]]
    assert tokenizer.words([]) == []
