"""Vocabularies from elsewhere: the ids are the sentencepiece library's."""

import copy
import string

import pytest
from tokenizer_texts import CORPUS, odd_texts, write_model

from keras_transformer.support.errors import InputError
from keras_transformer.text import open_tokenizer
from keras_transformer.text.tokenizer import Tokenizer

TEXTS = [*CORPUS[:6], "ｆｕｌｌ ｗｉｄｔｈ ½ …", *odd_texts(300)]
assert any(text.startswith(">>deu<<") for text in TEXTS)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Paths and processors by type of model and byte fallback."""
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for model_type in ("bpe", "unigram"):
        for fallback in (False, True):
            path = folder / f"{model_type}-{fallback}.model"
            size = 75 + 256 * fallback
            options = dict(byte_fallback=fallback)
            processor = write_model(path, size, model_type, **options)
            made[model_type, fallback] = path, processor
    return made


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pair(request, models):
    """Processors of source and target, and a tokenizer of both."""
    made = models[request.param, False], models[request.param, True]
    # The sizes differ, so that padding must be the same id in both already.
    folder = made[0][0].parent
    paths, processors = [], []
    for i, (size, options) in enumerate(
        ((72, {}), (330, dict(byte_fallback=True)))
    ):
        options |= dict(pad_id=0, unk_id=1, bos_id=2, eos_id=3)
        paths.append(folder / f"{request.param}-{i}.model")
        processors.append(
            write_model(paths[-1], size, request.param, **options)
        )
    return *processors, open_tokenizer(paths)


def test_padding_is_added_after_the_ids_of_the_library(models, tmp_path):
    for path, library in models.values():
        assert library.pad_id() == -1
        tokenizer = open_tokenizer([path])
        size = library.GetPieceSize()
        assert (tokenizer.pad_id, tokenizer.vocab_size) == (size, size + 1)
        ids = (tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id)
        assert ids == (0, 1, 2)
        pieces = [*map(library.IdToPiece, range(size)), "<pad>"]
        assert tokenizer.pieces(range(size + 1)) == pieces
        assert tokenizer.target.is_control(size)
        assert not tokenizer.normalizes_sources
        encoded = library.encode(TEXTS)
        assert tokenizer.encode_sources(TEXTS) == encoded
        assert tokenizer.encode_targets(TEXTS) == encoded
        texts = [x.strip(string.whitespace) for x in library.decode(encoded)]
        assert [*map(tokenizer.decode, encoded)] == texts
        tokenizer.save_files(tmp_path)
        assert Tokenizer.load(tmp_path).digest == tokenizer.digest
        assert open_tokenizer([tmp_path]).digest == tokenizer.digest


def test_two_models(pair):
    source, target, vocabulary = pair
    assert vocabulary.source.vocab_size == 72
    assert vocabulary.vocab_size == 330
    for side in (vocabulary, vocabulary.source):
        ids = (side.pad_id, side.unk_id, side.bos_id, side.eos_id)
        assert ids == (0, 1, 2, 3)
    assert vocabulary.source_eos_id == 3
    assert vocabulary.encode_sources(TEXTS) == source.encode(TEXTS)
    assert vocabulary.encode_targets(TEXTS) == target.encode(TEXTS)
    plain = [text for text in CORPUS if 1 not in target.encode(text)]
    assert plain
    assert [*map(vocabulary.decode, target.encode(plain))] == plain
    assert not vocabulary.is_shared and not vocabulary.normalizes_sources


@pytest.fixture
def tagged(tmp_path):
    """Trained tokenizers of sources and of targets, and both as one."""
    tags = [">>fra<<", ">>deu<<", "<bt>"]
    sides = [Tokenizer.train(CORPUS, 350, tags=x) for x in (tags, [])]
    paths = [tmp_path / "source", tmp_path / "target"]
    for side, path in zip(sides, paths, strict=True):
        path.mkdir()
        side.save_files(path)
    return *sides, open_tokenizer(paths)


def test_two_trained_models_keep_tags_and_normalization(tagged, tmp_path):
    source, target, both = tagged
    assert both.tags == source.tags and both.languages == ["fra", "deu"]
    texts = ["a\u00a0man\u200b", ">>fra<< a man", " >>deu<< <bt> a", "\u00a0"]
    for vocabulary in (
        both,
        both.translating_to("fra"),
        both.translating_to("deu").with_tag("bt"),
    ):
        alone = Tokenizer(
            source.source,
            normalizes_sources=True,
            default_tags=vocabulary.default_tags,
        )
        vocabulary.save_files(tmp_path)
        opened = Tokenizer.load(tmp_path)
        assert opened.digest == vocabulary.digest
        source_ids = alone.encode_sources(texts)
        target_ids = target.encode_targets(texts)
        for tokenizer in (vocabulary, opened, copy.deepcopy(vocabulary)):
            assert tokenizer.normalizes_sources
            assert tokenizer.encode_sources(texts) == source_ids
            assert tokenizer.encode_targets(texts) == target_ids
    with pytest.raises(InputError, match="<ft>"):
        both.check_tags(["<ft>"])


def test_models_that_do_not_fit(models, tmp_path):
    bpe, _ = models["bpe", False]
    unigram, _ = models["unigram", True]
    wrong = tmp_path / "wrong.model"
    for options, message in (
        (dict(bos_id=-1), "bos_id=-1"),
        (dict(eos_id=-1), "eos_id=-1"),
    ):
        write_model(wrong, 100, **options)
        with pytest.raises(InputError, match=f"{wrong}.*{message}"):
            open_tokenizer([wrong])
    with pytest.raises(InputError, match="pad_id=75.*pad_id=331"):
        open_tokenizer([bpe, unigram])
    with pytest.raises(InputError, match="tokenizer must be one path, or two"):
        open_tokenizer([bpe] * 3)
