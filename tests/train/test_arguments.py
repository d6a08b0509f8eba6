"""What a new run is made from by default, and what is checked first."""

import dataclasses
import shutil

import digits
import pytest
import yaml
from digits import TINY
from tokenizer_texts import CORPUS, sentencepiece_model

from keras_transformer import Tokenizer
from keras_transformer.convert.vocabulary import (
    SpecialPieces,
    make_tokenizer,
    vocabulary_with_ids,
)
from keras_transformer.support.errors import InputError
from keras_transformer.train.arguments import TrainingArguments
from keras_transformer.train.data.corpus import open_corpora, open_corpus
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.trainer import check_resumes


def choose(corpus, preset=None, recipe=None, architecture=None, **options):
    request = TrainingArguments(
        corpus=corpus,
        preset=preset,
        recipe=recipe,
        architecture=architecture,
        **options,
    )
    request.check_new()
    return request


def test_the_preset_and_its_values_by_default(corpus, prepared, run):
    def defaults(preset=None, init_from=None, corpus=corpus):
        new = choose(corpus, preset, init_from=init_from)
        return new.resolved_preset, new.resolved_recipe

    assert defaults() == ("small", Recipe.from_preset("small"))
    assert defaults("base") == ("base", Recipe.from_preset("base"))
    # Sizes are those of the model or of the prepared corpus.
    sizes = dict(vocab_size=300, max_length=24)
    tiny = Recipe.from_preset("tiny", **sizes)
    assert defaults("tiny", None, prepared) == ("tiny", tiny)


@pytest.mark.parametrize("preset", [None, "tiny", "multi30k"])
@pytest.mark.parametrize("is_imported", [False, True])
def test_what_starts_from_a_run_has_a_low_learning_rate(
    preset, is_imported, corpus, run
):
    """With a preset, with the run's, and for an imported model, without."""
    if is_imported:
        (run.path / "train.yaml").unlink()
    sizes = {} if preset is None else TINY
    values = {} if preset is None else {"max_length": 24}
    new = choose(corpus, preset, values, sizes, init_from=run.path)
    name = preset or (None if is_imported else "tiny")
    assert new.resolved_preset == name
    assert new.resolved_recipe == Recipe.from_preset(
        name or "small",
        **dict(vocab_size=300, max_length=24, steps=2_000, steps_per_epoch=200),
        **dict(warmup_steps=100, learning_rate_scale=0.02),
    )


def test_a_rate_may_be_given_to_what_starts_from_a_run(corpus, run):
    given = dict(steps=9, warmup_steps=4_000, learning_rate_scale=1.0)
    new = choose(corpus, None, given, init_from=run.path)
    assert {x: getattr(new.resolved_recipe, x) for x in given} == given


def test_values_replace_the_defaults(corpus):
    new = choose(corpus, "tiny", {"steps": 3}, {"d_ff": 7})
    assert new.resolved_recipe == Recipe.from_preset("tiny", steps=3)
    assert new.config_with(new.resolved_tokenizer).d_ff == 7
    with pytest.raises(InputError, match="steps must"):
        choose(corpus, "tiny", {"steps": 0})


def test_the_request_is_what_was_given_and_the_whole_recipe(corpus, run):
    recipe = dict(steps=3, patience=2)
    new = choose(corpus, None, recipe, {"dropout": 0.3}, init_from=run.path)
    sizes = dict(vocab_size=300, max_length=24)
    low = dict(steps_per_epoch=200, warmup_steps=100, learning_rate_scale=0.02)
    low = Recipe.from_preset("tiny", **sizes, **low, **recipe)
    assert new.for_new_run() == {
        **dict(data=[corpus.name], source="en", target="de"),
        **dict(preset="tiny", init_from=str(run.path), dropout=0.3),
        **dataclasses.asdict(low),
    }
    arguments = new.for_new_run()
    assert yaml.safe_load(yaml.safe_dump(arguments)) == arguments


# === A model to start from ===


def test_init_from_keeps_the_architecture(corpus, run):
    """Whatever the preset is, unless one is given."""
    free = dict(dropout=0.3, attention_window=4)
    recipe = {**digits.SMALL, "max_length": 20}
    expected = dataclasses.replace(run.config, max_length=20, **free)
    for preset, sizes in ((None, {}), ("tiny", TINY)):
        sizes = {**sizes, **free}
        new = choose(corpus, preset, recipe, sizes, init_from=run.path)
        config = new.config_with(run.tokenizer)
        assert config == expected != run.config
        sizes["d_ff"] = 32
        with pytest.raises(InputError, match="Received: d_ff=32 instead of 16"):
            choose(corpus, preset, recipe, sizes, init_from=run.path)


# === A tokenizer ===


def test_embeddings_of_shared_tables_stay_tied(corpus, tmp_path):
    """Imported vocabularies have a model for each side, and often one table."""
    model = sentencepiece_model(CORPUS, 80)
    table = {x: i for i, x in enumerate(["<pad>", "</s>", "<unk>", "▁a", "b"])}
    for other, tied in ((table, "all"), ({**table, "c": 5}, "target")):
        tokenizer = make_tokenizer(
            vocabulary_with_ids(model, table, SpecialPieces(eos="<pad>")),
            vocabulary_with_ids(model, other, SpecialPieces()),
        )
        path = tmp_path / tied
        path.mkdir()
        tokenizer.save_files(path)
        new = choose(corpus, "tiny", tokenizer=[path])
        assert new.config_with(new.resolved_tokenizer).tied_embeddings == tied


def test_what_contradicts_a_tokenizer(corpus, prepared, run):
    path = run.path / "tokenizer.model"
    other = path.with_name("other.model")
    tokenizer = Tokenizer.train(corpus.texts("valid"), 290)
    other.write_bytes(tokenizer.target.model)
    for data, message, options in (
        (corpus, "vocab_size=301 instead of 300", dict(vocab_size=301)),
        (prepared, "max_length=23 instead of 24", dict(max_length=23)),
        (
            corpus,
            "init_from=.*tokenizer=.*other.model",
            dict(init_from=run.path, tokenizer=[other]),
        ),
        (prepared, prepared.name, dict(tokenizer=[other])),
    ):
        options = {"tokenizer": [path], **options}
        others = {x: options.pop(x, None) for x in ("tokenizer", "init_from")}
        with pytest.raises(InputError, match=message):
            choose(data, "tiny", options, TINY, **others)


# === Checks ===


def write_corpus(folder, *names):
    for name in names:
        (folder / name).write_text("a b\n")
    target = names[-1].rpartition(".")[2]
    return open_corpus([str(folder)], "en", target)


def test_a_language_without_validation_needs_no_package(tmp_path):
    # sacreBLEU tokenizes Japanese with a package of its own.
    corpus = write_corpus(tmp_path, "train.en", "train.ja")
    assert choose(corpus, "tiny", {"scored_sentences": 5})


# === Resuming: what is given is compared with what is recorded ===


def check(
    run, corpus=None, preset=None, architecture=None, init_from=None, **recipe
):
    arguments = TrainingArguments(
        corpus=corpus,
        preset=preset,
        recipe=recipe,
        architecture=architecture,
        init_from=init_from,
    )
    check_resumes(run, arguments, workers=1)


def test_only_what_is_given_is_compared(corpus, run):
    check(run)
    check(run, corpus, "tiny", TINY, **digits.SMALL)
    # Defaults, which were not given.
    check(run, architecture={"dropout": 0.1, "d_k": 8}, seed=1, clip_norm=None)
    free = dict(steps=9, max_to_keep=2, patience=3, tensorboard=True)
    check(run, **free)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(preset="small"), "preset='small' instead of 'tiny'$"),
        (dict(seed=2, **digits.SMALL), "Received: seed=2 instead of 1$"),
        (dict(clip_norm=1.0), "clip_norm=1.0 instead of None$"),
        (
            dict(architecture=dict(d_ff=32, dropout=0.3, num_heads=2)),
            "Received: d_ff=32 instead of 16; dropout=0.3 instead of 0.1$",
        ),
    ],
    ids=["preset", "seed", "None", "architecture"],
)
def test_differences_are_listed(run, values, message):
    with pytest.raises(InputError, match=message):
        check(run, **values)


def test_files_may_have_been_moved_but_not_renamed(corpus, run, tmp_path):
    for folder in ("moved", "other"):
        (tmp_path / folder).mkdir()
        name = "digits" if folder == "moved" else folder
        shutil.copytree(corpus.name, tmp_path / folder / name)
    check(run, open_corpus(str(tmp_path / "moved" / "digits"), "en", "de"))
    other = open_corpus(str(tmp_path / "other" / "other"), "en", "de")
    with pytest.raises(InputError, match=r"data=\['other'\] instead of"):
        check(run, other)
    with pytest.raises(InputError, match="init_from="):
        check(run, init_from=run.path)


def test_differences_of_several_corpora(corpus, run):
    def mixed(*parts):
        entries = [{"data": corpus.name, **part} for part in parts]
        return open_corpora(entries, "en", "de")

    heavy, plain = dict(weight=4), {}
    run.save_request(mixed(heavy, plain).arguments())
    check(run, mixed(heavy, plain))
    for parts in (
        (dict(weight=3), plain),
        (dict(weight=4, tag="<bt>"), plain),
        (plain, heavy),
        (heavy,),
    ):
        with pytest.raises(InputError, match="corpora="):
            check(run, mixed(*parts))


def test_a_run_without_its_state(run):
    run.state_path.unlink()
    with pytest.raises(InputError, match="state.npz"):
        check(run)
