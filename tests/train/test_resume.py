"""What is checked before a run is started or resumed. Nothing is trained."""

import collections
import dataclasses
import json
import shutil

import digits
import pytest
from digits import TINY

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.locks import locked
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.resume import RunOpener, TrainingData
from keras_transformer.train.training_settings import choose_settings


def opener(
    corpus,
    output,
    preset="tiny",
    architecture=TINY,
    init_from=None,
    workers=1,
    **values,
):
    """Opens the run that `one_step_run` is, with other values."""
    recipe = digits.recipe(**{"steps": 2, "scored_sentences": 0, **values})
    settings = choose_settings(
        corpus, output, preset, recipe, architecture, init_from
    )
    return RunOpener(settings, corpus, output, workers)


def open_and_close(*arguments, **values):
    with opener(*arguments, **values).open() as (run, _):
        return run


def write_texts(folder, **lines):
    folder.mkdir(exist_ok=True)
    for name, texts in lines.items():
        for code in ("en", "de"):
            file = folder / f"{name}.{code}"
            file.write_text("".join(f"{text} {code}\n" for text in texts))
    return open_corpus([str(folder)], "en", "de")


def test_the_same_arguments_resume(corpus, run):
    assert open_and_close(corpus, run.path).recipe["steps"] == 2
    before = {p: p.stat().st_mtime_ns for p in run.path.rglob("*.*")}
    open_and_close(corpus, run.path)
    assert {p: p.stat().st_mtime_ns for p in run.path.rglob("*.*")} == before


def test_a_new_run_reports_its_data(corpus, tmp_path, capsys):
    run = open_and_close(corpus, tmp_path / "run")
    printed = capsys.readouterr().out
    assert f"preparing: {corpus.name}\n" in printed
    assert f"data: {run.path / 'data'}\n" in printed
    assert printed.count("train: 360 pairs kept") == 1
    assert "first pair: '8 6 5' → 'eight six five'" in printed
    assert "valid: 40 pairs kept, 243 source and 441 target" in printed
    assert "train: 2 steps are at most 0.2 passes over the data" in printed
    assert run.statistics["pairs"] == 360
    assert Run.open(run.path).statistics == run.statistics


def test_what_a_run_without_validation_lacks(tmp_path, capsys):
    corpus = write_texts(tmp_path / "data", train=["one two"] * 20)
    open_and_close(corpus, tmp_path / "run", vocab_size=270)
    assert "no validation split" in capsys.readouterr().out


def test_few_steps_are_less_than_a_tenth_of_a_pass(corpus, tmp_path, capsys):
    open_and_close(corpus, tmp_path / "run", steps=1, batch_tokens=48)
    assert "1 steps are less than 0.1 passes" in capsys.readouterr().out


def test_other_settings_are_refused_with_the_differences(corpus, run):
    before = (run.path / "config.json").read_bytes()
    with pytest.raises(
        InputError,
        match="d_ff=32 instead of 16; .*dropout=0.3 instead of 0.1; "
        "seed=2 instead of 1$",
    ):
        open_and_close(
            corpus,
            run.path,
            seed=2,
            architecture={**TINY, "d_ff": 32, "dropout": 0.3},
        )
    assert (run.path / "config.json").read_bytes() == before


def test_naming_a_default_is_no_difference(corpus, run):
    named = {**TINY, "dropout": 0.1, "d_k": 8}
    open_and_close(corpus, run.path, architecture=named)


def test_the_path_of_a_corpus_may_be_spelled_differently(tmp_path, monkeypatch):
    corpus = write_texts(tmp_path / "data", train=["a b"] * 9)
    run = open_and_close(corpus, tmp_path / "run", vocab_size=267)
    monkeypatch.chdir(tmp_path)
    for name in ("data", "./data", "data/"):
        corpus = open_corpus(name, "en", "de")
        open_and_close(corpus, run.path, vocab_size=267)


def test_a_prepared_folder_with_other_data_is_not_resumed(run, tmp_path):
    folder = tmp_path / "prepared"
    shutil.copytree(run.path / "data", folder)
    own = open_and_close(open_corpus(str(folder)), tmp_path / "own")
    file = folder / "prepared.json"
    values = json.loads(file.read_text())
    values["statistics"]["pairs"] -= 1
    file.write_text(json.dumps(values))
    with pytest.raises(InputError, match="pairs=359 instead of 360"):
        open_and_close(open_corpus(str(folder)), own.path)


def test_a_run_without_its_data_is_not_resumed(corpus, run):
    shutil.rmtree(run.path / "data")
    with pytest.raises(InputError, match=f"{run.path} cannot be resumed"):
        open_and_close(corpus, run.path)


def test_the_length_of_training_may_change(corpus, run):
    free = dict(steps=9, max_to_keep=2, patience=3, tensorboard=True)
    open_and_close(corpus, run.path, **free)
    assert "\nsteps: 9\n" in (run.path / "train.yaml").read_text()


def test_a_resumed_run_has_its_own_data(tmp_path, capsys):
    corpus = write_texts(tmp_path / "data", train=["a b"] * 9, valid=["a"])
    run = open_and_close(corpus, tmp_path / "run", vocab_size=267)
    shutil.rmtree(tmp_path / "data")
    capsys.readouterr()
    with opener(corpus, run.path, vocab_size=267).open() as (_, data):
        assert data.train.statistics.pairs == 9
        assert data.train.shards[0].pairs == 9
        assert data.valid_texts == [("a en", "a de")]
    assert capsys.readouterr().out == f"data: {run.path / 'data'}\n"
    other = write_texts(tmp_path / "other", train=["a b"] * 9)
    with pytest.raises(InputError, match="data='.*other' instead of '.*data'"):
        open_and_close(other, run.path, vocab_size=267)


def test_the_data_of_a_run_are_a_prepared_corpus(corpus, run, tmp_path):
    prepared = open_corpus(str(run.path / "data"))
    new = open_and_close(prepared, tmp_path / "new")
    assert new.tokenizer.model == run.tokenizer.model
    assert not (new.path / "data").exists()


def test_the_number_of_workers_may_not_change(corpus, run):
    with pytest.raises(InputError, match="started with 1 workers.*Received: 2"):
        open_and_close(corpus, run.path, workers=2)


def test_a_run_without_its_state_is_refused(corpus, run):
    run.state_path.unlink()
    with pytest.raises(InputError, match="cannot be resumed without its state"):
        open_and_close(corpus, run.path)
    assert run.checkpoints()


def test_init_from_brings_the_tokenizer(corpus, run, tmp_path):
    arguments = dict(init_from=run.path, vocab_size=290)
    new = open_and_close(corpus, tmp_path / "new", **arguments)
    assert new.tokenizer.model == run.tokenizer.model
    assert new.config == run.config
    # Resumed: the vocabulary comes with the tokenizer.
    open_and_close(corpus, new.path, **arguments)
    arguments["init_from"] = tmp_path / "mistyped"
    with pytest.raises(InputError, match="mistyped' instead of '.*run'"):
        open_and_close(corpus, new.path, **arguments)


def test_init_from_keeps_the_search(corpus, run, tmp_path):
    assert open_and_close(corpus, tmp_path / "none", init_from=run.path)
    assert Run.open(tmp_path / "none").search is None
    path = run.path / "config.json"
    values = json.loads(path.read_text())
    values["search"] = {"beam_size": 6, "length_penalty": "power"}
    path.write_text(json.dumps(values))
    for _ in ("started", "resumed"):
        open_and_close(corpus, tmp_path / "new", init_from=run.path)
        new = Run.open(tmp_path / "new")
        assert new.search == BeamSearch(6, length_penalty="power")


def test_init_from_keeps_the_architecture(corpus, run, tmp_path):
    """Whatever the preset is, unless one is given."""
    keeps = dict(init_from=run.path, preset=None)
    free = dict(dropout=0.3, attention_window=4)
    new = open_and_close(
        corpus, tmp_path / "new", architecture=free, max_length=20, **keeps
    )
    expected = dataclasses.replace(run.config, max_length=20, **free)
    assert new.config == expected != run.config
    run.path.rename(tmp_path / "moved")
    open_and_close(corpus, new.path, architecture=free, max_length=20, **keeps)
    (tmp_path / "moved").rename(run.path)
    with pytest.raises(InputError, match="Received: num_layers=2 instead of 1"):
        open_and_close(
            corpus, tmp_path / "x", architecture=dict(num_layers=2), **keeps
        )


def test_a_damaged_valid_split_is_found_first(tmp_path, capsys):
    corpus = write_texts(tmp_path / "data", train=["a b"] * 9, valid=["a"])
    (tmp_path / "data" / "valid.en").write_text("a\nb\n")
    with pytest.raises(InputError, match="the same number of lines"):
        open_and_close(corpus, tmp_path / "run", vocab_size=267)
    assert "tokenizer" not in capsys.readouterr().out


def test_init_from_another_architecture_is_refused(corpus, run, tmp_path):
    with pytest.raises(InputError, match="Received: d_ff=32 instead of 16$"):
        open_and_close(
            corpus,
            tmp_path / "new",
            init_from=run.path,
            max_length=20,
            # The weights fit whatever dropout and attention window are.
            architecture=dict(TINY, d_ff=32, dropout=0.3, attention_window=4),
        )
    assert not (tmp_path / "new").exists()


def test_init_from_a_run_without_a_checkpoint_is_refused(corpus, run, tmp_path):
    run.find_checkpoint().unlink()
    with pytest.raises(InputError, match="run has no checkpoint yet"):
        open_and_close(corpus, tmp_path / "new", init_from=run.path)
    assert not (tmp_path / "new").exists()


def test_patience_needs_a_validation_pair(tmp_path):
    corpus = write_texts(tmp_path / "data", train=["a"] * 9)
    for code in ("en", "de"):
        (tmp_path / "data" / f"valid.{code}").write_text("\n")
    corpus = open_corpus([corpus.name], "en", "de")
    with pytest.raises(InputError, match="none is left. Received: patience=3"):
        open_and_close(corpus, tmp_path / "run", patience=3, vocab_size=265)
    assert not (tmp_path / "run").exists()


def test_data_without_a_pair_of_the_length_are_refused(corpus, tmp_path):
    with pytest.raises(InputError, match="No pair is left.*longer than 2"):
        open_and_close(corpus, tmp_path / "run", max_length=2)
    assert not (tmp_path / "run").exists()


def test_a_run_with_a_recipe_of_its_own_is_refused(corpus, run):
    run.with_recipe({})
    with pytest.raises(InputError, match="init_from='.*' instead of None"):
        open_and_close(corpus, run.path, init_from=run.path)


def test_two_processes_in_a_folder(corpus, run):
    message = "Another process is writing to"
    with locked(run.path), pytest.raises(InputError, match=message):
        open_and_close(corpus, run.path)
    open_and_close(corpus, run.path)


# === The sample of valid that is scored ===


def sampled_numbers(count, seed):
    pairs = [(f"{i}", f"{i}.") for i in range(20)]
    sample = TrainingData(None, pairs).sample_valid(count, seed)
    assert all(target == f"{source}." for source, target in sample)
    return [int(source) for source, _ in sample]


def test_the_sample_depends_on_the_seed_alone():
    assert sampled_numbers(8, seed=1) == [0, 5, 8, 11, 12, 13, 18, 19]
    assert sampled_numbers(8, seed=2) != sampled_numbers(8, seed=1)


def test_the_sample_is_uniform():
    """Each of 20 pairs is drawn 100 times of 400 on average."""
    drawn = collections.Counter()
    for seed in range(400):
        sample = sampled_numbers(5, seed)
        assert len(set(sample)) == 5 and sample == sorted(sample)
        drawn.update(sample)
    assert len(drawn) == 20
    assert 65 < min(drawn.values()) <= max(drawn.values()) < 140


@pytest.mark.parametrize("count, expected", [(0, 0), (20, 20), (21, 20)])
def test_the_sample_of_none_or_all(count, expected):
    assert sampled_numbers(count, 1) == list(range(expected))
