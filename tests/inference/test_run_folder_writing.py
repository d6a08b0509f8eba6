"""Writing of run folders; tests/inference/test_run_folder.py reads them."""

import contextlib
import dataclasses
import resource

import keras
import numpy as np
import pytest
from run_fixtures import model, run, tokenizer  # noqa: F401

import keras_transformer as kt
from keras_transformer.inference.weight_files import _HDF5_OVERHEAD, step_of
from keras_transformer.support.files import write_json
from keras_transformer.train.state import save_state


def test_the_newest_checkpoints_are_kept(run, model):
    for step in (9, 10, 100, 1_000):
        run.save_checkpoint(model, step, max_to_keep=2)
    names = [path.name for path in run.checkpoints()]
    assert names == [f"step-{step:08d}.weights.h5" for step in (100, 1_000)]


def test_a_checkpoint_that_fails_leaves_the_old_ones(run, model, monkeypatch):
    run.save_checkpoint(model, 1, max_to_keep=1)

    def fill_the_disk(model, path, **_):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(keras.saving, "save_weights", fill_the_disk)
    with pytest.raises(OSError, match="No space"):
        run.save_checkpoint(model, 2, max_to_keep=1)
    files = list((run.path / "checkpoints").iterdir())
    assert [f.name for f in files] == ["step-00000001.weights.h5"]


def compiled_model(config):
    """A model whose optimizer has moments."""
    model = kt.Transformer(config)
    model.compile(kt.optimizers.adam(16), kt.LabelSmoothedCrossEntropy())
    model.optimizer.build(model.trainable_variables)
    return model


def test_checkpoints_do_not_contain_the_optimizer(run, model, tokenizer):
    size = run.save_checkpoint(model, 1, max_to_keep=1).stat().st_size
    trained = compiled_model(model.config)
    path = run.save_checkpoint(trained, 2, max_to_keep=1)
    assert path.stat().st_size == size
    reserved = sum(4 * np.prod(w.shape) for w in model.weights)
    assert size < reserved + _HDF5_OVERHEAD * len(model.weights)
    for ours, theirs in zip(
        run.load_model().get_weights(), trained.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_full_disk_costs_nothing_but_the_checkpoint(run, model):
    """For real: HDF5 would abort the process."""
    path = run.save_checkpoint(model, 1, max_to_keep=1)
    large = compiled_model(dataclasses.replace(run.config, d_ff=16_384))
    size = 4 * large.count_params()

    def outcomes(limit):
        for save in (
            lambda: run.save_checkpoint(large, 2, max_to_keep=5),
            lambda: save_state(run, large, 0),
        ):
            try:
                with largest_file(limit):
                    save()
                yield "saved"
            except OSError as error:
                yield error.strerror

    # The state, with the optimizer, takes three times the space.
    assert list(outcomes(size // 2)) == ["File too large"] * 2
    assert list(outcomes(2 * size)) == ["saved", "File too large"]
    assert run.checkpoints()[0] == path and len(run.checkpoints()) == 2
    assert run.load_model(path)


@contextlib.contextmanager
def largest_file(size):
    """Limits the size of what this process writes, as a full disk would."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_json_keeps_its_characters(tmp_path):
    path = tmp_path / "values.json"
    write_json(path, {"a": [1, "\u00e4"]})
    assert path.read_text("utf-8") == '{\n  "a": [\n    1,\n    "ä"\n  ]\n}\n'


def test_the_best_checkpoint_is_replaced_by_one_that_is_as_good(run, model):
    for step, score in ((1, 2.0), (2, 3.0), (3, 2.5), (4, 3.0), (5, 0.0)):
        run.save_best(model, step, score)
    assert step_of(run.best_path) == 4


def test_a_later_checkpoint_of_an_interrupted_run_does_not_cost_the_new_one(
    run, model
):
    """Training was stopped after step 9 was written, and resumed from 6."""
    for step in (6, 9, 7):
        run.save_checkpoint(model, step, max_to_keep=1)
    assert [step_of(path) for path in run.checkpoints()] == [7]
