import dataclasses

import numpy as np
import pytest
from run_fixtures import model, run, tokenizer  # noqa: F401

from keras_transformer import BeamSearch, Tokenizer
from keras_transformer.inference import run_folder
from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.weight_files import step_of
from keras_transformer.support import files
from keras_transformer.support.errors import InputError
from keras_transformer.train.averaging import average, choose_checkpoints


def test_average_is_the_mean_of_the_last_checkpoints(run, model, tmp_path):
    start = [weight.numpy() for weight in model.weights]
    for step, factor in ((1, 100.0), (2, 1.0), (3, 4.0)):
        model.set_weights([factor * weight for weight in start])
        run.save_checkpoint(model, step, max_to_keep=5)
    search = BeamSearch(6, length_penalty="power")
    own = dataclasses.replace(run, search=search)
    averaged = average(own, tmp_path / "averaged", last=2)
    step = step_of(averaged.find_checkpoint())
    assert (averaged.search, step) == (search, 3)
    assert averaged.request == run.request
    assert averaged.tokenizer.digest == run.tokenizer.digest
    assert averaged.statistics["averaged"] == [
        f"step-{step:08d}.weights.h5" for step in (2, 3)
    ]
    for ours, theirs in zip(averaged.load_model().weights, start, strict=True):
        np.testing.assert_allclose(ours, 2.5 * theirs, rtol=1e-6)


def checkpoints_at(run, *steps):
    for step in steps:
        (run.path / "checkpoints" / f"step-{step:08d}.weights.h5").touch()
    return run


def test_more_checkpoints_than_there_are(run):
    with pytest.raises(InputError, match=str(run.path)):
        choose_checkpoints(run, 1)
    with pytest.raises(InputError, match="2 checkpoints.*last=3"):
        choose_checkpoints(checkpoints_at(run, 1, 2), 3)


def test_by_default_as_many_as_training_keeps(run):
    checkpoints_at(run, *range(12, 19))
    assert choose_checkpoints(run) == run.checkpoints()[-3:]
    # All of a run that was not trained here.
    (run.path / "train.yaml").unlink()
    assert choose_checkpoints(Run.open(run.path)) == run.checkpoints()


def test_fewer_checkpoints_than_training_keeps_are_averaged(run):
    assert len(choose_checkpoints(checkpoints_at(run, 1_000))) == 1


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Tokenizer, "save_files"),
        (run_folder, "save_weights"),
        (files, "write_json"),
    ],
)
def test_an_average_that_was_interrupted_can_be_repeated(
    run, model, tmp_path, monkeypatch, owner, name
):
    """After each file that it writes."""
    run.save_checkpoint(model, 1, max_to_keep=5)
    original = getattr(owner, name)

    def interrupt(*arguments, **values):
        original(*arguments, **values)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(owner, name, interrupt)
        average(run, tmp_path / "averaged", last=1)
    run.save_checkpoint(model, 2, max_to_keep=5)
    average(run, tmp_path / "averaged", last=1)
    averaged = Run.open(tmp_path / "averaged")
    assert [step_of(path) for path in averaged.checkpoints()] == [2]


@pytest.mark.parametrize("name", ["tokenizer.model", "checkpoints/a.h5"])
def test_other_files_are_not_overwritten(run, tmp_path, name):
    file = tmp_path / "averaged" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(InputError, match="already contains other files"):
        average(run, tmp_path / "averaged", last=1)
    assert file.read_text() == "mine"


def test_a_run_is_not_overwritten(run):
    with pytest.raises(InputError, match="already contains a run"):
        average(run, run.path, last=1)
