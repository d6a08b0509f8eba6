"""How a run begins or goes on, and what is refused."""

import json
import shutil

import numpy as np
import pytest
from digits import TINY, recipe

from keras_transformer.errors import InputError
from keras_transformer.train import resume, state
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.run import TrainingRun, locked
from keras_transformer.train.state import load
from keras_transformer.train.trainer import train


def test_another_recipe_is_refused_with_the_difference(corpus, tmp_path):
    train(corpus, tmp_path / "run", "tiny", recipe(steps=2), architecture=TINY)
    before = (tmp_path / "run" / "config.json").read_bytes()
    with pytest.raises(
        InputError, match="d_ff=16 and not 32; seed=1 and not 2"
    ):
        train(
            corpus,
            tmp_path / "run",
            "tiny",
            recipe(steps=2, seed=2),
            architecture={**TINY, "d_ff": 32},
        )
    assert (tmp_path / "run" / "config.json").read_bytes() == before


def test_a_flag_left_out_is_a_difference(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny", recipe(steps=2))
    train(*arguments, architecture={**TINY, "dropout": 0.3})
    with pytest.raises(InputError, match="dropout=0.3 and not 0.1"):
        train(*arguments, architecture=TINY)


def test_other_data_is_refused_with_the_difference(tmp_path):
    for pairs in (30, 31):
        for side in ("en", "de"):
            lines = [f"{i % 7} {side}" for i in range(pairs)]
            (tmp_path / f"train.{side}").write_text("\n".join(lines) + "\n")
        corpus = open_corpus([str(tmp_path)], "en", "de")
        arguments = (
            corpus,
            tmp_path / "run",
            "tiny",
            recipe(steps=pairs - 29, vocab_size=275),
        )
        if pairs == 30:
            train(*arguments, architecture=TINY)
    with pytest.raises(InputError, match=r"train=\d+ and not \d+$"):
        train(*arguments, architecture=TINY)


def test_a_damaged_state_is_refused(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny", recipe(steps=2))
    run = train(*arguments, architecture=TINY)
    run.state_path.write_bytes(run.state_path.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged: train anew"):
        train(*arguments, architecture=TINY)


def test_init_from_takes_weights_and_tokenizer_alone(corpus, tmp_path):
    first = train(
        corpus, tmp_path / "first", "tiny", recipe(steps=6), architecture=TINY
    )
    second = train(
        corpus,
        tmp_path / "second",
        "tiny",
        recipe(steps=1, learning_rate_scale=1e-9),
        architecture=TINY,
        init_from=tmp_path / "first",
    )
    assert second.tokenizer.model == first.tokenizer.model
    assert second.step == 1
    for found, expected in zip(
        second.load_model().get_weights(),
        first.load_model().get_weights(),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    with pytest.raises(InputError, match="Received: d_ff=16 and not 32$"):
        train(
            corpus,
            tmp_path / "third",
            "tiny",
            recipe(steps=1, max_length=20),
            architecture={**TINY, "d_ff": 32, "dropout": 0.3},
            init_from=tmp_path / "first",
        )
    assert not (tmp_path / "third").exists()
    # The vocabulary comes with the tokenizer, whatever is asked for.
    for _ in range(2):
        third = train(
            corpus,
            tmp_path / "third",
            "tiny",
            recipe(steps=1, vocab_size=290),
            architecture=TINY,
            init_from=tmp_path / "first",
        )
    assert TrainingRun.open(third.path).recipe["vocab_size"] == 300


def test_init_from_may_move_but_not_change(corpus, tmp_path):
    def once(output, init_from, steps=1):
        return train(
            corpus,
            tmp_path / output,
            "tiny",
            recipe(steps=steps),
            architecture=TINY,
            init_from=init_from and tmp_path / init_from,
        )

    once("first", None)
    once("other", None)
    once("run", "first")
    (tmp_path / "first").rename(tmp_path / "moved")
    for init_from in ("other", None):
        with pytest.raises(InputError, match="init_from='.*first' and not"):
            once("run", init_from, steps=2)
    assert once("run", "moved", steps=2).step == 2
    (tmp_path / "moved").rename(tmp_path / "gone")
    assert once("run", "moved", steps=3).step == 3


def test_a_run_without_its_state_is_refused(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny", recipe(steps=2))
    run = train(*arguments, architecture=TINY)
    run.state_path.unlink()
    with pytest.raises(InputError, match="must have its state.npz"):
        train(*arguments, architecture=TINY)
    assert run.checkpoints()


def test_other_validation_data_is_refused(corpus, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(corpus.name, copy)
    same = open_corpus([str(copy)], "en", "de")
    arguments = (tmp_path / "run", "tiny")
    train(corpus, *arguments, recipe(steps=1), architecture=TINY)
    train(same, *arguments, recipe(steps=2), architecture=TINY)
    (copy / "valid.de").write_bytes((copy / "valid.en").read_bytes())
    with pytest.raises(InputError, match=r"Received: valid=\d+ and not \d+$"):
        train(same, *arguments, recipe(steps=3), architecture=TINY)


def test_naming_a_default_is_no_difference(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny")
    train(*arguments, recipe(steps=1), architecture=TINY)
    named = {**TINY, "dropout": 0.1, "d_k": 8}
    run = train(*arguments, recipe(steps=2), architecture=named)
    assert run.step == 2


def test_data_may_move(corpus, tmp_path):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        for code in ("en", "de"):
            file = tmp_path / place / f"train.{code}"
            file.write_text("".join(f"{i % 7} {code}\n" for i in range(30)))
    for place, steps in (("a", 1), ("b", 2)):
        run = train(
            open_corpus([str(tmp_path / place)], "en", "de"),
            tmp_path / "run",
            "tiny",
            recipe(steps=steps, vocab_size=275),
            architecture=TINY,
        )
    assert run.step == 2


def test_patience_without_a_pair_to_watch(corpus, tmp_path):
    for name, lines in (("train", 9), ("valid", 0)):
        for code in ("en", "de"):
            file = tmp_path / f"{name}.{code}"
            file.write_text(f"a {code}\n" * lines + "\n")
    alone = open_corpus([str(tmp_path)], "en", "de")
    with pytest.raises(InputError, match="none is left. Received: patience=3"):
        train(
            alone, tmp_path / "run", "tiny", recipe(patience=3, vocab_size=265)
        )
    assert not (tmp_path / "run").exists()


def test_a_run_of_an_older_version_goes_on(corpus, tmp_path):
    """Settings that have come since have their defaults."""
    arguments = (corpus, tmp_path / "run", "tiny")
    train(*arguments, recipe(steps=1), architecture=TINY)
    config = tmp_path / "run" / "config.json"
    values = json.loads(config.read_text())
    del values["recipe"]["deterministic"], values["survey"]["checksums"]
    config.write_text(json.dumps(values))
    run = train(*arguments, recipe(steps=2), architecture=TINY)
    assert run.step == 2
    with pytest.raises(InputError, match="deterministic=False and not True"):
        train(
            *arguments, recipe(steps=3, deterministic=True), architecture=TINY
        )


def test_variables_of_a_state_go_by_name(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny")
    run = train(*arguments, recipe(steps=1), architecture=TINY)
    found = load(run.state_path)
    query = next(i for i, n in enumerate(found.names) if "query" in n)
    found.names[query : query + 2] = found.names[query : query + 2][::-1]
    state.save(run.state_path, found)
    with pytest.raises(InputError, match="key/kernel.*and not.*query/kernel"):
        train(*arguments, recipe(steps=2), architecture=TINY)


def test_everything_too_long(corpus, tmp_path):
    with pytest.raises(InputError, match="No pair is left.*max_length=2"):
        train(corpus, tmp_path / "run", "tiny", recipe(max_length=2, steps=5))
    assert not (tmp_path / "run").exists()


def test_two_trainings_that_begin_at_once(corpus, tmp_path, monkeypatch):
    arguments = (corpus, tmp_path / "run", "tiny", recipe(steps=1))

    def survey_while_another_trains(*these):
        monkeypatch.setattr(resume, "survey", survey)
        other.append(train(*arguments, architecture=TINY))
        return survey(*these)

    other, survey = [], resume.survey
    monkeypatch.setattr(resume, "survey", survey_while_another_trains)
    with pytest.raises(InputError, match="already holds a run"):
        train(*arguments, architecture=TINY)
    assert TrainingRun.open(tmp_path / "run").id == other[0].id
    assert other[0].load_model()


def test_two_trainings_in_a_folder(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny", recipe(steps=1))
    run = train(*arguments, architecture=TINY)
    with locked(run.path), pytest.raises(InputError, match="already trains"):
        train(*arguments, architecture=TINY)
    train(*arguments, architecture=TINY)
