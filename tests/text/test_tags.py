"""Tags of a tokenizer: one piece each, the rest as without them."""

import pytest
import sentencepiece
from tokenizer_texts import CORPUS, sentencepiece_model

from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, Vocabulary

TAGS = ["<bt>", ">>fra<<", ">>de_AT<<"]
TEXTS = [*CORPUS, "<b> in text", "a <bt", ">> b <<", "…  ½\tx", "猫 👩\u200d👧"]
# Spaces that are trimmed, and of Unicode; soft hyphens, which nobody sees.
SPACES = ["", " ", "   ", "\t ", "\u00a0", "\u3000\u00a0", "\u00ad", "\u200b "]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(CORPUS, 350, tags=TAGS)


def test_a_tag_is_one_piece_and_the_rest_as_alone(tokenizer):
    assert tokenizer.tags == TAGS
    assert tokenizer.languages == ["fra", "de_AT"]
    alone = tokenizer.encode_sources(TEXTS)
    model = tokenizer.target.model
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    for tag in TAGS:
        own = library.PieceToId("▁" + tag)
        assert own > 3
        for space in SPACES:
            texts = [f"{space}{tag} {space}{text}" for text in TEXTS]
            assert tokenizer.encode_sources(texts) == [
                [own, *row] for row in alone
            ]
        # The library itself, without our normalization of sources.
        texts = [f"  {tag}  {text}" for text in TEXTS]
        expected = [[own, *row] for row in library.encode(TEXTS)]
        assert library.encode(texts) == expected
    first, second = (library.PieceToId("▁" + tag) for tag in TAGS[:2])
    (ids,) = tokenizer.encode_sources([f">>fra<< <bt> {TEXTS[0]}"])
    assert ids == [second, first, *alone[0]]


def test_tags_leave_the_rest_of_the_vocabulary_as_it_was(tokenizer):
    plain = Tokenizer.train(CORPUS, 350 - len(TAGS))
    assert plain.tags == plain.languages == []
    rows = tokenizer.encode(TEXTS), plain.encode(TEXTS)
    for with_tags, without in zip(*rows, strict=True):
        assert tokenizer.pieces(with_tags) == plain.pieces(without)


def test_a_set_tag_stands_before_sources_without_one(tokenizer):
    french = tokenizer.translating_to("fra")
    assert french.default_tags == [">>fra<<"]
    assert tokenizer.default_tags == []
    for space in SPACES:
        bare = [f"{space}{text}" for text in TEXTS]
        texts = [f">>fra<< {text}" for text in bare]
        assert french.encode_sources(bare) == tokenizer.encode_sources(texts)
        # One with a language keeps it; one with a different tag gets both.
        for tag, expected in (
            (">>de_AT<<", ">>de_AT<<"),
            ("<bt>", ">>fra<< <bt>"),
            ("<bt>>>de_AT<<", ">>de_AT<< <bt>"),
        ):
            texts = [f"{space}{tag}{space}{text}" for text in TEXTS]
            ids = tokenizer.encode_sources([f"{expected} {x}" for x in TEXTS])
            assert french.encode_sources(texts) == ids
        assert french.encode_sources([space, "x"])[0] == []
    # Targets have none.
    assert french.encode_targets(TEXTS) == tokenizer.encode_targets(TEXTS)


@pytest.mark.parametrize("tag", ["bt", "<bt>"])
def test_a_tag_follows_the_language(tokenizer, tag):
    assert tokenizer.with_tag(tag).default_tags == ["<bt>"]
    both_set = tokenizer.translating_to("de_AT").with_tag(tag)
    texts = [f">>de_AT<< <bt> {text}" for text in TEXTS]
    assert both_set.encode_sources(TEXTS) == tokenizer.encode_sources(texts)
    for given in ("", "<bt> ", " >>de_AT<<<bt>"):
        ids = both_set.encode_sources([f"{given}{text}" for text in TEXTS])
        assert ids == tokenizer.encode_sources(texts)
    # Their own language needs no tag of a different one.
    own = [f">>fra<< {text}" for text in TEXTS]
    assert both_set.encode_sources(own) == tokenizer.encode_sources(own)
    only_tag = tokenizer.with_tag(tag)
    ids = only_tag.encode_sources([f">>de_AT<<{text}" for text in TEXTS])
    assert ids == tokenizer.encode_sources(texts)


@pytest.mark.parametrize("space", SPACES)
def test_a_source_of_only_tags_is_blank(tokenizer, space):
    french = tokenizer.translating_to("fra").with_tag("bt")
    texts = [f"{space}{tag}{space}" for tag in ("", *TAGS, "<bt> >>fra<<")]
    for one in (tokenizer, french):
        assert one.encode_sources(texts) == [[]] * 5
    plain = Tokenizer.train(CORPUS, 330)
    assert all(plain.encode_sources(texts[1:]))


def test_sources_need_one_of_several_languages(tokenizer):
    tokenizer.check_languages(
        ["\u00a0>>fra<< a", " >>de_AT<<b", "", "\u200b", ">>fra<<"]
    )
    for chosen in (tokenizer, tokenizer.with_tag("bt")):
        for text in ("a", "<bt> a", ">>eng<< a"):
            with pytest.raises(InputError, match="text 2"):
                chosen.check_languages([">>fra<< a", text])
        with pytest.raises(InputError, match="no target language"):
            chosen.check_languages()
    french = tokenizer.translating_to("fra").with_tag("bt")
    french.check_languages()
    french.check_languages(["a", "<bt> a", ">>de_AT<< a"])
    with pytest.raises(InputError, match=">>eng<< in text 1"):
        french.check_languages([">>eng<< a"])
    Tokenizer.train(CORPUS, 350, tags=["<bt>"]).check_languages(["a"])


def test_learned_pieces_are_not_tags():
    model = sentencepiece_model(
        *(CORPUS, 80), user_defined_symbols=["▁<->", "▁>>--<<", "▁<b2>", "<x>"]
    )
    assert Vocabulary(model).tags == ["<b2>"]
    options = dict(split_by_unicode_script=False, split_by_number=False)
    model = sentencepiece_model(["<b3> a"] * 9, 14, model_type="bpe", **options)
    learned = Vocabulary(model)
    assert learned.piece_to_id("▁<b3>") != learned.unk_id
    assert learned.tags == []


def test_tags_that_are_missing_or_invalid(tokenizer):
    for change in (
        lambda: tokenizer.with_tag("ft"),
        lambda: tokenizer.check_tags(["<bt>", "<ft>"]),
    ):
        with pytest.raises(InputError, match="<bt>, >>fra<<, >>de_AT<<"):
            change()
    plain = Tokenizer.train(CORPUS, 330)
    with pytest.raises(InputError, match="<bt>"):
        plain.with_tag("bt")
    for change in (tokenizer, tokenizer.translating_to("fra")):
        with pytest.raises(InputError, match="tag must not be a language"):
            change.with_tag(">>fra<<")
    for one in (tokenizer, plain):
        with pytest.raises(InputError, match="Received: >>eng<<"):
            one.translating_to("eng")
    for tag in ("bt", "<b t>", "<>", ">>é<<", "", "<a>b", "<->", ">>a<< <b>"):
        with pytest.raises(InputError, match="angle brackets"):
            Tokenizer.train(CORPUS, 350, tags=[tag])
