"""Merging a SentencePiece model and a table of ids."""

import pytest
import sentencepiece
from pieces import pieces_of
from tokenizer_texts import CORPUS, sentencepiece_model

from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer

ENGLISH, GERMAN = CORPUS[::2], CORPUS[1::2]
SPECIAL = SpecialPieces()


def trained(lines, size, **options):
    """Returns a model as Marian's: without padding and the start token."""
    return sentencepiece_model(lines, size, hard_vocab_limit=False, **options)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def models(request):
    size = {"unigram": 90, "bpe": 120}[request.param]
    return [
        trained(lines, size, model_type=request.param)
        for lines in (ENGLISH, GERMAN)
    ]


@pytest.fixture(scope="module")
def table(models):
    """Most pieces of both languages, in a different order."""
    pieces = sorted({piece for model in models for piece in pieces_of(model)})
    names = ["</s>", "<unk>", *pieces, ">>deu<<", ">>fra<<", "<pad>"]
    names = [name for name in names if name not in ("▁the", "▁im", "r")]
    return {name: i for i, name in enumerate(names)}


@pytest.fixture(scope="module")
def tokenizer(models, table):
    source, target = (vocabulary_with_ids(x, table, SPECIAL) for x in models)
    return make_tokenizer(source, target)


def test_ids_and_pieces(tokenizer, table):
    assert tokenizer.eos_id == tokenizer.source_eos_id == 0
    assert tokenizer.unk_id == 1
    assert tokenizer.pad_id == tokenizer.bos_id == tokenizer.vocab_size - 1
    names = [f"▁{x}" if x.startswith(">>") else x for x in table]
    for side in (tokenizer.source, tokenizer.target):
        assert side.pieces(range(side.vocab_size)) == names
    assert tokenizer.is_shared and not tokenizer.normalizes_sources


@pytest.mark.parametrize("at", [0, 1], ids=["source", "target"])
def test_texts_are_split_by_the_model(tokenizer, models, table, at):
    side = (tokenizer.source, tokenizer.target)[at]
    library = sentencepiece.SentencePieceProcessor(model_proto=models[at])
    # ä has an id, but is in one model only; r, X and 猫 have no id.
    texts = [*(ENGLISH, GERMAN)[at], "", "An ä X 猫猫 w.", "riding for r"]
    expected = [
        [table.get(x, 1) for x in library.encode(text, out_type=str)]
        for text in texts
    ]
    assert side.encode(texts) == expected
    assert {1, table["ä"]} <= set(expected[-2])


def test_characters_in_a_row_that_one_model_lacks(tokenizer, table):
    (ids,) = tokenizer.source.encode(["a Zä"])
    assert ids[-2:] == [table["Z"], table["ä"]]


def test_texts_of_ids(tokenizer, table):
    rows = [
        [*ids, tokenizer.pad_id, tokenizer.eos_id, 7]
        for ids in tokenizer.encode(["Zwei Hunde", "猫 Hunde"])
    ]
    assert list(map(tokenizer.decode, rows)) == ["Zwei Hunde", "<unk> Hunde"]
    # Pieces that only the other model contains, and spaces at the ends.
    words = ["▁", "▁dogs", "s", "▁"]
    ids = [table.get(x, table["s"]) for x in words]
    joined = "".join(tokenizer.pieces(ids)).replace("▁", " ").strip()
    assert tokenizer.decode(ids) == joined
    assert tokenizer.decode([tokenizer.vocab_size + 1]) == "<unk>"


@pytest.mark.parametrize("text", [">>deu<< a man", " >>deu<<  a man"])
def test_a_leading_language_is_one_piece(tokenizer, table, text):
    with_language, alone = tokenizer.encode_sources([text, "a man"])
    assert with_language == [table[">>deu<<"], *alone]
    assert tokenizer.languages == ["deu", "fra"]
    french = tokenizer.translating_to("fra")
    assert french.encode_sources([text, "a man", ""]) == [
        with_language,
        [table[">>fra<<"], *alone],
        [],
    ]
    with pytest.raises(InputError, match="bt"):
        tokenizer.with_tag("bt")


def test_merging_twice_changes_nothing(models, table):
    once = vocabulary_with_ids(models[0], table, SPECIAL)
    again = vocabulary_with_ids(once.model, table, SPECIAL)
    texts = [*CORPUS, ">>deu<< a man", "riding äX 猫 W."]
    assert once.encode(texts) == again.encode(texts)
    assert once.vocab_size == again.vocab_size == len(table)


def test_one_model_for_both_sides(models, table):
    source, target = (
        vocabulary_with_ids(models[0], table, SPECIAL) for _ in range(2)
    )
    tokenizer = make_tokenizer(source, target)
    assert tokenizer.source is tokenizer.target
    assert list(tokenizer.files()) == ["tokenizer.model", "tokenizer.json"]


def test_other_special_tokens(models, tmp_path):
    """As in OpenNMT-tf: no end of sources, and an <unk> for each side."""
    special = SpecialPieces(pad="<blank>", bos="<s>")
    tables = [
        {x: i for i, x in enumerate(["<blank>", "<s>", "</s>", *x, "<unk>"])}
        for x in map(pieces_of, models)
    ]
    tokenizer = make_tokenizer(
        vocabulary_with_ids(
            models[0], tables[0], special._replace(eos="<blank>")
        ),
        vocabulary_with_ids(models[1], tables[1], special),
    )
    tokenizer.save_files(tmp_path)
    for one in (tokenizer, Tokenizer.load(tmp_path)):
        assert (one.pad_id, one.bos_id, one.eos_id) == (0, 1, 2)
        assert one.source_eos_id == one.source.eos_id == 0
        assert one.unk_id == len(tables[1]) - 1
        assert one.source.unk_id == len(tables[0]) - 1
        assert list(map(one.target.is_control, (0, 1, 3))) == [
            True,
            True,
            False,
        ]
        assert not one.is_shared


@pytest.mark.parametrize(
    ("table", "received"),
    [
        ({"a": 2}, "4 pieces"),
        ({"a": 9}, "4 pieces"),
        ({"a": "3"}, "4 pieces"),
        ({"</s>": 3, "a": 2}, "same ids"),
        (None, "without <pad>, </s>"),
    ],
)
def test_invalid_tables(models, table, received):
    usual = {"<pad>": 0, "<unk>": 1, "</s>": 2, "a": 3}
    other = {"<unk>": 0, "a": 1} if table is None else usual | table
    source = vocabulary_with_ids(models[0], usual, SPECIAL)
    with pytest.raises(InputError, match=received):
        make_tokenizer(source, vocabulary_with_ids(models[1], other, SPECIAL))


def test_bytes_and_symbols():
    """As in Mozilla's models."""
    options = dict(byte_fallback=True, user_defined_symbols=["__done__"])
    model = trained(CORPUS, 400, **options, split_digits=True)
    names = ["<pad>", "</s>", "<unk>", *reversed(pieces_of(model))]
    table = {name: i for i, name in enumerate(names)}
    tokenizer = vocabulary_with_ids(model, table, SPECIAL)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    texts = ["ein 🦩 猫!", "Ĉu 42 __done__", "nul\0x", "Mann"]
    ids = tokenizer.encode(texts)
    assert ids == [
        [table[x] for x in library.encode(text, out_type=str)] for text in texts
    ]
    assert list(map(tokenizer.decode, ids)) == texts
    incomplete = [table[f"<0x{x}>"] for x in ("F0", "9F", "41", "C3", "A9")]
    assert tokenizer.decode(incomplete) == "Aé"


def test_a_prefix_of_unknown_characters(tokenizer):
    tokenizer.target.check_known(["Zwei Hunde", ""])
    with pytest.raises(InputError, match="Hund 猫🦩猫"):
        tokenizer.target.check_known(["Zwei", "Hund 猫🦩猫"])
