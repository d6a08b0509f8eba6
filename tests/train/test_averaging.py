import numpy as np
import pytest
from run_fixtures import model, run, tokenizer  # noqa: F401

from keras_transformer import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.train.averaging import average
from keras_transformer.train.run import TrainingRun


def test_average_is_the_mean_of_the_last_checkpoints(run, model, tmp_path):
    start = [weight.numpy() for weight in model.weights]
    for step, factor in ((1, 100.0), (2, 1.0), (3, 4.0)):
        model.set_weights([factor * weight for weight in start])
        run.save_checkpoint(model, step, max_to_keep=5)
    averaged = average(run, tmp_path / "averaged", last=2)
    assert averaged.step == 3
    assert averaged.recipe["averaged"] == [
        f"step-{step:08d}.weights.h5" for step in (2, 3)
    ]
    reopened = TrainingRun.open(tmp_path / "averaged").load_model()
    for ours, theirs in zip(reopened.weights, start, strict=True):
        np.testing.assert_allclose(ours, 2.5 * theirs, rtol=1e-6)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (0, "at least 1. Received: last=0"),
        (-1, "at least 1. Received: last=-1"),
        (3, "2 checkpoints. Received: last=3"),
    ],
)
def test_a_number_of_checkpoints_that_is_invalid(
    run, model, tmp_path, last, message
):
    for step in (1, 2):
        run.save_checkpoint(model, step, max_to_keep=5)
    with pytest.raises(InputError, match=message):
        average(run, tmp_path / "averaged", last)
    assert not (tmp_path / "averaged").exists()


def test_by_default_as_many_as_training_keeps(run, model, tmp_path):
    for step in range(7):
        run.save_checkpoint(model, step, max_to_keep=7)
    names = average(run, tmp_path / "averaged").recipe["averaged"]
    assert names == [path.name for path in run.checkpoints()[-3:]]


def test_an_average_that_failed_can_be_repeated(
    run, model, tmp_path, monkeypatch
):
    run.save_checkpoint(model, 1, max_to_keep=5)

    def fill_the_disk(*_, **__):
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Transformer, "save_weights", fill_the_disk)
        with pytest.raises(OSError, match="No space"):
            average(run, tmp_path / "averaged", last=1)
    assert average(run, tmp_path / "averaged", last=1).step == 1


def test_an_average_that_was_killed_can_be_repeated(run, model, tmp_path):
    path = run.save_checkpoint(model, 1, max_to_keep=5)
    left = tmp_path / "averaged" / "checkpoints"
    left.mkdir(parents=True)
    run.tokenizer.save(left.parent / "tokenizer.model")
    (left / f".partial-{path.name}").write_text("half")
    assert average(run, left.parent, last=1).load_model()


@pytest.mark.parametrize("name", ["tokenizer.model", "checkpoints/a.h5"])
def test_other_files_are_not_overwritten(run, model, tmp_path, name):
    run.save_checkpoint(model, 1, max_to_keep=5)
    file = tmp_path / "averaged" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(InputError, match="already contains other files"):
        average(run, tmp_path / "averaged", last=1)
    assert file.read_text() == "mine"


def test_a_checkpoint_of_another_run_is_refused(
    run, model, tmp_path, tokenizer
):
    other = TrainingRun.create(tmp_path / "other", model.config, {}, tokenizer)
    run.save_checkpoint(model, 1, max_to_keep=5)
    other.save_checkpoint(model, 2, max_to_keep=5).rename(
        run.path / "checkpoints" / "step-00000002.weights.h5"
    )
    with pytest.raises(InputError, match=f"run {run.id[:8]}, .*{other.id[:8]}"):
        average(run, tmp_path / "averaged", last=2)
    assert not (tmp_path / "averaged").exists()


def test_a_run_is_not_overwritten(run, model):
    run.save_checkpoint(model, 1, max_to_keep=5)
    with pytest.raises(InputError, match="already contains a run"):
        average(run, run.path, last=1)
