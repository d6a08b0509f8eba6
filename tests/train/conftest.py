import shutil
import signal

import digits
import pytest
from translation_fixtures import made_once

from keras_transformer.runs.run_folder import Run
from keras_transformer.train import fitting, trainer
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.preparation import prepare
from keras_transformer.train.trainer import train


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    def write(folder):
        folder.mkdir()
        digits.write(folder)

    folder = made_once(tmp_path_factory, "digits", write)
    return open_corpus([str(folder)], "en", "de")


@pytest.fixture(scope="session")
def prepared(corpus, tmp_path_factory):
    """The corpus, prepared. To be read only."""

    def write(folder):
        prepare(corpus, folder, digits.recipe())

    return open_corpus(str(made_once(tmp_path_factory, "prepared", write)))


@pytest.fixture(scope="session")
def one_step_run(corpus, tmp_path_factory):
    """A run of one update. To be read only: `run` is a copy."""

    def train_one_step(path):
        recipe = {**digits.SMALL, "steps": 1}
        train(corpus, path, "tiny", recipe, architecture=digits.TINY)

    path = made_once(tmp_path_factory, "digits-runs/run", train_one_step)
    return Run.open(path)


@pytest.fixture
def run(one_step_run, tmp_path):
    shutil.copytree(one_step_run.path, tmp_path / "run")
    return Run.open(tmp_path / "run")


@pytest.fixture
def open_run(monkeypatch):
    """Starts or resumes a run as `train` does, but trains nothing.

    Returns the run, its data and the recipe.
    """
    opened = []
    monkeypatch.setattr(fitting, "fit", lambda *values: opened.append(values))
    monkeypatch.setattr(trainer, "read_step", lambda run: 0)  # never done

    def open_run(corpus, output, preset="tiny", **options):
        names = {"architecture", "init_from", "tokenizer"}.intersection(options)
        others = {name: options.pop(name) for name in names}
        others = {"architecture": digits.TINY, **others}
        train(corpus, output, preset, {**digits.SMALL, **options}, **others)
        return opened.pop()[:3]

    return open_run


@pytest.fixture
def ctrl_c():
    """Lets SIGINT interrupt, which a program in the background ignores."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)
