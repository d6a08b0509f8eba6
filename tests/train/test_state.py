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
    save_state,
)


def compiled_model(seed, **config):
    keras.utils.set_random_seed(seed)
    values = {"vocab_size": 300, **digits.TINY, **config}
    model = kt.Transformer(kt.TransformerConfig(**values), name="transformer")
    model.compile(
        kt.optimizers.adam(16, name="adam"), kt.LabelSmoothedCrossEntropy()
    )
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
    model.optimizer.iterations.assign(7)
    save_state(run, model, 7)
    other = compiled_model(1)
    assert load_state(run, other) == 7
    np.testing.assert_equal(values_of(other), values_of(model))
    assert other.optimizer.iterations.numpy() == 7


def test_the_state_has_weights_moments_and_seeds_but_no_metrics(model):
    names = list(model_variables(model))
    metrics = {id(v) for v in model.metrics_variables}
    variables = [v for v in model.variables if id(v) not in metrics]
    assert len(names) == len(variables + model.optimizer.variables)
    weights = len(model.trainable_variables)
    optimizer = len(model.optimizer.variables)
    assert optimizer == 2 * weights + 1  # moments and iterations
    seeds = [name for name in names if "generator" in name]
    assert len(names) == weights + optimizer + len(seeds)
    assert seeds and not any("gradient_norm" in name for name in names)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "missing"])
def test_a_damaged_state_is_refused(model, run, damage):
    path = run.state_path
    save_state(run, model, 0)
    content = path.read_bytes()
    contents = {"cut": content[:-100], "empty": b"", "text": b"no archive"}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(contents[damage])
    with pytest.raises(InputError, match="must be a training state"):
        load_state(run, model)


def test_a_changed_byte_never_gives_another_state(model, run):
    """Every message is the same, whatever NumPy and zipfile raise."""
    save_state(run, model, 0)
    before = values_of(model)
    content = run.state_path.read_bytes()
    refused = 0
    for place in range(0, len(content), len(content) // 50):
        damaged = bytearray(content)
        damaged[place] ^= 1
        run.state_path.write_bytes(damaged)
        try:
            load_state(run, model)
        except InputError as error:
            assert "must be a training state" in str(error)
            refused += 1
        np.testing.assert_equal(values_of(model), before)
    assert refused > 30


def test_a_failure_leaves_the_previous_state(model, run, monkeypatch):
    save_state(run, model, 3)

    def fill(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(OSError, match="No space left on device: .*state.npz"):
        save_state(run, model, 4)
    assert load_state(run, model) == 3
    names = [file.name for file in run.state_path.parent.iterdir()]
    assert names == ["state.npz"]
