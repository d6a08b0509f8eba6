"""Training on a prepared corpus."""

import shutil

import digits
import pytest
from digits import TINY
from ids import rows

from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import RunOpener
from keras_transformer.train.training_settings import choose_settings

SIZES = Recipe(vocab_size=300, max_length=24)


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "prepared"
    prepare(corpus, folder, SIZES)
    return open_corpus(str(folder))


def open_and_close(corpus, output, init_from=None, workers=1, **values):
    recipe = digits.recipe(**values)
    settings = choose_settings(corpus, output, "tiny", recipe, TINY, init_from)
    settings.check(corpus)
    with RunOpener(settings, corpus, output, workers).open() as (run, _):
        return run


def test_a_run_on_texts_has_the_same_ids(prepared, corpus, tmp_path, capsys):
    run = open_and_close(prepared, tmp_path / "run", steps=2)
    lines = capsys.readouterr().out.splitlines()
    texts = open_and_close(corpus, tmp_path / "texts", steps=2)
    expected = capsys.readouterr().out.splitlines()
    assert lines[0] == f"tokenizer: 300 tokens, from {prepared.name}"
    assert lines[-4:-1] == expected[-4:-1]
    assert run.tokenizer.model == texts.tokenizer.model
    shards = (
        open_corpus(str(path)).prepared.shards
        for path in (prepared.name, texts.path / "data")
    )
    assert rows(next(shards)) == rows(next(shards))
    assert run.statistics == texts.statistics


def test_a_run_is_resumed_with_the_folder_and_its_tokenizer(
    prepared, corpus, tmp_path
):
    shutil.copytree(prepared.name, tmp_path / "prepared")
    own = open_corpus(str(tmp_path / "prepared"))
    run = open_and_close(own, tmp_path / "run")
    open_and_close(own, run.path)
    with pytest.raises(InputError, match="data="):
        open_and_close(corpus, run.path)
    shutil.rmtree(own.name)
    model = tmp_path / "other.model"
    Tokenizer.train(corpus.texts("valid"), 300).save(model)
    prepare(corpus, own.name, SIZES, [model])
    with pytest.raises(InputError, match="--tokenizer .*run"):
        open_and_close(open_corpus(own.name), run.path)


def test_init_from_needs_the_same_tokenizer(prepared, run, tmp_path):
    assert run.tokenizer.model == prepared.prepared.tokenizer.model
    open_and_close(prepared, tmp_path / "same", run.path)
    other = prepare_with_vocabulary(290, tmp_path)
    with pytest.raises(InputError, match="--tokenizer .*run"):
        open_and_close(other, tmp_path / "other", run.path, vocab_size=290)


def prepare_with_vocabulary(size, folder):
    digits.write(folder)
    texts = open_corpus([str(folder)], "en", "de")
    sizes = Recipe(vocab_size=size, max_length=24)
    return open_corpus(str(prepare(texts, folder / "p", sizes).path))


def test_the_recipe_must_agree(prepared, tmp_path):
    for name, value, own in (
        ("max_length", 23, 24),
        ("vocab_size", 301, 300),
    ):
        message = f"defaults. Received: {name}={value} instead of {own}$"
        with pytest.raises(InputError, match=message):
            open_and_close(prepared, tmp_path / "run", **{name: value})
    assert not (tmp_path / "run").exists()


def test_the_default_recipe_agrees(prepared, tmp_path):
    settings = choose_settings(prepared, tmp_path / "run", "tiny")
    assert settings.recipe == Recipe.from_preset(
        "tiny", vocab_size=300, max_length=24
    )
