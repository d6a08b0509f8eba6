"""The package for Argos Translate; reference/ installs it there."""

import copy
import datetime
import json
import zipfile

import ctranslate2
import pytest
import sentencepiece
from random_models import random_translator, table_vocabulary
from translation_fixtures import PAIRS

import keras_transformer as kt
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.export import save_argos
from keras_transformer.support.errors import InputError

FOLDER = "keras-transformer-en_de"


def save(translator, path, languages=("en", "de")):
    """Saves a translator with languages, which usually come from a run."""
    translator = copy.copy(translator)
    translator.languages = languages
    return save_argos(translator, path)


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    """The extracted package. Tests must not change it."""
    path = tmp_path_factory.mktemp("models") / "new" / "a.argosmodel"
    path.parent.mkdir()
    assert save(translator, path) == path
    assert list(path.parent.iterdir()) == [path]
    with zipfile.ZipFile(path) as package:
        package.extractall(path.parent)
    return path.parent / FOLDER


def translate(folder, texts, beam_size):
    """Translates sentences as Argos Translate does."""
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "sentencepiece.model")
    )
    model = ctranslate2.Translator(str(folder / "model"))
    results = model.translate_batch(
        pieces.encode(list(texts), out_type=str),
        replace_unknowns=True,
        max_batch_size=32,
        batch_type="tokens",
        beam_size=beam_size,
        length_penalty=0.2,
    )
    return [
        pieces.decode_pieces(result.hypotheses[0])
        .replace("▁", " ")
        .removeprefix(" ")
        for result in results
    ]


def test_files(folder, translator):
    names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert names == {
        *("README.md", "metadata.json", "keras_transformer.json"),
        *("sentencepiece.model", "model", "model/config.json"),
        *("model/model.bin", "model/shared_vocabulary.json"),
    }
    described = json.loads((folder / "keras_transformer.json").read_text())
    assert described["ctranslate2"] == ctranslate2.__version__
    assert described["dtype"] == "float32"
    assert json.loads((folder / "metadata.json").read_text()) == {
        "package_version": f"{datetime.date.today():%Y.%m.%d}",
        "argos_version": "1.9.0",
        "from_code": "en",
        "from_name": "en",
        "to_code": "de",
        "to_name": "de",
        "type": "translate",
    }
    text = (folder / "README.md").read_text("utf-8")
    assert "docs/argos.md" in text


def test_translations(folder):
    assert translate(folder, PAIRS, beam_size=1) == list(PAIRS.values())
    # CTranslate2 ends a search early: two translations lack a piece.
    found = translate(folder, PAIRS, beam_size=4)
    pairs = zip(found, PAIRS.values(), strict=True)
    assert sum(theirs != ours for theirs, ours in pairs) <= 2


def test_two_sentencepiece_models(tmp_path):
    """Pieces of targets are not in the sources' model, and are joined."""
    readers = [
        kt.Tokenizer.train(texts, vocab_size=310)
        for texts in zip(*PAIRS.items(), strict=True)
    ]
    size = min(reader.vocab_size for reader in readers)
    tables = []
    for reader in readers:
        pieces = reader.pieces(range(4 + 256, size))
        special = ["</s>", "<unk>", *pieces, "<pad>"]
        tables.append({piece: i for i, piece in enumerate(special)})
    source, target = (
        vocabulary_with_ids(reader.target.model, table, SpecialPieces())
        for reader, table in zip(readers, tables, strict=True)
    )
    vocabulary = make_tokenizer(source, target)
    fields = dict(tied_embeddings="target", num_layers=1)
    translator = random_translator(vocabulary, **fields)
    path = save(translator, tmp_path / "a.argosmodel")
    with zipfile.ZipFile(path) as package:
        package.extractall(tmp_path)
    folder = tmp_path / FOLDER
    content = (folder / "sentencepiece.model").read_bytes()
    assert content == vocabulary.source.model != vocabulary.target.model
    assert (folder / "model" / "target_vocabulary.json").exists()
    (text,) = translate(folder, ["dog"], 4)
    ids = vocabulary.target.encode([text])[0]
    assert text and "▁" not in text
    assert vocabulary.target.decode(ids) == text.strip()


def check_error(translator, path, message, error=InputError, **options):
    with pytest.raises(error, match=message):
        save(translator, path, **options)
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("name", "source", "target", "received"),
    [
        ("a", "en", "de", "a"),
        ("a.zip", "en", "de", "a.zip"),
        ("a.argosmodel", None, "de", "source=None"),
        ("a.argosmodel", "en", "../de", "target=../de"),
    ],
)
def test_names_and_languages(
    translator, tmp_path, name, source, target, received
):
    message = f"Received: .*{received}"
    languages = (source, target)
    check_error(translator, tmp_path / name, message, languages=languages)


def test_never_overwrites(translator, tmp_path):
    path = tmp_path / "a.argosmodel"
    path.write_text("precious")
    with pytest.raises(InputError, match="a.argosmodel"):
        save(translator, path)
    assert path.read_text() == "precious"


def test_unsupported_models(tokenizer, tmp_path):
    path = tmp_path / "a.argosmodel"
    tagged = random_translator(table_vocabulary(tokenizer))
    check_error(tagged, path, "tag")
    fields = dict(positional_encoding="learned", attention_window=3)
    fields["num_layers"] = 1
    for length, learned in ((1023, ", 1023 learned positions"), (1024, "")):
        other = random_translator(tokenizer, max_length=length, **fields)
        check_error(other, path, rf"attention_window=3{learned}\.")


def test_a_different_tokenizer_is_noticed(translator, tmp_path, monkeypatch):
    other = kt.Tokenizer.train(["abc def"], vocab_size=268).target
    monkeypatch.setattr(translator.tokenizer.source, "model", other.model)
    path = tmp_path / "a.argosmodel"
    check_error(translator, path, "I am", RuntimeError)
