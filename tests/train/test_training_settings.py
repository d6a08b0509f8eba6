"""Settings by default, and what is refused before TensorFlow is imported."""

import digits
import pytest
from tokenizer_texts import CORPUS, sentencepiece_model

from keras_transformer.convert.vocabulary import SpecialTokens, make_tokenizer
from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpora, open_corpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.training_settings import choose_settings


@pytest.fixture
def defaults(corpus, tmp_path):
    """Returns the preset of a training without a recipe, and the recipe."""

    def choose(preset=None, init_from=None, output="new"):
        settings = choose_settings(
            corpus, tmp_path / output, preset, init_from=init_from
        )
        return settings.preset, settings.recipe

    return choose


def test_the_preset_and_its_values_by_default(defaults, run, tmp_path):
    assert defaults() == ("small", Recipe.from_preset("small"))
    assert defaults("base", run.path) == ("base", Recipe.from_preset("base"))
    sizes = dict(vocab_size=300, max_length=24)
    tiny = "tiny", Recipe.from_preset("tiny", **sizes)
    assert defaults(None, run.path) == tiny
    assert defaults(None, tmp_path / "gone", output=run.path) == tiny


def test_an_imported_model_is_trained_at_a_low_learning_rate(
    defaults, run, tmp_path
):
    imported = run.with_recipe({"preset": None, "imported_from": "Marian"})
    preset, low = defaults(None, imported.path)
    assert (preset, low.max_length, low.steps) == (None, 24, 2_000)
    assert (low.warmup_steps, low.learning_rate_scale) == (100, 0.02)
    assert low.batch_tokens == Recipe.from_preset("small").batch_tokens
    # As when a run that was started with it is resumed.
    assert defaults(None, tmp_path / "gone", output=run.path) == (None, low)


def test_values_replace_the_defaults(corpus, tmp_path):
    settings = choose_settings(
        corpus, tmp_path, "tiny", {"steps": 3}, {"d_ff": 7}
    )
    assert settings.recipe == Recipe.from_preset("tiny", steps=3)
    assert settings.config.d_ff == 7
    with pytest.raises(InputError, match="steps=0"):
        choose_settings(corpus, tmp_path, "tiny", {"steps": 0})


def test_another_weight_or_tag_is_named(corpus, run):
    def choose(**first):
        entries = [{"data": corpus.name, **first}, {"data": corpus.name}]
        mixed = open_corpora(entries, "en", "de")
        recipe = digits.recipe(steps=20)
        return choose_settings(mixed, run.path, "tiny", recipe, digits.TINY)

    settings = choose(weight=4)
    started = run.with_recipe(settings.recorded(run.config))
    settings.has_steps_left(started)
    for change in (dict(weight=3), dict(weight=4, tag="<bt>")):
        with pytest.raises(InputError, match="corpora="):
            choose(**change).has_steps_left(started)


def test_embeddings_of_shared_tables_stay_tied(corpus, tmp_path):
    """Imported vocabularies have a model for each side, and often one table."""
    model = sentencepiece_model(CORPUS, 80)
    table = {x: i for i, x in enumerate(["<pad>", "</s>", "<unk>", "▁a", "b"])}
    for name, other in (("shared", table), ("own", {**table, "c": 5})):
        source = model, table, SpecialTokens(eos="<pad>")
        tokenizer = make_tokenizer(source, (model, other, SpecialTokens()))
        (tmp_path / name).mkdir()
        tokenizer.save_files(tmp_path / name)

    def tied(*paths):
        config = choose_settings(
            *(corpus, tmp_path / "new", "tiny"), tokenizer=paths
        ).config
        return config.tied_embeddings

    assert tied(tmp_path / "shared") == "all"
    assert tied(tmp_path / "own") == "target"


def write_corpus(folder, *names):
    for name in names:
        (folder / name).write_text("a b\n")
    target = names[-1].rpartition(".")[2]
    return open_corpus([str(folder)], "en", target)


def check(corpus, folder, **values):
    recipe = digits.recipe(**{"scored_sentences": 0, **values})
    choose_settings(corpus, folder / "run", "tiny", recipe).check(corpus)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(patience=1), "patience=1, splits train$"),
        (dict(batch_tokens=47), "batch_tokens=47, max_length=24"),
        (dict(vocab_size=260), "at least 261: 4 special.*vocab_size=260$"),
    ],
)
def test_what_would_fail_late_is_refused_first(tmp_path, values, message):
    corpus = write_corpus(tmp_path, "train.en", "train.de")
    check(corpus, tmp_path)
    with pytest.raises(InputError, match=message):
        check(corpus, tmp_path, **values)


def test_a_corpus_without_training_data_is_refused(tmp_path):
    corpus = write_corpus(tmp_path, "valid.en", "valid.de")
    with pytest.raises(InputError, match="needs a split train.*valid$"):
        check(corpus, tmp_path)


def test_a_language_without_validation_needs_no_package(tmp_path):
    # sacreBLEU tokenizes Japanese with a package of its own.
    corpus = write_corpus(tmp_path, "train.en", "train.ja")
    check(corpus, tmp_path, scored_sentences=5)
