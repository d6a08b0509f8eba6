"""What workers other than the chief take from its run."""

import digits
import numpy as np
import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train import resume
from keras_transformer.train.resume import RunOpener
from keras_transformer.train.strategy import Worker, open_strategy
from keras_transformer.train.training_settings import choose_settings


def make_opener(corpus, output, **values):
    recipe = digits.recipe(scored_sentences=0, steps=3, **values)
    settings = choose_settings(corpus, output, "tiny", recipe, digits.TINY)
    return RunOpener(settings, corpus, output)


@pytest.fixture
def chief(corpus, tmp_path, monkeypatch):
    """The number that the chief of a new run sends, its run and its data."""
    sent = []

    def send(strategy, value):
        sent.append(value)
        return value

    opener = make_opener(corpus, tmp_path / "run")
    with monkeypatch.context() as patched, opener.open() as opened:
        patched.setattr(resume, "broadcast_from_chief", send)
        strategy = open_strategy("single")
        found = opener.open_as_chief_did(strategy, Worker(0, 1), *opened)
        assert found == opened
    monkeypatch.setattr(resume, "broadcast_from_chief", lambda *_: sent[0])
    return opened


def open_on_another_worker(corpus, output, **values):
    return make_opener(corpus, output, **values).open_as_chief_did(
        open_strategy("single"), Worker(1, 2), None, None
    )


def test_a_worker_reads_the_run_and_the_ids_of_the_chief(
    chief, corpus, tmp_path, capsys
):
    capsys.readouterr()
    run, data = open_on_another_worker(corpus, tmp_path / "run")
    assert run.tokenizer.model == chief[0].tokenizer.model
    assert data.valid_texts == chief[1].valid_texts
    for ours, theirs in zip(
        data.train.shards[0], chief[1].train.shards[0], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert "preparing" not in capsys.readouterr().out


def test_a_worker_with_other_settings_is_refused(chief, corpus, tmp_path):
    with pytest.raises(InputError, match="worker 1 with other settings$"):
        open_on_another_worker(corpus, tmp_path / "run", seed=2)


def test_a_worker_that_does_not_see_the_run_is_refused(chief, corpus, tmp_path):
    with pytest.raises(InputError, match="elsewhere without a run"):
        open_on_another_worker(corpus, tmp_path / "elsewhere")
