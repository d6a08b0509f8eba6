import types

import digits
import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.support.errors import InputError
from keras_transformer.train.state import (
    load_state,
    model_variables,
    read_step,
    save_state,
)


def compiled_model(seed):
    keras.utils.set_random_seed(seed)
    config = kt.TransformerConfig(vocab_size=300, **digits.TINY)
    model = kt.Transformer(config, name="transformer")
    model.compile(
        kt.optimizers.adam(16, name="adam"), kt.LabelSmoothedCrossEntropy()
    )
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture(scope="module")
def model():
    return compiled_model(0)


@pytest.fixture
def run(tmp_path):
    return types.SimpleNamespace(state_path=tmp_path / "state.npz")


def values_of(model):
    return {k: v.numpy() for k, v in model_variables(model).items()}


def test_a_saved_state_is_restored(model, run):
    assert read_step(run) == 0
    model.optimizer.iterations.assign(7)
    save_state(run, model, 7)
    assert read_step(run) == 7
    other = compiled_model(1)
    assert load_state(run, other) == 7
    np.testing.assert_equal(values_of(other), values_of(model))
    assert other.optimizer.iterations.numpy() == 7


def test_the_state_contains_weights_moments_and_seeds_but_no_metrics(model):
    names = list(model_variables(model))
    weights = len(model.trainable_variables)
    optimizer = len(model.optimizer.variables)
    assert optimizer == 2 * weights + 1  # moments and iterations
    seeds = [name for name in names if "generator" in name]
    assert len(names) == weights + optimizer + len(seeds)
    assert seeds and not any("gradient_norm" in name for name in names)


def test_damage_is_found_and_changes_nothing(model, run):
    """Whatever NumPy and zipfile raise."""
    save_state(run, model, 0)
    before = values_of(model)
    content = run.state_path.read_bytes()
    errors = 0
    for place in range(0, len(content), len(content) // 30):
        damaged = bytearray(content)
        damaged[place] ^= 1
        for case in (damaged, content[:place]):
            run.state_path.write_bytes(case)
            try:
                load_state(run, model)
            except InputError as error:
                assert str(run.state_path) in str(error)
                errors += 1
            np.testing.assert_equal(values_of(model), before)
    assert errors > 45


def test_a_state_of_different_variables(model, run):
    save_state(run, model, 0)
    model = types.SimpleNamespace(
        variables=[keras.Variable(0.0, name="other")],
        metrics_variables=[],
        optimizer=model.optimizer,
    )
    with pytest.raises(InputError, match="does not fit.*other"):
        load_state(run, model)


def test_a_failure_leaves_the_previous_state(model, run, monkeypatch):
    save_state(run, model, 3)

    def fill(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(OSError, match="No space left on device"):
        save_state(run, model, 4)
    assert read_step(run) == 3
    names = [file.name for file in run.state_path.parent.iterdir()]
    assert names == ["state.npz"]
