"""SentencePiece models with a table of ids, as Marian's."""

import random
from string import whitespace as WHITESPACE

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from tokenizer_texts import (
    CORPUS,
    odd_ids,
    odd_texts,
    sentencepiece_model,
)

from keras_transformer.support.errors import InputError
from keras_transformer.text import open_vocabulary
from keras_transformer.text.lookup_vocabulary import (
    LookupVocabulary,
    SpecialTokens,
)

ENGLISH, GERMAN = CORPUS[::2], CORPUS[1::2]


def trained(lines, size, **options):
    """A model as Marian's: unigram, without padding and the start token."""
    options = dict(hard_vocab_limit=False, **options)
    return sentencepiece_model(lines, size, **options)


def pieces_of(model):
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [library.IdToPiece(i) for i in range(library.GetPieceSize())]


@pytest.fixture(scope="module")
def models():
    return trained(ENGLISH, 90), trained(GERMAN, 100)


@pytest.fixture(scope="module")
def vocabulary(models):
    """The pieces of both languages in another order than in the models."""
    pieces = {one for model in models for one in pieces_of(model)}
    pieces -= {"<s>", "</s>", "<unk>"}
    names = ["</s>", "<unk>", *sorted(pieces), ">>deu<<", "<pad>"]
    table = {name: i for i, name in enumerate(names)}
    source = LookupVocabulary(models[0], table)
    return LookupVocabulary(models[1], table, source)


def test_ids_are_those_of_the_table(vocabulary, models):
    assert vocabulary.eos_id == 0 and vocabulary.unk_id == 1
    assert vocabulary.pad_id == vocabulary.bos_id == vocabulary.vocab_size - 1
    for side, model in zip(
        (vocabulary.source, vocabulary.target), models, strict=True
    ):
        library = sentencepiece.SentencePieceProcessor(model_proto=model)
        texts = [*CORPUS, "", "猫 and 🦩"]
        found = side.tokenize(tf.constant(texts)).to_list()
        table = vocabulary.table
        expected = [
            [
                table.get(piece, 1)
                for piece in library.encode(text, out_type=str)
            ]
            for text in texts
        ]
        assert found == expected
        assert 1 in found[-1] and 1 not in found[0]
        assert side.pieces(found[0]) == library.encode(texts[0], out_type=str)


def test_texts_of_ids(vocabulary):
    ids = vocabulary.target.tokenize(tf.constant(GERMAN)).to_tensor(
        vocabulary.pad_id
    )
    ends = tf.fill([len(GERMAN), 1], vocabulary.eos_id)
    junk = tf.fill([len(GERMAN), 2], 7)
    ids = tf.concat([ids, ends, junk], axis=1)
    found = vocabulary.detokenize(ids).numpy()
    assert [text.decode() for text in found] == GERMAN


@pytest.mark.parametrize("text", [">>deu<< a man", " >>deu<<a man", ">>deu<<"])
def test_the_target_language_is_one_piece(vocabulary, text):
    ids = vocabulary.source.tokenize(tf.constant([text, "a man"])).to_list()
    rest = ids[1] if "man" in text else []
    assert ids[0] == [vocabulary.table[">>deu<<"], *rest]
    assert vocabulary.words([*ids[0], 0])[0] == [0]


def test_plain_python_equals_the_graph(vocabulary):
    texts = [*odd_texts(3000), *CORPUS]
    ids = odd_ids(3000, vocabulary.vocab_size)
    for side in (vocabulary.source, vocabulary.target):
        encoded = side.encode(texts)
        assert encoded == side.tokenize(tf.constant(texts)).to_list()
        decoded = side.detokenize(tf.ragged.constant(ids + encoded))
        assert list(map(side.decode, ids + encoded)) == [
            text.decode() for text in decoded.numpy()
        ]
        assert side.encode([]) == []
    starts_with_language = [
        ids[:1] == [vocabulary.table[">>deu<<"]] for ids in encoded
    ]
    assert 50 < sum(starts_with_language) < 500


def test_a_saved_model_contains_the_table(vocabulary, tmp_path):
    module = tf.Module()
    module.ops = [vocabulary.source.ops, vocabulary.target.ops]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def round_trip(texts):
        ids = vocabulary.target.tokenize(texts)
        read = vocabulary.source.tokenize(texts)
        pieces = vocabulary.source.joined_pieces(
            read.to_tensor(vocabulary.pad_id)
        )
        return vocabulary.detokenize(ids), read, pieces

    module.round_trip = round_trip
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    texts, read, pieces = loaded.round_trip(tf.constant(GERMAN))
    assert [text.decode() for text in texts.numpy()] == GERMAN
    expected = vocabulary.source.tokenize(tf.constant(GERMAN)).to_list()
    assert read.to_list() == expected
    assert [text.decode() for text in pieces.numpy()] == [
        " ".join(vocabulary.source.pieces(ids)) for ids in expected
    ]


@pytest.mark.parametrize("separate", [False, True])
def test_files(vocabulary, models, tmp_path, separate):
    if separate:
        tables = [
            {name: i for i, name in enumerate(["<pad>", *pieces_of(model)])}
            for model in models
        ]
        vocabulary = LookupVocabulary(
            models[1], tables[1], LookupVocabulary(models[0], tables[0])
        )
    vocabulary.save_files(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == set(vocabulary.files())
    assert ("target_vocab.json" in names) == separate
    opened = open_vocabulary(tmp_path)
    assert opened.digest == vocabulary.digest
    assert opened.table == vocabulary.table
    assert opened.source.table == vocabulary.source.table
    assert opened.source.vocab_size == len(opened.source.table)
    for side in ("source", "target"):
        np.testing.assert_array_equal(
            getattr(opened, side).tokenize(tf.constant(CORPUS)).values,
            getattr(vocabulary, side).tokenize(tf.constant(CORPUS)).values,
        )
    (tmp_path / "target.spm").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be parsed"):
        open_vocabulary(tmp_path)
    (tmp_path / "vocab.json").write_text("[")
    with pytest.raises(InputError, match="source.spm"):
        open_vocabulary(tmp_path)


def test_languages_are_no_tags_to_add(vocabulary):
    assert vocabulary.languages == ["deu"]
    for tag in ("deu", "bt", ">>deu<<"):
        with pytest.raises(InputError, match=f"tag='{tag}'"):
            vocabulary.with_tag(tag)


def test_sides_with_the_same_table_are_shared(vocabulary, models):
    assert vocabulary.is_shared and vocabulary.source.is_shared
    other = {**vocabulary.table, "more": vocabulary.vocab_size}
    assert not LookupVocabulary(models[1], other, vocabulary.source).is_shared


@pytest.mark.parametrize("wrong", [2, 9, "3"])
def test_invalid_tables_are_refused(models, wrong):
    special = {"<pad>": 0, "<unk>": 1, "</s>": 2}
    with pytest.raises(InputError, match="ids"):
        LookupVocabulary(models[0], {**special, "a": wrong})
    with pytest.raises(InputError, match="</s>"):
        LookupVocabulary(models[0], {"<pad>": 0, "<unk>": 1, "a": 2})
    source = LookupVocabulary(models[0], special)
    with pytest.raises(InputError, match="the same ids"):
        table = {"<pad>": 2, "<unk>": 1, "</s>": 0}
        LookupVocabulary(models[1], table, source)


@pytest.fixture(scope="module")
def other_tokens(models):
    """As OpenNMT-tf's, with a language token that sources begin with."""
    names = ["<blank>", "<s>", "</s>", "the", ">>deu<<", ">>fra<<", "<unk>"]
    pieces = {one for model in models for one in pieces_of(model)}
    names += sorted(pieces.difference(names))
    table = {name: i for i, name in enumerate(names)}
    special = SpecialTokens(
        pad_token="<blank>",
        decoder_start_token="<s>",
        source_eos_token="<blank>",
        language_token=">>deu<<",
    )
    source = LookupVocabulary(models[0], table, special=special)
    return LookupVocabulary(models[1], table, source, special)


def test_other_special_tokens(other_tokens, tmp_path):
    other_tokens.save_files(tmp_path)
    assert (tmp_path / "special_tokens_map.json").exists()
    for one in (other_tokens, open_vocabulary(tmp_path)):
        ids = (one.pad_id, one.bos_id, one.eos_id, one.unk_id)
        assert ids == (0, 1, 2, 6)
        assert one.source_eos_id == one.source.source_eos_id == 0
        assert one.special == other_tokens.special
        assert one.is_control(0) and one.is_control(1) and not one.is_control(3)
    with pytest.raises(InputError, match="'other'"):
        (tmp_path / "special_tokens_map.json").write_text('{"other": "<s>"}')
        open_vocabulary(tmp_path)


def test_sources_without_a_language_token_get_one(other_tokens):
    texts = ["a man", ">>fra<< a man", "", "  ", ">>fra<<"]
    rest = other_tokens.source.encode(["a man"])[0][1:]
    expected = [[4, *rest], [5, *rest], [], [], [5]]
    assert other_tokens.source.encode(texts) == expected
    found = other_tokens.source.tokenize(tf.constant(texts))
    assert found.to_list() == expected
    targets = other_tokens.target.tokenize(tf.constant(["a man"])).to_list()
    assert targets == other_tokens.target.encode(["a man"])
    assert 4 not in targets[0]


def test_an_unknown_language_token_is_refused(models):
    table = {"<pad>": 0, "<unk>": 1, "</s>": 2, ">>deu<<": 3}
    special = SpecialTokens(language_token=">>fra<<")
    with pytest.raises(InputError, match="fra"):
        LookupVocabulary(models[0], table, special=special)


# === Byte fallback ===


@pytest.fixture(scope="module")
def with_bytes():
    """As Mozilla's: bytes, a user's symbol, split digits; other ids."""
    options = dict(byte_fallback=True, user_defined_symbols=["__done__"])
    model = trained(CORPUS, 400, **options, split_digits=True)
    names = ["<pad>", "</s>", *reversed(pieces_of(model))]
    table = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return LookupVocabulary(model, table, LookupVocabulary(model, table))


def test_bytes_are_joined_as_in_sentencepiece(with_bytes):
    model = with_bytes.model
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = ["ein 🦩 猫!", "Ĉu 42 __done__", "\U0010fffe nul\0x", "Mann"]
    ids = with_bytes.encode(texts)
    assert ids == with_bytes.tokenize(tf.constant(texts)).to_list()
    assert with_bytes.unk_id not in {i for row in ids for i in row}
    assert list(map(with_bytes.decode, ids)) == texts
    generator = random.Random(0)
    spelled = [
        "F0 9F A6 A9 F0 9F A6 41 9F C3 C3 A9",  # two are not complete
        "ED A0 80 C0 80 E0 80 80 F5 FF F4 90 80 80 F4 8F BF BE",
        "EF BF BD E2 96 81 00 20 41",
        *(generator.randbytes(9).hex(" ").upper() for _ in range(300)),
    ]
    rows = [[f"<0x{x}>" for x in row.split()] for row in spelled]
    rows += [["▁", "a", *row[:4], "▁", "a", *row[4:]] for row in rows]
    ids = [[with_bytes.table[x] for x in row] for row in rows]
    ours = list(map(with_bytes.decode, ids))
    assert ours == [
        library.decode_pieces(row).strip(WHITESPACE) for row in rows
    ]
    assert ours[0] == "🦩\ufffd\ufffd\ufffdA\ufffd\ufffdé"
    in_graph = with_bytes.detokenize(tf.ragged.constant(ids, dtype=tf.int32))
    assert [text.decode() for text in in_graph.numpy()] == ours


def test_a_prefix_of_unknown_characters_is_refused(vocabulary, with_bytes):
    vocabulary.check_known(["Zwei Hunde", ""])
    with pytest.raises(InputError, match="'猫🦩猫'"):
        vocabulary.check_known(["Zwei", "Hund 猫🦩猫"])
    with_bytes.check_known(["Hund 猫🦩猫"])
    # A piece may have characters that are no pieces themselves.
    pieces = vocabulary.table
    word = next(x[1:] for x in pieces if x.startswith("▁") and len(x) > 3)
    others = [x for x in pieces if x not in (word[0], f"▁{word[0]}")]
    table = {piece: i for i, piece in enumerate(others)}
    fewer = LookupVocabulary(vocabulary.model, table)
    with pytest.raises(InputError, match="'3'"):
        fewer.check_known([f"{word} 3 3"])
