import copy
import pickle

import numpy as np
import pytest
import sentencepiece
from tokenizer_texts import CORPUS, LOSSLESS

from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, Vocabulary


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(CORPUS, vocab_size=340)


def test_ids_are_the_librarys_and_text_is_decoded_without_loss(tokenizer):
    special = (tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id)
    assert (*special, tokenizer.eos_id) == (0, 1, 2, 3)
    assert tokenizer.vocab_size == 340
    model = tokenizer.target.model
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    rows = tokenizer.encode(LOSSLESS)
    assert rows == library.encode(LOSSLESS)
    assert list(map(tokenizer.decode, rows)) == LOSSLESS
    # Neither unknown nor, even if it is spelled out, a special token.
    assert {i for row in rows for i in row} <= {*range(4, 340)}


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
    tokenizer.save_files(tmp_path)
    names = {"tokenizer.model", "tokenizer.json"}
    assert {p.name for p in tmp_path.iterdir()} == names
    # The model alone has no description.
    for name in (path, str(path), tmp_path):
        loaded = Tokenizer.load(name)
        assert loaded.digest == tokenizer.digest and loaded.normalizes_sources
    alone = path.replace(tmp_path / "a.model")
    assert not Tokenizer.load(alone).normalizes_sources


def test_invalid_files(tmp_path, tokenizer):
    for missing in (tmp_path, tmp_path / "none.model"):
        with pytest.raises(InputError, match=missing.name):
            Tokenizer.load(missing)
    path = tmp_path / "bad.model"
    for content in (b"", b"garbage", tokenizer.target.model[:1000]):
        path.write_bytes(content)
        with pytest.raises(InputError, match="bad.model.*cannot be parsed"):
            Tokenizer.load(path)
    tokenizer.save_files(tmp_path)
    for content in ("", "{}", "[]"):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(InputError, match="tokenizer.json"):
            Tokenizer.load(tmp_path)


def test_sources_of_new_tokenizers_are_normalized_and_targets_are_kept(
    tokenizer,
):
    texts = ["a\u00a0man\u202f–\u3000tea\u00adcher\0", "\u200b \u00a0", "a"]
    plain = ["a man – teacher", "", "a"]
    ids = tokenizer.encode_sources(texts)
    assert ids == tokenizer.encode(plain)
    ids = tokenizer.encode_targets(texts)
    assert ids == tokenizer.encode([texts[0], "", "a"])
    assert tokenizer.decode(ids[0]) == texts[0]
    # Others read what is there.
    other = Tokenizer(Vocabulary(tokenizer.target.model))
    assert not other.normalizes_sources
    raw = tokenizer.encode(texts)
    assert other.encode_sources(texts) == other.encode_targets(texts) == raw


@pytest.mark.parametrize("space", [" ", "\u00a0"])
def test_sources_are_read_with_the_characters_of_the_vocabulary(space):
    texts = ["I can't… X-ray", "No. 1"]
    tokenizer = Tokenizer.train(texts, vocab_size=278)
    source = f"I{space}can´t… X–ray No. １ »ﬀ"
    expected = "I can't… X-ray No. 1 »ﬀ"
    (ids,) = tokenizer.encode_sources([source])
    assert [ids] == tokenizer.encode([expected])
    # Targets are kept.
    (ids,) = tokenizer.encode_targets([source])
    assert tokenizer.decode(ids) == source


def test_a_text_never_ends_within_a_character(tokenizer):
    (ids,) = tokenizer.encode(["猫 dog🦩"])
    texts = {tokenizer.decode(ids[:end]) for end in range(len(ids) + 1)}
    assert texts == {"", "猫", "猫 d", "猫 do", "猫 dog", "猫 dog🦩"}
    assert tokenizer.decode(ids[2:]) == "dog🦩"


def test_words_of_pieces(tokenizer):
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = [tokenizer.bos_id, *map(pieces.index, ("▁", "d", "o", "▁", "a"))]
    ids = [*ids, tokenizer.eos_id, pieces.index("b")]
    assert tokenizer.target.words(ids) == [[0], [1, 2, 3], [4, 5], [6], [7]]
    assert tokenizer.target.words([]) == []


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickled])
def test_copies_before_and_after_use(copied):
    tokenizer = Tokenizer.train(CORPUS, 340, tags=["<bt>"]).with_tag("bt")
    for _ in range(2):
        other = copied(tokenizer)
        assert other.files() == tokenizer.files()
        for one in (other, tokenizer):
            ids = one.encode(["<bt> a dog"])
            assert one.encode_sources(["a dog"]) == ids
            assert one.is_shared and one.tags == ["<bt>"]
