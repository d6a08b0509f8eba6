import dataclasses

import numpy as np
import pytest
from run_fixtures import model, run, tokenizer  # noqa: F401

from keras_transformer import BeamSearch
from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import step_of
from keras_transformer.support.errors import InputError
from keras_transformer.train import averaging
from keras_transformer.train.averaging import average


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


def test_more_checkpoints_than_there_are(run, tmp_path):
    output = tmp_path / "averaged"
    with pytest.raises(InputError, match=str(run.path)):
        average(run, output, 1)
    checkpoints_at(run, 1, 2)
    for last in (3, 0, -1):
        with pytest.raises(InputError, match=f"last must .* 1 to 2.*: {last}$"):
            average(run, output, last)


def test_by_default_as_many_as_training_keeps(run, tmp_path, monkeypatch):
    def averaged(run):
        output = tmp_path / f"averaged-{len(list(tmp_path.iterdir()))}"
        return average(run, output).statistics["averaged"]

    monkeypatch.setattr(averaging, "load_weights", lambda model, path: None)
    assert len(averaged(checkpoints_at(run, 11))) == 1
    names = [
        path.name for path in checkpoints_at(run, *range(12, 19)).checkpoints()
    ]
    assert averaged(run) == names[-3:]
    # All checkpoints of a run that was not trained here.
    (run.path / "train.yaml").unlink()
    assert averaged(Run.open(run.path)) == names


def test_a_run_is_not_overwritten(run):
    with pytest.raises(InputError, match=str(run.path)):
        average(run, run.path, last=1)
