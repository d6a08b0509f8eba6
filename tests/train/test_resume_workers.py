"""What workers other than the chief take from its run."""

import dataclasses

import digits
import numpy as np
import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train import resume
from keras_transformer.train.resume import Job, open_run, open_shared_run
from keras_transformer.train.strategy import open_strategy


def make_job(corpus, output, **values):
    recipe = digits.recipe(scored_sentences=0, steps=3, **values)
    return Job(corpus, output, "tiny", recipe, digits.TINY, None)


@pytest.fixture
def chief(corpus, tmp_path, monkeypatch):
    """The numbers that the chief of a new run sends, its run and its data."""
    sent = []

    def send(strategy, values):
        sent.extend(values)
        return np.array(values)

    job = make_job(corpus, tmp_path / "run")
    with monkeypatch.context() as patched, open_run(job) as opened:
        patched.setattr(resume, "broadcast_from_chief", send)
        strategy = open_strategy("single")
        assert open_shared_run(strategy, job, *opened) == opened
    monkeypatch.setattr(
        resume, "broadcast_from_chief", lambda *_: np.array(sent)
    )
    return opened


def open_on_another_worker(corpus, output, **values):
    job = dataclasses.replace(make_job(corpus, output, **values), index=1)
    return open_shared_run(open_strategy("single"), job, None, None)


def test_a_worker_reads_the_run_and_the_ids_of_the_chief(
    chief, corpus, tmp_path, capsys
):
    capsys.readouterr()
    # Paths may differ from machine to machine.
    (tmp_path / "mounted").symlink_to(tmp_path)
    run, prepared = open_on_another_worker(corpus, tmp_path / "mounted" / "run")
    assert run.id == chief[0].id
    assert run.tokenizer.model == chief[0].tokenizer.model
    for ours, theirs in zip(
        prepared.shards[0], chief[1].shards[0], strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert "preparing" not in capsys.readouterr().out


def test_a_worker_with_other_settings_is_refused(chief, corpus, tmp_path):
    with pytest.raises(InputError, match="worker 1 with other settings$"):
        open_on_another_worker(corpus, tmp_path / "run", seed=2)


def test_a_worker_that_does_not_see_the_run_is_refused(chief, corpus, tmp_path):
    with pytest.raises(InputError, match="an output that all machines share"):
        open_on_another_worker(corpus, tmp_path / "elsewhere")
    with open_run(make_job(corpus, tmp_path / "other")):
        pass
    with pytest.raises(InputError, match="is another folder"):
        open_on_another_worker(corpus, tmp_path / "other")
