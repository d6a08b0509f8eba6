"""Training on a prepared corpus."""

import digits
import pytest
from digits import TINY

from keras_transformer.support.errors import InputError
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
    assert lines[-3:] == expected[-3:]
    assert run.tokenizer.model == texts.tokenizer.model
    assert run.statistics["ids"] == texts.statistics["ids"]


def test_a_run_is_resumed_on_the_same_kind_of_data(
    prepared, corpus, tmp_path, capsys
):
    run = open_and_close(prepared, tmp_path / "run")
    moved = tmp_path / "moved"
    moved.symlink_to(prepared.name)
    assert open_and_close(open_corpus(str(moved)), run.path).id == run.id
    with pytest.raises(InputError, match="other data.*train="):
        open_and_close(corpus, run.path)


def test_init_from_needs_the_same_tokenizer(prepared, run, tmp_path):
    assert run.tokenizer.model == prepared.prepared.tokenizer.model
    open_and_close(prepared, tmp_path / "same", run.path)
    other = prepare_with_vocabulary(290, tmp_path)
    with pytest.raises(InputError, match="another tokenizer .* --tokenizer"):
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
