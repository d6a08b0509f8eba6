import digits
import numpy as np
import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.train import workers
from keras_transformer.train.resume import Job
from keras_transformer.train.strategy import open_strategy
from keras_transformer.train.workers import broadcast_run, check_workers_agree


@pytest.fixture
def job(corpus, tmp_path):
    recipe = digits.recipe(scored_sentences=0)
    return Job(corpus, tmp_path, "tiny", recipe, digits.TINY, None, 1)


def test_every_worker_gets_the_tokenizer_and_the_architecture(run):
    tokenizer, config = broadcast_run(open_strategy("single"), run)
    assert tokenizer.model == run.tokenizer.model
    assert config == run.config


def chief_with(monkeypatch, **differences):
    """The chief has other numbers than this worker under some names."""

    def broadcast(strategy, values):
        names = ("settings", "train", "valid")
        pairs = zip(names, values, strict=True)
        return np.array([v + differences.get(name, 0) for name, v in pairs])

    monkeypatch.setattr(workers, "broadcast_from_chief", broadcast)


def test_workers_that_agree(job, monkeypatch):
    chief_with(monkeypatch)
    check_workers_agree(open_strategy("single"), job, None)


@pytest.mark.parametrize(
    ("differences", "message"),
    [
        (dict(settings=1), "with other settings$"),
        (dict(valid=1), "with other texts of valid$"),
        (dict(settings=1, train=1), "with other settings and texts of train$"),
    ],
)
def test_workers_that_differ_are_refused(
    job, monkeypatch, differences, message
):
    chief_with(monkeypatch, **differences)
    with pytest.raises(InputError, match=message):
        check_workers_agree(open_strategy("single"), job, None)


def test_paths_may_differ_and_settings_may_not(
    job, corpus, tmp_path, monkeypatch
):
    sent = []

    def broadcast(strategy, values):
        sent.append(values[0])
        return np.array(values)

    monkeypatch.setattr(workers, "broadcast_from_chief", broadcast)
    strategy = open_strategy("single")
    for output, seed in ((tmp_path, 1), (tmp_path / "other", 1), (tmp_path, 2)):
        recipe = digits.recipe(scored_sentences=0, seed=seed)
        other = Job(corpus, output, "tiny", recipe, digits.TINY, None, 1)
        check_workers_agree(strategy, other, None)
    assert sent[0] == sent[1] != sent[2]
